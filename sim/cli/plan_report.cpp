#include "sim/cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/shell_command.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/plan/measurement.h"
#include "sim/request/result_json.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

CostModel model_of(const PlanSpace& space, const PlanPoint& point) {
  return space.training(point).with_ranks(point.stages);
}

std::vector<std::string> command_words(const std::vector<std::string>& flags,
                                       const PlanSpace& space, const PlanPoint& point,
                                       const LayersOfStages& layout) {
  std::vector<std::string> words{"pipesim"};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::vector<std::string> own = space.flags(point);
  for (const std::string& flag : own) {
    if (flag.starts_with("--")) {
      words.push_back(flag);
    } else {
      words.back() += " " + flag;
    }
  }
  if (layout) words.push_back(fmt::format("--layout {}", fmt::join(*layout, ",")));
  return words;
}

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

double loss_of(const PlanOutcome& one, const PlanOutcome& best) {
  return static_cast<double>(one.time_ns) / static_cast<double>(best.time_ns) - 1;
}

double more_memory(const PlanOutcome& one, const PlanOutcome& best) {
  return static_cast<double>(one.memory_bytes) / static_cast<double>(best.memory_bytes) - 1;
}

std::string verdict(const PlanView& view, const Terminal& terminal) {
  const PlanQuestion& question = view.space.question();
  const Cluster& cluster = question.training.cluster;
  std::string text =
      fmt::format("{} on {} {} of {}, {}: ", printable(question.training.model.name),
                  format_count(question.devices), printable(cluster.device.name),
                  printable(cluster.name), plural(question.global_batch, "sequence"));
  const PlanOutcome& best = view.answer.top.front().outcome;
  const PlanPoint point = view.space.axes().at(best.index);
  const CostModel model = model_of(view.space, point);
  const auto band = error_band(model);
  text += fmt::format("{}{} per iteration, {:.0f} % MFU, {}{} of {}, with {}; {}",
                      format_time(best.time_ns), band_text(band),
                      model.mfu(view.space.microbatches(point), best.time_ns) * 100,
                      format_bytes(best.memory_bytes), band_text(memory_error_band(model)),
                      format_bytes(view.memory_cap_bytes), plan_layout_words(view.space, point),
                      validation_text(cluster, band));
  return bold(wrap(text, terminal.width), terminal.colour) + "\n";
}

// Whether the best fits for sure; and, where known, what the fastest of those that do takes.
std::string memory_doubt(const PlanView& view, int width) {
  const PlanOutcome& best = view.answer.top.front().outcome;
  const auto band = memory_error_band(model_of(view.space, view.space.axes().at(best.index)));
  const std::int64_t device_bytes = view.space.question().training.cluster.device.memory_bytes;
  if (!may_not_fit(best.memory_bytes, view.memory_cap_bytes, device_bytes, band)) return {};
  const std::int64_t cap = cap_with_margin(std::max(view.memory_cap_bytes, device_bytes), *band);
  constexpr std::int64_t mebibyte = 1 << 20;
  std::string text = fmt::format("It may not fit: {}. --memory-cap {}MiB leaves that margin",
                                 memory_band_text(*band), cap / mebibyte);
  const auto safe = std::ranges::find_if(
      view.answer.front.rbegin(), view.answer.front.rend(),
      [&](const PlanOutcome& one) { return one.memory_bytes <= cap / mebibyte * mebibyte; });
  if (safe != view.answer.front.rend()) {
    text += fmt::format(": {} or less", format_time(safe->time_ns));
  }
  return wrap(text + ".\n", width) + "\n";
}

std::string nearby_batch_text(const PlanView& view, int width) {
  if (!view.nearby) return {};
  const PlanSpace& space = view.space;
  const PlanPoint best = space.axes().at(view.answer.top.front().outcome.index);
  std::string text = fmt::format(
      "With --global-batch {} an iteration takes {}, {:.0f} % less per "
      "sequence",
      view.nearby->sequences, format_time(view.nearby->best.time_ns), view.nearby->gain * 100);
  if (view.nearby->data_parallel > space.data_parallel(best)) {
    text += fmt::format(
        ": {} share {} evenly, but not {}", plural(view.nearby->data_parallel, "replica"),
        format_count(view.nearby->sequences), format_count(space.question().global_batch));
  }
  return wrap(text + ".\n", width) + "\n";
}

