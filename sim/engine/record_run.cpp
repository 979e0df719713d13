#include "sim/engine/record_run.h"

#include <algorithm>
#include <tuple>

#include "sim/schedule/description.h"

namespace pipesim {
namespace {

RunDescription description_of(const Schedule& schedule, const Costs& costs,
                              const SimulationOptions& options) {
  RunDescription about;
  about.source = Source::predicted;
  about.schedule = schedule.name;
  about.rank_of_stage = schedule.placement.rank_of_stage();
  about.rank_of_second = schedule.placement.rank_of_second();
  about.program = rows_of(schedule);
  about.dependencies = dependencies_of(schedule);
  about.continuous = options.iterations > 1;
  about.accumulate = options.accumulation.passes;
  about.saves = options.saves;
  about.costs_json = to_json(costs);
  about.p2p = p2p_name(options.transfers.mode);
  about.eager_limit_bytes = options.transfers.eager_limit_bytes;
  return about;
}

}  // namespace

RecordedRun record_run(const Schedule& schedule, const Costs& costs,
                       const SimulationOptions& options) {
  RecordedRun run;
  run.name = schedule.name;
  run.about = description_of(schedule, costs, options);
  run.ranks = schedule.ranks();
  run.microbatches = schedule.microbatches;
  run.chunk_of_stage = schedule.placement.chunk_of_stage();
  run.footprints = costs.footprints(schedule.placement);
  run.states = costs.states(schedule.placement);
  SimulationOptions recording = options;
  recording.sink = [&](const Span& span) {
    run.spans.push_back(span);
    if (options.sink) options.sink(span);
  };
  simulate(schedule, costs, recording);
  const auto gathers = [](const Span& span) {
    return span.action.kind == Kind::UNSHARD && is_collective(span.action);
  };
  if (std::ranges::none_of(run.spans, gathers)) {
    for (StageFootprint& stage : run.footprints) stage.unsharded_bytes = 0;
  }
  std::ranges::stable_sort(run.spans, [](const Span& a, const Span& b) {
    return std::tuple(a.iteration, a.start_ns, a.rank) <
           std::tuple(b.iteration, b.start_ns, b.rank);
  });
  find_iterations(run);
  return run;
}

}  // namespace pipesim
