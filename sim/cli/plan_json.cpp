// What `pipesim plan` prints as JSON and CSV.
#include <fmt/format.h>

#include <algorithm>

#include "sim/advice/ranking.h"
#include "sim/cli/plan_report.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/request/result_json.h"

namespace pipesim::cli {
namespace {

// A choice of a layout, as a field of JSON and in a cell of CSV.
struct Choice {
  template <typename T>
  Choice(std::string_view field, const T& own)
      : name(field), value(own), text(fmt::format("{}", own)) {}
  Choice(std::string_view field, bool own) : name(field), value(own), text(own ? "on" : "off") {}
  template <typename T>
  Choice(std::string_view field, const std::optional<T>& own)
      : name(field), value(own), text(own ? fmt::format("{}", *own) : "") {}

  std::string_view name;
  Json value;
  std::string text;
};

std::vector<Choice> choices_of(const PlanSpace& space, const PlanPoint& point) {
  const PlanReplicas& replicas = point.replicas;
  std::optional<std::string_view> gather;
  if (replicas.gather) gather = gather_name(*replicas.gather);
  return {{"schedule", point.schedule.family->name},
          {"stages", point.stages},
          {"virtual_stages", point.schedule.chunks},
          {"tensor_parallel", point.tensor_parallel},
          {"context_parallel", point.context_parallel},
          {"expert_parallel", point.expert_parallel},
          {"expert_tensor_parallel", point.expert_tensor_parallel},
          {"data_parallel", space.data_parallel(point)},
          {"micro_batch_size", point.micro_batch_size},
          {"sequence_parallel", point.sequence_parallel},
          {"recompute", recompute_name(point.recompute)},
          {"zero", replicas.zero},
          {"shard_over", space.shard_over(point)},
          {"gather", gather},
          {"bucket_bytes", replicas.bucket_bytes},
          {"overlap_gather", replicas.gathers_ahead}};
}

Json outcome_json(const PlanView& view, const PlanOutcome& one, const LayersOfStages& layout = {}) {
  const PlanPoint point = view.space.axes().at(one.index);
  return {{"command", plan_command(view.flags, view.space, point, layout)},
          {"layout", plan_layout_json(view.space, point, layout)},
          {"iteration_ns", one.time_ns},
          {"peak_memory_bytes", one.memory_bytes},
          {"mfu", view.space.training(point)
                      .with_ranks(point.stages)
                      .mfu(view.space.microbatches(point), one.time_ns)}};
}

}  // namespace

std::string plan_json(const PlanView& view) {
  const PlanAnswer& answer = view.answer;
  const auto list = [&](const std::vector<PlanOutcome>& outcomes) {
    Json all = Json::array();
    for (const PlanOutcome& one : outcomes) all.push_back(outcome_json(view, one));
    return all;
  };
  Json json{{"format", "pipesim-plan"}, {"version", 1}};
  json["devices"] = view.space.question().devices;
  if (view.from != nullptr) json["from"] = *view.from;
  json["best"] = nullptr;
  json["top"] = Json::array();
  for (const Finalist& one : answer.top) {
    Json own = outcome_json(view, one.outcome, one.layout);
    own["even_iteration_ns"] = one.even_ns;
    if (&one != &answer.top.front() && view.objective != PlanObjective::memory) {
      own["why"] = nullptr;
      if (one.candidate && answer.top.front().candidate) {
        own["why"] = why_not(*one.candidate, *answer.top.front().candidate, view.memory_cap_bytes);
      }
    }
    json["top"].push_back(std::move(own));
  }
  json["best"] = json["top"][0];
  json["without_overlap_ns"] = view.without_overlap_ns;
  json["riskier"] = nullptr;
  if (view.riskier) {
    json["riskier"] = outcome_json(view, view.riskier->outcome, view.riskier->layout);
  }
  const PlanPoint point = view.space.axes().at(answer.top.front().outcome.index);
  const CostModel model = view.space.training(point).with_ranks(point.stages);
  json["error_band"] = error_band_json(error_band(model));
  json["memory_error_band"] = memory_error_band_json(memory_error_band(model));
  json["nearby_batch"] = nullptr;
  if (view.nearby) {
    json["nearby_batch"] = Json{{"global_batch", view.nearby->sequences},
                                {"iteration_ns", view.nearby->best.time_ns},
                                {"gain_per_sequence", view.nearby->gain}};
  }
  json["front"] = list(answer.front);
  json["with_more_memory"] = list(answer.with_more);
  json["by_devices"] = Json::array();
  PlanCounts counts;
  std::int64_t layouts = 0;
  for (const PlanOfDevices& one : view.by_devices) {
    Json own{{"devices", one.devices}, {"command", nullptr}};
    if (one.best) {
      own["command"] = one.command;
      own["layout"] = one.choices;
      own["iteration_ns"] = one.best->time_ns;
      own["peak_memory_bytes"] = one.best->memory_bytes;
      own["mfu"] = one.mfu;
    }
    json["by_devices"].push_back(std::move(own));
    counts += one.counts;
    layouts += one.layouts;
  }
  Json rules = Json::object();
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    rules[std::string(plan_rule_text(static_cast<PlanRule>(rule)))] =
        counts.impossible[static_cast<std::size_t>(rule)];
  }
  json["memory_cap_bytes"] = view.memory_cap_bytes;
  json["certain_memory_bytes"] = view.certain_bytes;
  json["space"] = layouts;
  json["impossible"] = counts.all_impossible();
  json["impossible_by_rule"] = std::move(rules);
  json["too_large"] = counts.too_large;
  json["dominated"] = counts.dominated;
  json["evaluated"] = counts.evaluated;
  json["not_reached"] = counts.not_reached;
  return json.dump(2) + "\n";
}

Json plan_layout_json(const PlanSpace& space, const PlanPoint& point,
                      const LayersOfStages& layers) {
  Json json = Json::object();
  for (Choice& choice : choices_of(space, point)) json.add(choice.name, std::move(choice.value));
  json.add("microbatches", space.microbatches(point));
  json.add("layers", layers);
  return json;
}

std::string plan_csv(const PlanView& view) {
  std::string out = "iteration_ns,peak_memory_bytes,";
  const PlanPoint any = view.space.axes().at(0);
  for (const Choice& choice : choices_of(view.space, any)) out += fmt::format("{},", choice.name);
  out += "command\n";
  for (const PlanOutcome& one : view.answer.result.evaluated) {
    const PlanPoint point = view.space.axes().at(one.index);
    std::string row;
    for (const Choice& choice : choices_of(view.space, point)) {
      row += choice.name == "recompute" ? fmt::format("\"{}\",", choice.text) : choice.text + ",";
    }
    out += fmt::format("{},{},{}\"{}\"\n", one.time_ns, one.memory_bytes, row,
                       plan_command(view.flags, view.space, point, {}));
  }
  return out;
}

}  // namespace pipesim::cli
