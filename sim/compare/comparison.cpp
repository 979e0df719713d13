#include "sim/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/compare/history.h"
#include "sim/compare/join_inputs.h"
#include "sim/compare/rank_comparison.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string holdings(const RecordedRun& run, const RecordedIteration& iteration) {
  const std::size_t spans = iteration.end - iteration.begin;
  if (spans == 0) return fmt::format("{} holds no action", run.name);
  return fmt::format(
      "{} holds {} per iteration, of {} and {}, the first {}", run.name,
      plural(static_cast<std::int64_t>(spans), "action"),
      plural(static_cast<std::int64_t>(run.about.rank_of_stage.size()), "virtual stage"),
      plural(run.microbatches, "microbatch"), to_text(run.spans[iteration.begin].action));
}

// Busy time, bubbles and chunks of each rank.
std::vector<RankMetrics> metrics_of(const Operations& operations, Side side,
                                    std::int64_t makespan_ns) {
  const auto& occurrences = operations.sides[side];
  std::vector<RankMetrics> ranks;
  for (const auto& list : operations.lists[side]) {
    RankAccount account;
    for (const OperationId id : list) {
      const Occurrence& own = occurrences[id];
      const Action& action = operations.actions[id];
      const bool received = own.input != no_operation && operations.transfers(own.input);
      RankAccount::Work work{own.start_ns, own.end_ns,
                             received ? occurrences[own.input].sent_ns : 0,
                             received ? occurrences[own.input].end_ns : 0};
      if (own.awaits_collective() && own.collective_arrival_ns > work.input_arrival_ns) {
        work.input_sent_ns = own.collective_since_ns;
        work.input_arrival_ns = own.collective_arrival_ns;
      }
      const RankAccount::Outcome outcome = account.occupy(work);
      if (is_closing(action)) account.close(action.kind, outcome.fresh_ns);
      if (!is_compute(action.kind)) continue;
      account.pass(action.kind);
      account.memory.step(action, {}, own.start_ns, own.end_ns);
    }
    ranks.push_back(account.finish(makespan_ns));
  }
  return ranks;
}

double global_bubble(const std::vector<RankMetrics>& ranks, std::int64_t makespan_ns) {
  if (ranks.empty() || makespan_ns == 0) return 0;
  double busy = 0;
  for (const RankMetrics& rank : ranks) busy += static_cast<double>(rank.busy_ns);
  return 1 - busy / (static_cast<double>(ranks.size()) * static_cast<double>(makespan_ns));
}

std::optional<Divergence> find_divergence(const Comparison& comparison) {
  const auto path_of = [&](Side side) {
    std::vector<Action> path;
    for (const OperationId id : comparison.sides[side].played.critical_path) {
      if (!comparison.operations.transfers(id)) path.push_back(comparison.operations.actions[id]);
    }
    return path;
  };
  const std::vector<Action> predicted = path_of(predicted_side);
  const std::vector<Action> measured = path_of(measured_side);
  const auto [p, m] = std::ranges::mismatch(predicted, measured);
  if (p == predicted.end() && m == measured.end()) return std::nullopt;
  Divergence divergence;
  if (p != predicted.begin()) divergence.last_common = *(p - 1);
  if (p != predicted.end()) divergence.next[predicted_side] = *p;
  if (m != measured.end()) divergence.next[measured_side] = *m;
  return divergence;
}

