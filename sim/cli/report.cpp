#include "sim/cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sim/cli/save_flags.h"
#include "sim/cli/training_report.h"
#include "sim/cost/estimate/error_band.h"
#include "traces/base/text.h"
#include "traces/print/picture.h"
#include "traces/print/rank_table.h"
#include "traces/print/tables.h"

namespace pipesim::cli {
namespace {

std::string verdict(const ScheduleChoice& choice, const Prediction& prediction,
                    const std::optional<CostModel>& model,
                    const std::optional<SplitBackward>& split, const Terminal& terminal) {
  const Schedule& schedule = choice.schedule;
  std::string what = model ? name_of(*model) + ", " : "";
  what += schedule_text(choice, prediction.transfers);
  what += ": ";
  const auto band = model ? error_band(*model) : std::nullopt;
  what += fmt::format("{}{}, of which {:.0f} % bubble", format_time(prediction.metrics.makespan_ns),
                      band_text(band), prediction.metrics.global_bubble() * 100);
  if (const int passes = prediction.accumulation.passes; passes > 1) {
    what += fmt::format("; with a step every {}, each takes {} on average",
                        plural(passes, "iteration"), format_time(prediction.steady_iteration_ns()));
  } else if (prediction.metrics.iteration_ends_ns.size() > 1) {
    what += fmt::format("; further iterations take {} each",
                        format_time(prediction.steady_iteration_ns()));
  } else if (split && split->steady_ns < prediction.metrics.makespan_ns) {
    what += fmt::format("; further iterations would take {} each", format_time(split->steady_ns));
  }
  if (model) {
    const std::string rate = throughput_text(
        *model, throughput(*model, schedule.microbatches, prediction.iteration_ns()));
    if (!rate.empty()) what += "; " + rate + "; " + validation_text(model->cluster(), band);
  }
  return bold(wrap(what, terminal.width), terminal.colour) + "\n";
}

std::string closed_form_text(const ScheduleChoice& choice, const Prediction& prediction) {
  if (choice.family == nullptr) return "none for a schedule from a file";
  if (!prediction.closed_form) {
    return fmt::format("{}, but not here: {}", choice.family->bubble, prediction.no_closed_form);
  }
  const auto& closed = *prediction.closed_form;
  const bool global = closed.form.metric == BubbleMetric::global;
  return fmt::format("{} = {}, {} {}: {} (uniform stages and hops; {})", closed.form.formula,
                     format_time(closed.form.bubble_ns), format_percent(closed.fraction),
                     global ? "global" : "span",
                     closed.exact ? "exact here" : "differs from the simulation",
                     choice.family->conditions);
}

// Of times per chunk: what they make of a microbatch on the rank that takes longest for it.
std::string rank_line(const Placement& placement, const Costs& costs, int width) {
  struct Sum {
    std::int64_t forward_ns = 0, backward_ns = 0;
  };
  Sum most;
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    Sum own;
    for (const int stage : placement.stages_of(rank)) {
      if (placement.rank_of(stage) != rank) continue;  // of the second copy
      const StageCosts& chunk = costs.stages[static_cast<std::size_t>(stage)];
      own.forward_ns += chunk.forward_ns;
      own.backward_ns += chunk.backward_input_ns + chunk.backward_weight_ns;
    }
    if (own.forward_ns + own.backward_ns > most.forward_ns + most.backward_ns) most = own;
  }
  return wrap(
      fmt::format("A rank takes {} forward and {} backward per microbatch, in {}; times and "
                  "bytes that are given are of a chunk.\n",
                  format_time(most.forward_ns), format_time(most.backward_ns),
                  plural(placement.virtual_stages(), "chunk")),
      width);
}

std::string bubbles(const ScheduleChoice& choice, const Prediction& prediction) {
  std::string out = bubble_lines(prediction.metrics);
  out += fmt::format("        closed form: {}\n", closed_form_text(choice, prediction));
  out += critical_path_line(prediction.metrics);
  return out;
}

// The cost of transfers waiting for each other.
std::string cost_of_waiting(const ScheduleChoice& choice, const Costs& costs,
                            const Prediction& prediction) {
  if (prediction.transfers.mode == P2p::async || !is_small(choice, costs)) return {};
  const std::int64_t own = prediction.metrics.makespan_ns;
  const std::int64_t async = simulate(choice.schedule, costs).makespan_ns;
  if (own == async) return "Asynchronous transfers would be no faster.\n";
  // They may take longer: concurrent ones share their links.
  return fmt::format("Asynchronous transfers would take {}, {} {}.\n", format_time(async),
                     format_time(std::max(own, async) - std::min(own, async)),
                     async < own ? "less" : "more");
}

// "0-2, 5".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (last > i) out += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string memory_verdict(const Prediction& prediction, std::int64_t cap,
                           const std::optional<CostModel>& model) {
  std::vector<std::size_t> over;
  for (std::size_t r = 0; r < prediction.memory.size(); ++r) {
    if (prediction.memory[r].total() > cap) over.push_back(r);
  }
  const std::int64_t peak = prediction.peak_memory_bytes();
  const auto band = model ? memory_error_band(*model) : std::nullopt;
  const bool is_doubtful =
      model && fit_of(peak, cap, model->cluster().device.memory_bytes, band) == Fit::may_not_fit;
  const char* fit = is_doubtful ? "may not fit" : over.empty() ? "fits" : "does not fit";
  const std::string doubt = is_doubtful ? "; " + memory_band_text(*band) : "";
  if (over.empty()) {
    return fmt::format("memory  {}: the fullest rank holds {}{} of {}{}\n", fit, format_bytes(peak),
                       band_text(band), format_bytes(cap), doubt);
  }
  const auto worst = std::ranges::max_element(
      over, {}, [&](std::size_t r) { return prediction.memory[r].total(); });
  const std::int64_t need = prediction.memory[*worst].total();
  const auto ranks = static_cast<std::int64_t>(prediction.memory.size());
  const bool is_some = over.size() > 1 && std::ssize(over) < ranks;
  return fmt::format("memory  {}: {} of {}{} {} {}; rank {} needs {}{}, {} too much{}\n", fit,
                     over.size(), plural(ranks, "rank"),
                     is_some ? fmt::format(" ({})", ranks_text(over)) : "",
                     over.size() == 1 ? "exceeds" : "exceed", format_bytes(cap), *worst,
                     format_bytes(need), band_text(band), format_bytes(need - cap), doubt);
}

