#include "sim/compare/critical_path.h"

#include "sim/compare/history.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

// The median iteration, replayed by the run's own rule for transfers.
struct RunReplay {
  explicit RunReplay(const RecordedRun& run)
      : iteration(run.iterations[run.median_iteration()]),
        prepared(prepared_join(run, iteration, run, iteration)),
        order(order_of(operations(), measured_side, mode_of(run), false)),
        values(values_of(operations(), measured_side, order)),
        played(play(operations(), order, values)) {}

  const Operations& operations() const { return prepared.join.operations; }

  const RecordedIteration& iteration;
  PreparedJoin prepared;
  Order order;
  Values values;
  ReplayTimes played;
};

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
  const RunReplay replay(run);
  return steps_of(replay.operations(), measured_side, replay.played.critical_path,
                  replay.iteration.start_ns + replay.prepared.start_ns, replay.prepared.clocks,
                  run);
}

Metrics median_metrics(const RecordedRun& run) {
  Metrics metrics = run.metrics(run.median_iteration());
  if (mode_of(run) == P2p::async && !run.inputs) return metrics;
  const RunReplay replay(run);
  metrics.critical_path =
      parts_of_path(replay.operations(), measured_side, replay.played, replay.values);
  return metrics;
}

std::vector<PathStep> critical_path_of(const Comparison& comparison, Side side,
                                       const RecordedRun& run) {
  const SideResult& own = comparison.sides[side];
  return steps_of(comparison.operations, side, own.played.critical_path, own.start_ns,
                  side == measured_side ? comparison.clocks : std::vector<ClockShift>{}, run);
}

}  // namespace pipesim