// One row a layout: `marks` stand before each.
std::string layouts_table(const PlanView& view, const std::vector<PlanOutcome>& outcomes,
                          const std::vector<std::string>& labels, const PlanOutcome& best,
                          std::size_t width) {
  std::int64_t most_bytes = 0;
  for (const PlanOutcome& one : outcomes) most_bytes = std::max(most_bytes, one.memory_bytes);
  constexpr std::int64_t gibibyte = 1 << 30;
  constexpr std::int64_t mebibyte = 1 << 20;
  const bool is_small = most_bytes < 10 * gibibyte;
  std::vector<Column> columns(12);
  std::int64_t longest = 0;
  for (const PlanOutcome& one : outcomes) longest = std::max(longest, one.time_ns);
  const TableUnit unit = table_unit(longest);
  const std::string names[] = {fmt::format("{}", unit.name),
                               "loses %",
                               is_small ? "MiB" : "GiB",
                               "t",
                               "p",
                               "v",
                               "d",
                               "b",
                               "seq",
                               "ZeRO",
                               "schedule",
                               "recompute"};
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].name = names[c];
  if (view.objective == PlanObjective::memory) columns[1].name = "holds more %";
  for (const PlanOutcome& one : outcomes) {
    const PlanPoint point = view.space.axes().at(one.index);
    const PlanReplicas& replicas = point.replicas;
    std::string zero = std::to_string(replicas.zero);
    if (replicas.within_node) zero += " node";
    if (replicas.gather) zero += fmt::format(" {}", gather_name(*replicas.gather));
    if (replicas.bucket_bytes) zero += fmt::format(" {}MB", *replicas.bucket_bytes / 1'000'000);
    if (replicas.gathers_ahead) zero += " ahead";
    const std::string cells[] = {
        unit.text(one.time_ns),
        fmt::format("{:.2f}", (view.objective == PlanObjective::memory ? more_memory(one, best)
                                                                       : loss_of(one, best)) *
                                  100),
        fmt::format("{:.1f}", static_cast<double>(one.memory_bytes) /
                                  static_cast<double>(is_small ? mebibyte : gibibyte)),
        std::to_string(point.tensor_parallel),
        std::to_string(point.stages),
        std::to_string(point.schedule.chunks),
        std::to_string(view.space.data_parallel(point)),
        std::to_string(point.micro_batch_size),
        point.sequence_parallel ? "yes" : "no",
        zero,
        std::string(point.schedule.family->name),
        recompute_name(point.recompute)};
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  std::vector<ColumnGroup> groups;
  for (Column& column : columns) groups.push_back({"", {std::move(column)}});
  return table(labels, groups, width);
}

// The best, numbered; one whose layers are split anew has a mark.
std::string top_table(const PlanView& view, std::size_t width) {
  const std::vector<Finalist>& top = view.answer.top;
  std::vector<PlanOutcome> outcomes;
  std::vector<std::string> labels{""};
  bool any_split = false;
  for (std::size_t i = 0; i < top.size(); ++i) {
    outcomes.push_back(top[i].outcome);
    labels.push_back(fmt::format("{}{}", i + 1, top[i].layout ? "*" : ""));
    any_split = any_split || top[i].layout;
  }
  std::string out = layouts_table(view, outcomes, labels, outcomes.front(), width);
  out += wrap(
      fmt::format("t tensor-parallel ranks, p stages, v chunks per rank, d replicas, b micro-batch "
                  "size, seq sequence parallelism; ZeRO: stage, --gather, --bucket-bytes, and "
                  "ahead where weights are gathered during forwards{}\n\n",
                  any_split ? "; *: layers rebalanced" : ""),
      static_cast<int>(width));
  for (std::size_t i = 0; i < top.size(); ++i) {
    if (!top[i].layout) continue;
    out += wrap(fmt::format("*{} {} less with layers split as {}\n", i + 1,
                            format_time(top[i].even_ns - top[i].outcome.time_ns),
                            fmt::join(*top[i].layout, ",")),
                static_cast<int>(width));
  }
  return any_split ? out + "\n" : out;
}

