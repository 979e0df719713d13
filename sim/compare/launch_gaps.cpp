#include "sim/compare/launch_gaps.h"

#include <algorithm>

#include "sim/compare/gap.h"
#include "sim/compare/history.h"
#include "sim/compare/replay.h"

namespace pipesim {

std::int64_t launch_loss_ns(const RecordedRun& run) {
  if (run.iterations.empty()) return 0;
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  const PreparedJoin prepared = prepared_join(run, iteration, run, iteration);
  const Operations& operations = prepared.join.operations;
  const P2p mode = mode_of(run);
  const CommonOrders common(operations, mode);
  const Order& order = common.orders[measured_side];
  Values values =
      values_of(operations, measured_side, order_of(operations, measured_side, mode, false));
  Player player(operations);
  const std::int64_t with_gaps_ns = player.makespan_ns(order, values);
  for (const OperationId id : order.sequence) {
    if (order.computes[id]) values.gap[id] = std::min<std::int64_t>(values.gap[id], 0);
  }
  return std::max<std::int64_t>(0, with_gaps_ns - player.makespan_ns(order, values));
}

}  // namespace pipesim
