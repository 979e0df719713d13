#include "sim/cli/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/cli/shell_command.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/plan/ranking.h"
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

std::vector<std::string> command_words(const PlanView& view, const PlanPoint& point) {
  std::vector<std::string> words{"pipesim"};
  words.insert(words.end(), view.flags.begin(), view.flags.end());
  const std::vector<std::string> own = view.space.flags(point);
  for (const std::string& flag : own) {
    if (flag.starts_with("--")) {
      words.push_back(flag);
    } else {
      words.back() += " " + flag;
    }
  }
  return words;
}

// "8 stages of 12 chunks, 256 replicas that split optimizer states, 2 tensor-parallel ranks".
std::string layout_words(const PlanSpace& space, const PlanPoint& point) {
  std::string text =
      fmt::format("{}, {}", point.schedule.family->name, plural(point.stages, "stage"));
  if (point.schedule.chunks > 1) text += fmt::format(" x {} chunks", point.schedule.chunks);
  text += ", " + plural(point.tensor_parallel, "tensor-parallel rank") + ", " +
          plural(space.data_parallel(point), "replica");
  text += fmt::format(", microbatches of {}", point.micro_batch_size);
  return text;
}

double loss_of(const PlanOutcome& one, const PlanOutcome& best) {
  return static_cast<double>(one.time_ns) / static_cast<double>(best.time_ns) - 1;
}

std::string verdict(const PlanView& view, const Terminal& terminal) {
  const PlanQuestion& question = view.space.question();
  const Cluster& cluster = question.training.cluster;
  std::string text =
      fmt::format("{} on {} {} of {}, {}: ", printable(question.training.model.name),
                  format_count(question.devices), printable(cluster.device.name),
                  printable(cluster.name), plural(question.global_batch, "sequence"));
  if (view.answer.result.best.empty()) {
    text += view.answer.result.counts.not_reached > 0
                ? "the time was over before one that fits was found"
                : "no layout fits";
    return bold(wrap(text, terminal.width), terminal.colour) + "\n";
  }
  const PlanOutcome& best = view.answer.result.best.front();
  const PlanPoint point = view.space.axes().at(best.index);
  const CostModel model = model_of(view.space, point);
  const auto band = error_band(model);
  text += fmt::format("{}{} an iteration, {:.0f} % MFU, {} of {}, with {}; {}",
                      format_time(best.time_ns), band_text(band),
                      model.mfu(view.space.microbatches(point), best.time_ns) * 100,
                      format_bytes(best.memory_bytes), format_bytes(view.memory_cap_bytes),
                      layout_words(view.space, point), validation_text(cluster, band));
  return bold(wrap(text, terminal.width), terminal.colour) + "\n";
}