std::string why_lines(const PlanView& view, int width) {
  const std::vector<Finalist>& top = view.answer.top;
  std::string out;
  for (std::size_t i = 1; i < top.size(); ++i) {
    if (!top[i].candidate || !top.front().candidate) continue;
    const std::string why =
        why_not(*top[i].candidate, *top.front().candidate, view.memory_cap_bytes);
    constexpr int margin = 4;
    const std::string lines = wrap(why, width - margin);
    std::string number = std::to_string(i + 1);
    for (const std::string_view line : split(lines, '\n')) {
      out += fmt::format("{:>2}  {}\n", std::exchange(number, ""), line);
    }
  }
  return out;
}

// The front of time against memory, as bars of both.
std::string front(const PlanView& view, int width) {
  const std::vector<PlanOutcome>& all = view.answer.front;
  if (all.size() < 2) return {};
  std::int64_t longest = 0;
  for (const PlanOutcome& one : all) longest = std::max(longest, one.time_ns);
  constexpr int margin = 44;
  const auto bar = [&](double share, char mark) {
    const int size = std::clamp((width - margin) / 2, 4, 40);
    const int filled = std::clamp(static_cast<int>(share * size + 0.5), 1, size);
    return std::string(static_cast<std::size_t>(filled), mark) +
           std::string(static_cast<std::size_t>(size - filled), ' ');
  };
  std::string out = "The fastest with less memory:\n";
  for (const PlanOutcome& one : all) {
    const double time = static_cast<double>(one.time_ns) / static_cast<double>(longest);
    const double memory =
        static_cast<double>(one.memory_bytes) / static_cast<double>(view.memory_cap_bytes);
    const PlanPoint point = view.space.axes().at(one.index);
    out += fmt::format("{:>11} {} {:>9} {}  t {} p {}\n", format_time(one.time_ns), bar(time, '#'),
                       format_bytes(one.memory_bytes), bar(memory, '='), point.tensor_parallel,
                       point.stages);
  }
  return out + "\n";
}

std::string binding(const PlanView& view, int width) {
  if (view.answer.front.empty()) return {};
  std::string text;
  double said = 0;
  const auto cap = static_cast<double>(view.memory_cap_bytes);
  for (const PlanOutcome& one : view.answer.with_more) {
    const double more = static_cast<double>(one.memory_bytes) / cap - 1;
    const double gain = -loss_of(one, view.answer.front.back());
    constexpr double min_gain = 0.01;  // on what is said before
    if (gain < said + min_gain) continue;
    said = gain;
    const PlanPoint point = view.space.axes().at(one.index);
    text += fmt::format("With {:.0f} % more memory: {:.2f} % less time, using {}.\n", more * 100,
                        gain * 100, plan_layout_words(view.space, point));
  }
  if (text.empty() && view.answer.is_whole) {
    text = "No amount of memory would make it 1 % faster.\n";
  }
  if (text.empty()) return text;
  return wrap(text, width) + "\n";
}

std::string counts_table(const PlanView& view) {
  const PlanCounts& counts = view.answer.result.counts;
  std::string out = fmt::format("{} layouts, of which\n", format_count(view.space.axes().size()));
  const auto row = [&](std::int64_t count, std::string_view what) {
    if (count > 0) out += fmt::format("{:>14} {}\n", format_count(count), what);
  };
  row(counts.all_impossible(), "are impossible, by these rules:");
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    const std::int64_t count = counts.impossible[static_cast<std::size_t>(rule)];
    if (count == 0) continue;
    out += fmt::format("{:>18}   {}\n", format_count(count),
                       plan_rule_text(static_cast<PlanRule>(rule)));
  }
  row(counts.too_large, "need too much memory, by a lower bound or exactly");
  row(counts.dominated, "are no faster than the best, or one like them");
  row(counts.evaluated, "fit, and were evaluated exactly");
  row(counts.not_reached, "were not examined within --budget");
  return out;
}