// How to make the training fit.
std::string way_to_fit(const ScheduleChoice& choice, const Costs& costs,
                       const Prediction& prediction, const CostModel& model, std::int64_t cap,
                       const OtherFlags& other) {
  constexpr std::int64_t max_slots = 400'000;  // of a few simulations
  if (prediction.peak_memory_bytes() <= cap || !is_small(choice, costs, max_slots)) return {};
  return remedies_line(model, prediction, cap, other);
}

std::string limits_text(const ScheduleChoice& choice, const Costs& costs,
                        const Prediction& prediction, const ScheduleFlags& flags,
                        const CostSource& source, std::optional<std::int64_t> memory_cap,
                        const std::vector<std::string>& arguments, const OtherFlags& other,
                        int width) {
  if (!is_small(choice, costs)) return {};
  LimitsQuestion question{
      choice, costs, prediction, {}, trial_with(source, choice.schedule.placement), memory_cap};
  if (choice.family != nullptr) question.request = parse_request(flags);
  LimitsContext context;
  context.makespan_ns = prediction.metrics.makespan_ns;
  context.is_async = prediction.transfers.mode == P2p::async;
  context.microbatches = choice.schedule.microbatches;
  if (!source.by_layer()) context.chunks = choice.schedule.placement.chunks();
  context.memory_cap_bytes = memory_cap;
  context.program = {"pipesim"};
  if (choice.family == nullptr) context.file = choice.schedule.name;
  context.arguments = arguments;
  const auto model = source.cost_model(choice.schedule.ranks());
  const bool is_by_stage = model && model->training().recompute.blocks > 0;  // can't be balanced
  if (source.by_layer() && !is_by_stage) context.partition = {"pipesim", "partition"};
  std::vector<Limit> limits = find_limits(question);
  if (model && prediction.metrics.iteration_ends_ns.size() == 1) {
    const std::int64_t certain =
        certain_bytes(memory_cap.value_or(model->cluster().device.memory_bytes),
                      model->cluster().device.memory_bytes, memory_error_band(*model));
    for (Limit& one :
         find_switches(*model, choice, prediction.metrics.makespan_ns, certain, other)) {
      limits.push_back(std::move(one));
    }
    std::ranges::stable_sort(limits, std::greater(), &Limit::gain_ns);
  }
  return limits_report(limits, context, width);
}

}  // namespace

