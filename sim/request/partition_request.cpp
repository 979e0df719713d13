#include "sim/request/partition_request.h"

#include <fmt/format.h>

#include "sim/cost/layout.h"
#include "traces/base/error.h"

namespace pipesim {

PartitionProblem partition_problem(const CostSource& source, const ScheduleChoice& choice,
                                   const std::string& name) {
  PartitionProblem problem;
  problem.schedule = source.complete(choice.schedule);
  const auto model = source.cost_model(choice.schedule.ranks());
  if (model && model->training().recompute.blocks > 0) {
    throw input_error(fmt::format(
        "--recompute {}: which blocks are computed again follows from the stages, so that these "
        "cannot be balanced; give none or full here, or try --layout without this command",
        recompute_name(model->training().recompute)));
  }
  problem.layers = source.layers(problem.schedule);
  const int stages = problem.schedule.stages();
  const auto layers = static_cast<int>(problem.layers.size());
  problem.even = model ? model->layout({problem.schedule.placement, false, {}})
                       : resolve_layout({}, layers, stages, name);
  if (source.layout()) problem.given = resolve_layout(source.layout(), layers, stages, name);
  problem.costs = [&source, schedule = problem.schedule](const std::vector<int>& layout) {
    return source.resolve(schedule, layout);
  };
  problem.transfers = source.transfers_of(choice);
  return problem;
}

}  // namespace pipesim