std::string measurement_words(const PlanView& view, const Finalist& best, const Finalist& rival,
                              double error) {
  const PlanPoint one = view.space.axes().at(best.outcome.index);
  const PlanPoint other = view.space.axes().at(rival.outcome.index);
  const auto both = [](int a, int b) {
    return a == b ? format_count(a) : fmt::format("{} and {}", format_count(a), format_count(b));
  };
  switch (cheapest_measurement(one, best, other, rival, error)) {
    case Measurement::none:
      return "They compute the same: their differences follow from their schedules, and no "
             "measurement is needed.";
    case Measurement::block: {
      const bool recompute_alike = one.recompute == other.recompute;
      const auto how = [&](const PlanPoint& point) {
        return fmt::format(
            "{} on {}{}", plural(point.micro_batch_size, "sequence"),
            plural(point.tensor_parallel, "device"),
            recompute_alike ? "" : ", recomputing " + recompute_name(point.recompute));
      };
      return fmt::format(
          "Cheapest way to tell them apart: a forward and a backward of one block, with "
          "{}, and with {}.",
          how(one), how(other));
    }
    case Measurement::replica:
      return fmt::format(
          "Cheapest way to tell them apart: an iteration of one replica of each, on {} "
          "devices.",
          both(one.tensor_parallel * one.stages, other.tensor_parallel * other.stages));
    case Measurement::iteration: break;
  }
  return fmt::format("Nothing smaller than an iteration of each, on all {}, tells them apart.",
                     plural(view.space.question().devices, "device"));
}

// What lies within the error of the best, of those that were evaluated.
std::string ties(const PlanView& view, int width) {
  const std::vector<Finalist>& top = view.answer.top;
  if (top.size() < 2) return {};
  const PlanOutcome& best = top.front().outcome;
  const PlanPoint point = view.space.axes().at(best.index);
  const auto band = error_band(model_of(view.space, point));
  if (!band) {
    return wrap(
        "The error of such predictions is not known: measure before you choose among "
        "these.\n",
        width);
  }
  const auto is_within = [&](const PlanOutcome& one) {
    return one.index != best.index && loss_of(one, best) <= band->fraction;
  };
  const auto within = std::ranges::count_if(view.answer.result.evaluated, is_within);
  std::string text = fmt::format("{} of those evaluated {} within the error of the best, {:.0f} %.",
                                 within == 0 ? "None" : format_count(within),
                                 within > 1 ? "lie" : "lies", band->fraction * 100);
  const auto rival = std::ranges::find_if(top, [&](const Finalist& one) {
    const PlanPoint other = view.space.axes().at(one.outcome.index);
    const bool is_other_split = other.tensor_parallel != point.tensor_parallel ||
                                other.stages != point.stages ||
                                other.micro_batch_size != point.micro_batch_size;
    return is_other_split && is_within(one.outcome);
  });
  if (rival != top.end()) {
    const PlanPoint other = view.space.axes().at(rival->outcome.index);
    text += fmt::format(" The nearest with another split loses {:.2f} %: {}. {}",
                        loss_of(rival->outcome, best) * 100, plan_layout_words(view.space, other),
                        top.front().candidate && rival->candidate
                            ? measurement_words(view, top.front(), *rival, band->fraction)
                            : "");
  }
  return wrap(text + "\n", width);
}

// Of each number of devices the best.
std::string devices_table(const PlanView& view, std::size_t width) {
  if (view.by_devices.size() < 2) return {};
  std::vector<Column> columns(5);
  const char* names[] = {"time", "device-hours", "MFU", "memory", "layout"};
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].name = names[c];
  std::vector<std::string> labels{"devices"};
  for (const PlanOfDevices& one : view.by_devices) {
    labels.push_back(format_count(one.devices));
    if (!one.best) {
      for (Column& column : columns) column.cells.emplace_back("-");
      columns.back().cells.back() = one.counts.not_reached > 0 ? "time ran out" : "nothing fits";
      continue;
    }
    const std::string cells[] = {
        format_time(one.best->time_ns),
        fmt::format("{:.2f}", static_cast<double>(one.best->time_ns) * 1e-9 * one.devices / 3600),
        fmt::format("{:.0f} %", one.mfu * 100), format_bytes(one.best->memory_bytes), one.layout};
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].cells.push_back(cells[c]);
  }
  std::vector<ColumnGroup> groups;
  for (Column& column : columns) groups.push_back({"", {std::move(column)}});
  return "The best for each number of devices:\n\n" + table(labels, groups, width) + "\n";
}