std::string schedule_text(const ScheduleChoice& choice, const Transfers& transfers) {
  const Schedule& schedule = choice.schedule;
  std::string text = fmt::format("{}, {}, {}", title_of(choice), shape_text(schedule.placement),
                                 plural(schedule.microbatches, "microbatch"));
  if (transfers.mode != P2p::async) text += fmt::format(", {} transfers", p2p_name(transfers.mode));
  return text;
}

TimelinePanel timeline_of(const PreparedPrediction& prepared, const Prediction& prediction) {
  const Schedule& schedule = prepared.choice.schedule;
  const std::vector<std::int64_t>& ends_ns = prediction.metrics.iteration_ends_ns;
  TimelinePanel panel;
  panel.chunk_of_stage = schedule.placement.chunk_of_stage();
  panel.actions_of_rank = schedule.actions.lengths();
  for (std::size_t& length : panel.actions_of_rank) length *= ends_ns.size();
  panel.makespan_ns = ends_ns.back();
  panel.replay = [&prepared, &prediction](const SpanSink& sink) {
    SimulationOptions options;
    options.sink = sink;
    options.transfers = prediction.transfers;
    options.iterations = static_cast<int>(prediction.metrics.iteration_ends_ns.size());
    options.accumulation = prediction.accumulation;
    options.saves = prediction.saves;
    simulate(prepared.choice.schedule, prepared.costs, options);
  };
  return panel;
}

std::string report(const PreparedPrediction& prepared, const Prediction& prediction,
                   const std::optional<SaveEffect>& saves, const ScheduleFlags& flags,
                   const std::vector<std::string>& arguments, const OtherFlags& other,
                   const Terminal& terminal) {
  const auto& [source, choice, model, memory_cap, costs, options] = prepared;
  // Limits are those of an iteration without a save.
  const Prediction plain = saves ? prepared.predict_plain() : prediction;
  const std::optional<SplitBackward> split = split_backward(prepared);
  std::string sentences = bubbles(choice, prediction);
  if (split && split->chunks_until_weights > prediction.metrics.peak_activation_chunks()) {
    sentences += fmt::format(
        "held    until its W a microbatch needs part of its activations: counted so, the fullest "
        "rank has {} in flight, not {}\n",
        split->chunks_until_weights, prediction.metrics.peak_activation_chunks());
  }
  if (memory_cap) sentences += memory_verdict(prediction, *memory_cap, model);
  if (model) sentences += way_to_fit(choice, costs, prediction, *model, *memory_cap, other);
  if (saves) sentences += save_line(*saves);
  sentences += cost_of_waiting(choice, costs, plain);
  const Placement& placement = choice.schedule.placement;
  const std::string of_rank = placement.virtual_stages() > 1 && !source.by_layer()
                                  ? rank_line(placement, costs, terminal.width)
                                  : "";
  return verdict(choice, prediction, model, split, terminal) + of_rank + "\n" +
         draw(timeline_of(prepared, prediction), terminal) + "\n" +
         rank_text(prediction.metrics, terminal.width) + "\n" +
         memory_text(prediction.memory, terminal.width) + wrap(sentences, terminal.width) + "\n" +
         limits_text(choice, costs, plain, flags, source, memory_cap, arguments, other,
                     terminal.width);
}

}  // namespace pipesim::cli