// Of the actions that both do on the same rank, the fewest whose removal leaves
// both orders alike: those outside a longest increasing run of predicted places.
void check_order(Comparison& comparison) {
  const Operations& operations = comparison.operations;
  std::vector<std::int64_t> place(operations.size(), -1);
  for (const auto& list : operations.lists[predicted_side]) {
    for (std::size_t i = 0; i < list.size(); ++i) place[list[i]] = static_cast<std::int64_t>(i);
  }
  for (const auto& list : operations.lists[measured_side]) {
    std::vector<OperationId> both;
    for (const OperationId id : list) {
      if (is_host_call(operations.actions[id])) continue;
      const auto& predicted = operations.sides[predicted_side][id];
      if (predicted.exists() && predicted.rank == operations.sides[measured_side][id].rank) {
        both.push_back(id);
      }
    }
    // Patience sorting: tails[k] ends the run of length k + 1 with the lowest end.
    std::vector<std::size_t> tails;
    std::vector<std::ptrdiff_t> before(both.size(), -1);
    for (std::size_t i = 0; i < both.size(); ++i) {
      const auto at = std::ranges::lower_bound(tails, place[both[i]], {},
                                               [&](std::size_t j) { return place[both[j]]; });
      if (at != tails.begin()) before[i] = static_cast<std::ptrdiff_t>(*(at - 1));
      if (at == tails.end()) {
        tails.push_back(i);
      } else {
        *at = i;
      }
    }
    std::vector<bool> stays(both.size(), false);
    for (auto i = tails.empty() ? -1 : static_cast<std::ptrdiff_t>(tails.back()); i >= 0;
         i = before[static_cast<std::size_t>(i)]) {
      stays[static_cast<std::size_t>(i)] = true;
    }
    comparison.in_order += static_cast<std::int64_t>(tails.size());
    for (std::size_t i = 0; i < both.size(); ++i) {
      if (!stays[i]) comparison.swapped.push_back(both[i]);
    }
  }
}

// How much later each operation that both have ends, by cause.
std::vector<Lateness> explain(const Comparison& comparison, const std::array<Values, 2>& values) {
  const Operations& operations = comparison.operations;
  std::vector<Lateness> all(operations.size());
  for (OperationId id = 0; id < operations.size(); ++id) {
    if (!operations.matched(id) || operations.transfers(id)) continue;
    // Of the way of the input that it waited for.
    const auto travelled = [&](Side side) {
      const ReplayTimes& played = comparison.sides[side].played;
      const OperationId awaited = played.awaited[id];
      if (awaited == no_operation || awaited != operations.sides[side][id].input ||
          !operations.transfers(awaited)) {
        return std::int64_t{0};
      }
      const OperationId producer = operations.sides[side][awaited].input;
      return played.end_ns[awaited] - played.end_ns[producer];
    };
    const auto difference = [&](const auto& of) { return of(measured_side) - of(predicted_side); };
    Lateness& own = all[id];
    own.own_ns = difference([&](Side side) { return values[side].duration[id]; });
    own.launch_ns = difference([&](Side side) { return values[side].gap[id]; });
    own.communication_ns = difference(travelled);
    own.inherited_ns =
        difference([&](Side side) { return comparison.sides[side].played.ready_ns[id]; }) -
        own.communication_ns;
    own.communication_ns += difference([&](Side side) { return values[side].exchange[id]; });
  }
  return all;
}

// Durations of the measured run's operations over all its iterations.
class Durations {
 public:
  Durations(const RecordedRun& run, const Comparison& comparison) {
    const Operations& operations = comparison.operations;
    by_operation_.resize(operations.size());
    for (OperationId id = 0; id < operations.size() && operations.of_inputs(); ++id) {
      by_operation_[id] = {operations.sides[measured_side][id].duration_ns()};
    }
    if (operations.of_inputs()) return;
    // A cell lasts from its forward's start, in whatever parts it was done.
    std::map<OperationId, std::int64_t> cell_start;  // by the backward
    for (const RecordedIteration& iteration : run.iterations) {
      for (const Span& span : run.spans_of(iteration)) {
        if (is_transfer(span.action.kind)) continue;
        const OperationId id = operations.find(span.action);
        if (id == no_operation) continue;
        if (operations.opens_cell[id]) {
          cell_start[operations.backward_of.at(id)] = span.start_ns;
          continue;
        }
        const auto cell = cell_start.find(id);
        const std::int64_t start = cell == cell_start.end() ? span.start_ns : cell->second;
        by_operation_[id].push_back(span.end_ns - start);
      }
      cell_start.clear();
    }
  }
  const std::vector<std::int64_t>& of(OperationId id) const { return by_operation_[id]; }

 private:
  std::vector<std::vector<std::int64_t>> by_operation_;
};

