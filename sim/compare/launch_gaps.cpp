#include "sim/compare/launch_gaps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/compare/gap.h"
#include "sim/compare/history.h"
#include "sim/compare/replay.h"

namespace pipesim {

LaunchLoss launch_loss(const RecordedRun& run) {
  if (run.iterations.empty()) return {};
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  const PreparedJoin prepared = prepared_join(run, iteration, run, iteration);
  const Operations& operations = prepared.join.operations;
  const P2p mode = mode_of(run);
  const CommonOrders common(operations, mode);
  const Order& order = common.orders[measured_side];
  const Values own =
      values_of(operations, measured_side, order_of(operations, measured_side, mode, false));
  Replay replay(operations);
  const std::int64_t with_gaps_ns = replay.makespan_ns(order, own);
  std::vector<std::vector<OperationId>> late(static_cast<std::size_t>(run.ranks));
  Values values = own;
  const auto& occurrences = operations.sides[measured_side];
  // The gap is that message's.
  const auto awaits_unrecorded_message = [&](OperationId id) {
    const OperationId input = order.input[id];
    return input != no_operation && order.computes[input] &&
           occurrences[input].rank != occurrences[id].rank;
  };
  for (const OperationId id : order.sequence) {
    if (!order.computes[id] || own.gap[id] <= 0 || awaits_unrecorded_message(id)) continue;
    values.gap[id] = 0;
    late[static_cast<std::size_t>(occurrences[id].rank)].push_back(id);
  }
  LaunchLoss loss;
  loss.ns = std::max<std::int64_t>(0, with_gaps_ns - replay.makespan_ns(order, values));
  std::int64_t most_gained_ns = 0;
  for (std::size_t rank = 0; rank < late.size(); ++rank) {
    values.gap = own.gap;
    std::int64_t gaps_ns = 0;
    for (const OperationId id : late[rank]) gaps_ns += std::exchange(values.gap[id], 0);
    if (gaps_ns == 0) continue;
    const std::int64_t gained_ns = with_gaps_ns - replay.makespan_ns(order, values);
    if (std::pair(gained_ns, gaps_ns) <= std::pair(most_gained_ns, loss.rank_gaps_ns)) continue;
    most_gained_ns = gained_ns;
    loss.rank = static_cast<std::int32_t>(rank);
    loss.rank_gaps_ns = gaps_ns;
    const OperationId latest =
        *std::ranges::max_element(late[rank], {}, [&](OperationId id) { return own.gap[id]; });
    loss.action = operations.actions[latest];
    loss.action_gap_ns = own.gap[latest];
  }
  return loss;
}

}  // namespace pipesim