Json outcome_json(const PlanView& view, const PlanOutcome& one, const LayersOfStages& layout = {}) {
  const PlanPoint point = view.space.axes().at(one.index);
  return {{"command", plan_command(view.flags, view.space, point, layout)},
          {"layout", plan_layout_json(view.space, point, layout)},
          {"iteration_ns", one.time_ns},
          {"peak_memory_bytes", one.memory_bytes},
          {"mfu", model_of(view.space, point).mfu(view.space.microbatches(point), one.time_ns)}};
}

std::string axes_words(const PlanAxes& axes) {
  const auto count = [](const auto& values, std::string_view what) {
    return fmt::format("{} {}", std::ssize(values), what);
  };
  return fmt::format(
      "{} x {} x {} x {} x {} x {} x {}", count(axes.tensor_parallel, "tensor-parallel degrees"),
      count(axes.stages, "stage counts"), count(axes.micro_batch_size, "micro-batch sizes"),
      count(axes.sequence_parallel, "sequence-parallel settings"),
      count(axes.recompute, "recompute settings"), count(axes.schedules, "schedules"),
      count(axes.replicas, "replica settings"));
}

}  // namespace

std::string plan_layout_words(const PlanSpace& space, const PlanPoint& point) {
  const std::string_view schedule = point.schedule.family->name;
  std::string text = fmt::format("{}, {}", schedule, plural(point.stages, "stage"));
  if (point.stages == 1) {
    text = schedule == "1f1b" ? "no pipeline" : fmt::format("no pipeline, {}", schedule);
  }
  if (point.schedule.chunks > 1) text += fmt::format(" x {} chunks", point.schedule.chunks);
  text += ", " + plural(point.tensor_parallel, "tensor-parallel rank") + ", " +
          plural(space.data_parallel(point), "replica");
  text += fmt::format(", micro-batch size {}", point.micro_batch_size);
  return text;
}

std::string plan_command(const std::vector<std::string>& flags, const PlanSpace& space,
                         const PlanPoint& point, const LayersOfStages& layers) {
  return fmt::format("{}", fmt::join(command_words(flags, space, point, layers), " "));
}

std::string plan_summary(const PlanView& view, const Terminal& terminal) {
  const Finalist& best = view.answer.top.front();
  const PlanPoint point = view.space.axes().at(best.outcome.index);
  return verdict(view, terminal) + "\n" +
         command_text(command_words(view.flags, view.space, point, best.layout), "  ",
                      terminal.width);
}

std::string plan_report(const PlanView& view, const Terminal& terminal) {
  const auto width = static_cast<std::size_t>(terminal.width);
  std::string out = plan_summary(view, terminal) + "\n";
  out += memory_doubt(view, terminal.width);
  out += nearby_batch_text(view, terminal.width);
  out += devices_table(view, width);
  out += top_table(view, width);
  if (view.objective != PlanObjective::memory) {
    out += why_lines(view, terminal.width) + "\n";
    out += ties(view, terminal.width) + "\n";
  }
  out += front(view, terminal.width);
  out += binding(view, terminal.width);
  out += counts_table(view);
  out += wrap("\nSearch space: " + axes_words(view.space.axes()) + ".\n", terminal.width);
  return out;
}

std::string plan_json(const PlanView& view) {
  const PlanAnswer& answer = view.answer;
  const auto list = [&](const std::vector<PlanOutcome>& outcomes) {
    Json all = Json::array();
    for (const PlanOutcome& one : outcomes) all.push_back(outcome_json(view, one));
    return all;
  };
  Json json{{"format", "pipesim-plan"}, {"version", 1}};
  json["devices"] = view.space.question().devices;
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
  const PlanPoint point = view.space.axes().at(answer.top.front().outcome.index);
  json["error_band"] = error_band_json(error_band(model_of(view.space, point)));
  json["memory_error_band"] =
      memory_error_band_json(memory_error_band(model_of(view.space, point)));
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