void compare_durations(const RecordedRun& measured, Comparison& comparison) {
  const Operations& operations = comparison.operations;
  const Durations durations(measured, comparison);
  std::vector<double> errors;
  struct Group {
    std::vector<std::int64_t> predicted, measured;
    Lateness sum;
    std::int32_t rank = 0;
  };
  std::map<std::tuple<std::int32_t, Kind, bool>, Group> groups;
  std::map<OperationId, OperationId> forward_of;  // of the backward of a cell
  for (const auto& [forward, backward] : operations.backward_of) forward_of[backward] = forward;
  for (OperationId id = 0; id < operations.size(); ++id) {
    if (!operations.matched(id) || operations.opens_cell[id] || operations.transfers(id)) continue;
    const auto cell = forward_of.find(id);
    const bool is_cell = cell != forward_of.end();
    const Action& action = operations.actions[is_cell ? cell->second : id];
    const std::int64_t planned = operations.sides[predicted_side][id].duration_ns();
    Group& group = groups[{action.stage, action.kind, is_cell}];
    group.rank = operations.sides[measured_side][id].rank;
    group.predicted.push_back(planned);
    const auto& own = durations.of(id);
    group.measured.insert(group.measured.end(), own.begin(), own.end());
    const Lateness& late = comparison.lateness[id];
    group.sum.own_ns += late.own_ns;
    group.sum.launch_ns += late.launch_ns;
    group.sum.communication_ns += late.communication_ns;
    group.sum.inherited_ns += late.inherited_ns;
    if (operations.of_inputs() ? is_host_call(action) : !is_compute(action.kind)) continue;
    const std::int64_t difference = std::abs(quantiles_of(own).p50 - planned);
    // Of what was to take no time, there is no fraction.
    if (planned > 0)
      errors.push_back(static_cast<double>(difference) / static_cast<double>(planned));
  }
  for (auto& [key, group] : groups) {
    const auto& [stage, kind, is_cell] = key;
    comparison.stage_kinds.push_back({group.rank, stage, kind, is_cell,
                                      quantiles_of(std::move(group.predicted)),
                                      quantiles_of(std::move(group.measured)), group.sum});
  }
  if (errors.empty()) return;
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  std::ranges::sort(errors);
  comparison.duration_errors = {sum / static_cast<double>(errors.size()),
                                errors[(errors.size() - 1) / 2],
                                errors[(errors.size() - 1) * 9 / 10]};
}

// Replays both sides of joined operations: fills in what they took, the gap between them, who is
// late and out of order.
Replayed replay_both(Comparison& comparison, P2p mode) {
  const Operations& operations = comparison.operations;
  Replayed replayed{{order_of(operations, predicted_side, mode, false),
                     order_of(operations, measured_side, mode, false)},
                    {},
                    CommonOrders(operations, mode)};
  for (const Side side : both_sides) {
    const Order& order = replayed.orders[side];
    Values& values = replayed.values[side] = values_of(operations, side, order);
    SideResult& own = comparison.sides[side];
    own.played = play(operations, order, values);
    own.critical_path = parts_of_path(operations, side, own.played, values);
  }
  comparison.gap = gap_between(operations, replayed.common, replayed.orders, replayed.values);
  comparison.lateness = explain(comparison, replayed.values);
  check_order(comparison);
  comparison.divergence = find_divergence(comparison);
  return replayed;
}

}  // namespace

std::string_view side_name(const Comparison& comparison, Side side) {
  if (comparison.sources[0] == comparison.sources[1]) {
    return side == predicted_side ? "first" : "second";
  }
  return name_of(comparison.sources[side]);
}

std::string_view side_noun(const Comparison& comparison, Side side) {
  if (comparison.sources[0] == comparison.sources[1]) {
    return side == predicted_side ? "first run" : "second run";
  }
  switch (comparison.sources[side]) {
    case Source::predicted: return "prediction";
    case Source::measured: return "measurement";
    default: return "profile";
  }
}

