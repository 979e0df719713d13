#include "sim/compare/critical_path.h"

#include "sim/compare/history.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

// `start_ns` is what the operations' times count from, clocks put right.
std::vector<PathStep> steps_of(const Operations& operations, Side side,
                               const std::vector<OperationId>& path, std::int64_t start_ns,
                               const std::vector<ClockShift>& clocks, const RecordedRun& run) {
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  const SpanIndex index(run.spans_of(iteration));
  std::vector<PathStep> steps;
  steps.reserve(path.size());
  for (const OperationId id : path) {
    const Occurrence& own = operations.sides[side][id];
    PathStep step;
    step.transfers = operations.transfers(id);
    const Action& action = operations.actions[id];
    auto place = index.find(action);
    if (!place && step.transfers) place = index.find(peer_of(action));
    if (!place) continue;  // a transfer of which neither end was recorded
    step.span = iteration.begin + *place;
    step.rank = step.transfers ? own.to_rank : own.rank;
    const auto rank = static_cast<std::size_t>(step.rank);
    const std::int64_t zero_ns = start_ns + (rank < clocks.size() ? clocks[rank].ahead_ns : 0);
    step.start_ns = (step.transfers ? own.sent_ns : own.start_ns) + zero_ns;
    step.end_ns = own.end_ns + zero_ns;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

std::vector<PathStep> critical_path_of(const RecordedRun& run) {
  if (run.iterations.empty()) return {};
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  const PreparedJoin prepared = prepared_join(run, iteration, run, iteration);
  const Operations& operations = prepared.join.operations;
  const Order order = order_of(operations, measured_side, mode_of(run), false);
  const Played played = play(operations, order, values_of(operations, measured_side, order));
  return steps_of(operations, measured_side, played.critical_path,
                  iteration.start_ns + prepared.start_ns, prepared.clocks, run);
}

std::vector<PathStep> critical_path_of(const Comparison& comparison, Side side,
                                       const RecordedRun& run) {
  const SideResult& own = comparison.sides[side];
  return steps_of(comparison.operations, side, own.played.critical_path, own.start_ns,
                  side == measured_side ? comparison.clocks : std::vector<ClockShift>{}, run);
}

}  // namespace pipesim
