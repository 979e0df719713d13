#include "sim/compare/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/compare/join_inputs.h"
#include "sim/compare/wire_times.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t max_spans = 3'000'000;

// Puts a run's times right and counts them from its first start, which is returned, but
// where they count from the end of the iteration before.
std::int64_t put_clocks_right(Operations& operations, const std::vector<ClockShift>& shifts) {
  auto& occurrences = operations.sides[measured_side];
  std::optional<std::int64_t> first;
  for (OperationId id = 0; id < operations.size(); ++id) {
    Occurrence& own = occurrences[id];
    if (!own.exists()) continue;
    const auto ahead = [&](std::int32_t rank) {
      return shifts[static_cast<std::size_t>(rank)].ahead_ns;
    };
    const std::int32_t clock = operations.transfers(id) ? own.to_rank : own.rank;
    own.start_ns -= ahead(clock);
    own.end_ns -= ahead(clock);
    own.sent_ns -= ahead(own.rank);
    if (own.awaits_collective()) {
      own.collective_since_ns -= ahead(own.rank);
      own.collective_arrival_ns -= ahead(own.rank);
    }
    if (!operations.transfers(id)) first = std::min(first.value_or(own.start_ns), own.start_ns);
  }
  auto& ended_before = operations.ended_before_ns[measured_side];
  for (std::size_t rank = 0; rank < ended_before.size(); ++rank) {
    if (ended_before[rank]) *ended_before[rank] -= shifts[rank].ahead_ns;
  }
  if (operations.follows[measured_side]) return 0;
  auto& collective_ns = operations.first_collective_ns[measured_side];
  if (collective_ns) {
    first = std::min(first.value_or(*collective_ns), *collective_ns);
    *collective_ns -= *first;
  }
  for (Occurrence& own : occurrences) {
    for (auto* time : {&own.start_ns, &own.end_ns, &own.sent_ns}) *time -= first.value_or(0);
    if (!own.awaits_collective()) continue;
    own.collective_since_ns -= first.value_or(0);
    own.collective_arrival_ns -= first.value_or(0);
  }
  return first.value_or(0);
}

std::int64_t makespan_of(const Operations& operations, Side side) {
  std::optional<std::int64_t> first = operations.first_collective_ns[side];
  std::optional<std::int64_t> last;
  for (OperationId id = 0; id < operations.size(); ++id) {
    const Occurrence& own = operations.sides[side][id];
    if (!own.exists() || operations.transfers(id)) continue;
    first = std::min(first.value_or(own.start_ns), own.start_ns);
    last = std::max(last.value_or(own.end_ns), own.end_ns);
  }
  return last.value_or(0) - (operations.follows[side] ? 0 : first.value_or(0));
}

// The places of iterations to look at, `compared` among them.
std::vector<std::size_t> chosen(const RecordedRun& run, std::size_t compared) {
  const std::size_t count = run.iterations.size();
  if (run.about.source == Source::predicted || count < min_iterations) return {compared};
  const RecordedIteration& one = run.iterations[compared];
  const std::size_t affordable = max_spans / std::max<std::size_t>(1, one.end - one.begin);
  const std::size_t wanted = std::min(count, affordable);
  if (wanted < min_iterations) return {compared};
  std::vector<std::size_t> places{compared};
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::size_t place = i * count / wanted;
    if (place != compared) places.push_back(place);
  }
  return places;
}

}  // namespace

// By which transfers were predicted.
P2p mode_of(const RecordedRun& run) {
  for (const P2p mode : {P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo}) {
    if (run.about.p2p == p2p_name(mode)) return mode;
  }
  if (run.about.p2p.empty()) return P2p::async;
  throw input_error(fmt::format("{}: metadata.pipesim.p2p: {} is not a mode of transfer", run.name,
                                quote(run.about.p2p)));
}

PreparedJoin prepared_join(const RecordedRun& predicted, const RecordedIteration& planned,
                           const RecordedRun& measured, const RecordedIteration& executed) {
  PreparedJoin prepared;
  if (predicted.inputs) {  // whose clocks are put right as they are read
    prepared.join.operations = join_inputs(*predicted.inputs, *measured.inputs);
    prepared.join.counts.matched = predicted.inputs->program.size();
    prepared.makespan_ns = {planned.makespan_ns, executed.makespan_ns};
    return prepared;
  }
  prepared.join = join(predicted, planned, measured, executed);
  Operations& operations = prepared.join.operations;
  for (const Side side : both_sides) {
    prepared.makespan_ns[side] = makespan_of(operations, side);
  }
  prepared.clocks = find_clock_shifts(operations, measured.ranks);
  prepared.start_ns = put_clocks_right(operations, prepared.clocks);
  for (const Side side : both_sides) {
    const RecordedRun& run = side == predicted_side ? predicted : measured;
    prepared.wire[side] = tell_wire_times(operations, side, run.about);
  }
  return prepared;
}

History history_of(const RecordedRun& predicted, const RecordedRun& measured,
                   const Operations& operations, const std::array<Values, 2>& values, P2p mode) {
  History history;
  const std::array compared{predicted.median_iteration(), measured.median_iteration()};
  for (const Side side : both_sides) {
    const RecordedRun& run = side == predicted_side ? predicted : measured;
    for (const std::size_t place : chosen(run, compared[side])) {
      Values& own = history[side].emplace_back(values[side]);
      for (OperationId id = 0; id < operations.size(); ++id) {
        own.duration[id] -= operations.sides[side][id].preempted_ns;
      }
      if (place == compared[side]) continue;
      std::array places = compared;
      places[side] = place;
      const PreparedJoin other =
          prepared_join(predicted, predicted.iterations[places[predicted_side]], measured,
                        measured.iterations[places[measured_side]]);
      const Operations& theirs = other.join.operations;
      const Values found = values_of(theirs, side, order_of(theirs, side, mode, false));
      for (OperationId id = 0; id < theirs.size(); ++id) {
        if (!theirs.sides[side][id].exists()) continue;
        const bool same = id < operations.size() &&
                          ActionKey(operations.actions[id]) == ActionKey(theirs.actions[id]);
        const OperationId at = same ? id : operations.find(theirs.actions[id]);
        if (at == no_operation) continue;
        own.duration[at] = found.duration[id] - theirs.sides[side][id].preempted_ns;
        own.gap[at] = found.gap[id];
        own.exchange[at] = found.exchange[id];
      }
    }
  }
  return history;
}

}  // namespace pipesim