std::vector<MemoryPeak> memory_peaks(const RecordedRun& run) {
  if (run.inputs) {
    std::vector<MemoryPeak> totals;
    for (const InputMemory& memory : run.inputs->memory) {
      totals.push_back({{}, memory.total(), 0, {}});
    }
    return totals;
  }
  std::vector<MemoryPeak> peaks(static_cast<std::size_t>(run.ranks));
  std::vector<std::int64_t> largest(peaks.size(), 0);
  for (const MemorySample& sample : run.samples) {
    const auto rank = static_cast<std::size_t>(sample.rank);
    const std::int64_t total = sample.states.total() + sample.working.total();
    if (total <= largest[rank]) continue;
    largest[rank] = total;
    peaks[rank] = {sample.working, total, sample.time_ns, {}};
  }
  if (std::ranges::all_of(largest, [](std::int64_t bytes) { return bytes == 0; })) return {};
  std::vector<std::int64_t> latest(peaks.size(), std::numeric_limits<std::int64_t>::min());
  for (const Span& span : run.spans) {
    const auto rank = static_cast<std::size_t>(span.rank);
    if (is_transfer(span.action.kind) || span.start_ns > peaks[rank].time_ns) continue;
    if (span.start_ns < latest[rank]) continue;
    latest[rank] = span.start_ns;
    peaks[rank].action = make_action(span.action.stage, span.action.kind, span.action.microbatch);
  }
  return peaks;
}

Comparison compare(const RecordedRun& predicted, const RecordedRun& measured) {
  if (const std::string why = programs_differ(predicted, measured); !why.empty()) {
    throw input_error(why);
  }
  if (const std::string why = stages_differ(predicted, measured); !why.empty()) {
    throw work_error(fmt::format("{} and {}: {}; `pipesim compare` compares their ranks",
                                 predicted.name, measured.name, why));
  }
  const RecordedIteration& planned = predicted.iterations[predicted.median_iteration()];
  const RecordedIteration& executed = measured.iterations[measured.median_iteration()];
  PreparedJoin prepared = prepared_join(predicted, planned, measured, executed);
  Comparison comparison;
  comparison.sources = {predicted.about.source, measured.about.source};
  comparison.costs_from = predicted.about.costs_from;
  comparison.operations = std::move(prepared.join.operations);
  comparison.counts = prepared.join.counts;
  const Operations& operations = comparison.operations;
  bool any = false;
  for (OperationId id = 0; id < operations.size() && !any; ++id) {
    any = operations.matched(id) && !operations.transfers(id);
  }
  if (!any) {
    throw work_error(
        fmt::format("no action of one is in the other, by stage, kind and microbatch: {}; {}",
                    holdings(predicted, planned), holdings(measured, executed)));
  }
  for (const Side side : both_sides) {
    comparison.sides[side].makespan_ns = prepared.makespan_ns[side];
    comparison.sides[side].wire = prepared.wire[side];
  }
  comparison.clocks = std::move(prepared.clocks);
  comparison.sides[predicted_side].start_ns = planned.start_ns;
  comparison.sides[measured_side].start_ns = executed.start_ns + prepared.start_ns;

  // Both runs are played by the prediction's rules for transfers.
  const P2p mode = mode_of(predicted);
  comparison.noise.preempted_fraction = preempted_fraction(measured.spans_of(executed));
  const Replayed replayed = replay_both(comparison, mode);
  for (const Side side : both_sides) {
    const RecordedRun& run = side == predicted_side ? predicted : measured;
    SideResult& own = comparison.sides[side];
    own.ranks = run.inputs ? input_bubbles(*run.inputs).ranks
                           : metrics_of(operations, side, own.played.makespan_ns);
    own.global_bubble = global_bubble(own.ranks, own.played.makespan_ns);
    own.peaks = memory_peaks(run);
  }
  const SideResult& run = comparison.sides[measured_side];
  comparison.gap[Term::clock] = run.makespan_ns - run.played.makespan_ns;
  std::vector<std::int64_t> makespans;
  for (const RecordedIteration& iteration : measured.iterations) {
    makespans.push_back(iteration.makespan_ns);
  }
  comparison.iterations = quantiles_of(std::move(makespans));
  compare_durations(measured, comparison);
  comparison.collectives = compare_collectives(predicted, measured);
  comparison.saves = compare_saves(predicted, measured);
  const bool exact =
      predicted.about.source == Source::predicted && measured.about.source == Source::predicted;
  const History history = history_of(predicted, measured, operations, replayed.values, mode);
  find_root_causes(replayed, differences_between(operations, replayed.values, history, exact),
                   comparison);
  return comparison;
}

}  // namespace pipesim