// One row a layout: `marks` stand before each.
std::string layouts_table(const PlanView& view, const std::vector<PlanOutcome>& outcomes,
                          const std::vector<std::string>& labels, const PlanOutcome& best,
                          std::size_t width) {
  std::vector<Column> columns(12);
  const char* names[] = {"time", "loses %", "memory", "t",    "p",        "v",
                         "d",    "b",       "seq",    "ZeRO", "schedule", "recompute"};
  for (std::size_t c = 0; c < columns.size(); ++c) columns[c].name = names[c];
  for (const PlanOutcome& one : outcomes) {
    const PlanPoint point = view.space.axes().at(one.index);
    const PlanReplicas& replicas = point.replicas;
    std::string zero = std::to_string(replicas.zero);
    if (replicas.within_node) zero += " node";
    if (replicas.gather) zero += fmt::format(" {}", gather_name(*replicas.gather));
    if (replicas.bucket_bytes) zero += fmt::format(" {}MB", *replicas.bucket_bytes / 1'000'000);
    if (replicas.gathers_ahead) zero += " ahead";
    const std::string cells[] = {format_time(one.time_ns),
                                 fmt::format("{:.2f}", loss_of(one, best) * 100),
                                 format_bytes(one.memory_bytes),
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

std::vector<std::string> numbers_of(const std::vector<PlanOutcome>& outcomes) {
  std::vector<std::string> labels{""};
  for (std::size_t i = 1; i <= outcomes.size(); ++i) labels.push_back(std::to_string(i));
  return labels;
}

std::string why_lines(const PlanView& view, int width) {
  const std::vector<Candidate>& top = view.answer.top;
  std::string out;
  for (std::size_t i = 1; i < top.size(); ++i) {
    out +=
        wrap(fmt::format("{:>2}  {}\n", i + 1, why_not(top[i], top.front(), view.memory_cap_bytes)),
             width);
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
  std::string out = "With less memory, the fastest of each:\n";
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
  const PlanResult& result = view.answer.result;
  std::string text;
  const auto cap = static_cast<double>(view.memory_cap_bytes);
  for (const PlanOutcome& one : view.answer.with_more) {
    const double more = static_cast<double>(one.memory_bytes) / cap - 1;
    const PlanPoint point = view.space.axes().at(one.index);
    const std::string gain =
        result.best.empty()
            ? format_time(one.time_ns)
            : fmt::format("{:.2f} % less time", -loss_of(one, result.best.front()) * 100);
    text += fmt::format("With {:.0f} % more memory: {}, by {}.\n", more * 100, gain,
                        layout_words(view.space, point));
  }
  if (text.empty() && result.counts.not_reached == 0 && !result.best.empty()) {
    text = "No amount of memory would make it faster.\n";
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
  row(counts.all_impossible(), "can't be:");
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    const std::int64_t count = counts.impossible[static_cast<std::size_t>(rule)];
    if (count == 0) continue;
    out += fmt::format("{:>18}   unless {}\n", format_count(count),
                       plan_rule_text(static_cast<PlanRule>(rule)));
  }
  row(counts.too_large, "need more memory than there is, at least or exactly");
  row(counts.dominated, "take at least as long as the best, or one that splits work alike");
  row(counts.evaluated, "fit, and were evaluated exactly");
  row(counts.not_reached, "were not looked into: the time was over");
  return out;
}

// What lies within the error of the best, of those that were evaluated.
std::string ties(const PlanView& view, int width) {
  const std::vector<PlanOutcome>& best = view.answer.result.best;
  if (best.size() < 2) return {};
  const PlanPoint point = view.space.axes().at(best.front().index);
  const auto band = error_band(model_of(view.space, point));
  if (!band) {
    return wrap(
        "Nothing is known of the error of such predictions: measure before you choose among "
        "these.\n",
        width);
  }
  std::int64_t within = 0;
  const PlanOutcome* rival = nullptr;
  for (const PlanOutcome& one : view.answer.result.evaluated) {
    if (one.index == best.front().index || loss_of(one, best.front()) > band->fraction) continue;
    ++within;
    const PlanPoint other = view.space.axes().at(one.index);
    const bool is_other_split = other.tensor_parallel != point.tensor_parallel ||
                                other.stages != point.stages ||
                                other.micro_batch_size != point.micro_batch_size;
    if (is_other_split && (rival == nullptr || one.time_ns < rival->time_ns)) rival = &one;
  }
  std::string text =
      fmt::format("{} of those evaluated {} within the error of the best, {:.0f} %.",
                  format_count(within), within == 1 ? "lies" : "lie", band->fraction * 100);
  if (rival != nullptr) {
    const PlanPoint other = view.space.axes().at(rival->index);
    text += fmt::format(
        " The nearest that splits otherwise loses {:.2f} %: {}. One iteration of each tells "
        "them apart.",
        loss_of(*rival, best.front()) * 100, layout_words(view.space, other));
  }
  return wrap(text + "\n", width);
}

Json outcome_json(const PlanView& view, const PlanOutcome& one) {
  const PlanPoint point = view.space.axes().at(one.index);
  return {{"command", plan_command(view, point)},
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
      count(axes.stages, "numbers of stages"), count(axes.micro_batch_size, "micro-batches"),
      count(axes.sequence_parallel, "of sequence parallelism"),
      count(axes.recompute, "recomputations"), count(axes.schedules, "schedules"),
      count(axes.replicas, "choices of replicas"));
}

}  // namespace

std::string plan_command(const PlanView& view, const PlanPoint& point) {
  return fmt::format("{}", fmt::join(command_words(view, point), " "));
}

std::string plan_summary(const PlanView& view, const Terminal& terminal) {
  std::string out = verdict(view, terminal) + "\n";
  const std::vector<PlanOutcome>& best = view.answer.result.best;
  if (best.empty()) return out;
  const PlanPoint point = view.space.axes().at(best.front().index);
  return out + command_text(command_words(view, point), "  ", terminal.width);
}

std::string plan_report(const PlanView& view, const Terminal& terminal) {
  const auto width = static_cast<std::size_t>(terminal.width);
  std::string out = plan_summary(view, terminal) + "\n";
  const std::vector<PlanOutcome>& best = view.answer.result.best;
  if (!best.empty()) {
    out += layouts_table(view, best, numbers_of(best), best.front(), width) + "\n";
    out += why_lines(view, terminal.width) + "\n";
    out += ties(view, terminal.width) + "\n";
    out += front(view, terminal.width);
  }
  out += binding(view, terminal.width);
  out += counts_table(view);
  out += wrap("\nThe space: " + axes_words(view.space.axes()) + ".\n", terminal.width);
  return out;
}

std::string plan_json(const PlanView& view) {
  const PlanAnswer& answer = view.answer;
  const PlanCounts& counts = answer.result.counts;
  const auto list = [&](const std::vector<PlanOutcome>& outcomes) {
    Json all = Json::array();
    for (const PlanOutcome& one : outcomes) all.push_back(outcome_json(view, one));
    return all;
  };
  Json rules = Json::object();
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    rules[std::string(plan_rule_text(static_cast<PlanRule>(rule)))] =
        counts.impossible[static_cast<std::size_t>(rule)];
  }
  Json json{{"format", "pipesim-plan"}, {"version", 1}};
  json["best"] = nullptr;
  if (!answer.result.best.empty()) {
    json["best"] = outcome_json(view, answer.result.best.front());
    const PlanPoint point = view.space.axes().at(answer.result.best.front().index);
    json["error_band"] = error_band_json(error_band(model_of(view.space, point)));
  }
  json["top"] = list(answer.result.best);
  for (std::size_t i = 1; i < answer.top.size(); ++i) {
    json["top"][i]["why"] = why_not(answer.top[i], answer.top.front(), view.memory_cap_bytes);
  }
  json["front"] = list(answer.front);
  json["with_more_memory"] = list(answer.with_more);
  json["memory_cap_bytes"] = view.memory_cap_bytes;
  json["space"] = view.space.axes().size();
  json["impossible"] = counts.all_impossible();
  json["impossible_by_rule"] = std::move(rules);
  json["too_large"] = counts.too_large;
  json["dominated"] = counts.dominated;
  json["evaluated"] = counts.evaluated;
  json["not_reached"] = counts.not_reached;
  return json.dump(2) + "\n";
}

std::string plan_csv(const PlanView& view) {
  std::string out = "iteration_ns,peak_memory_bytes,command\n";
  for (const PlanOutcome& one : view.answer.result.evaluated) {
    out += fmt::format("{},{},\"{}\"\n", one.time_ns, one.memory_bytes,
                       plan_command(view, view.space.axes().at(one.index)));
  }
  return out;
}

std::string plan_certificate_report(const PlanView& view, const PlanPoint& point,
                                    const PlanCertificate& certificate) {
  const std::string command = plan_command(view, point) + "\n\n";
  if (certificate.rule) {
    return command + fmt::format("Impossible: {}.\n", plan_rule_text(*certificate.rule));
  }
  const PlanOutcome& outcome = *certificate.outcome;
  const std::string exact =
      fmt::format("Exactly it takes {} and {}.\n", format_time(outcome.time_ns),
                  format_bytes(outcome.memory_bytes));
  if (certificate.least_memory_bytes > view.memory_cap_bytes ||
      outcome.memory_bytes > view.memory_cap_bytes) {
    return command + fmt::format("Too large: it needs at least {}, and there are {}. {}",
                                 format_bytes(certificate.least_memory_bytes),
                                 format_bytes(view.memory_cap_bytes), exact);
  }
  const std::vector<PlanOutcome>& best = view.answer.result.best;
  if (!best.empty() && certificate.least_time_ns >= best.back().time_ns) {
    return command + fmt::format("Dominated: it takes at least {}, and the best {}. {}",
                                 format_time(certificate.least_time_ns),
                                 format_time(best.front().time_ns), exact);
  }
  return command + fmt::format("Evaluated: it takes {}{}, at least {} by its bound, and {}.\n",
                               format_time(outcome.time_ns),
                               best.empty() ? ""
                                            : fmt::format(", {:.2f} % more than the best",
                                                          loss_of(outcome, best.front()) * 100),
                               format_time(certificate.least_time_ns),
                               format_bytes(outcome.memory_bytes));
}

}  // namespace pipesim::cli
