#include "sim/engine/simulate.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/collectives.h"
#include "sim/engine/direct_evaluation.h"
#include "sim/engine/event_evaluation.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/lower.h"

namespace pipesim {

bool needs_events(const Schedule& schedule, const Costs& costs, const SimulationOptions& options) {
  if (options.always_by_events || options.transfers.mode != P2p::async ||
      costs.compute_slowdown_ppm > 0) {
    return true;
  }
  // Bytes occupy links and buffers.
  return exchanges_bytes(costs.footprints(schedule.placement)) || has_collectives(schedule, costs);
}

namespace {

// What takes time at the end of an iteration, or waits for what does.
std::vector<Closing> closing_of(const Schedule& schedule, const Costs& costs) {
  std::vector<Closing> closing(
      static_cast<std::size_t>(schedule.ranks()),
      {.reduces = !costs.reduce_gradients_ns.empty(), .steps = !costs.optimizer_ns.empty()});
  for (const Collective& collective : find_collectives(schedule, costs)) {
    if (collective.action.kind == Kind::RESHARD) continue;
    closing[static_cast<std::size_t>(collective.rank)].steps = true;
  }
  return closing;
}

Metrics evaluate(const Schedule& program, const Costs& costs, const SimulationOptions& options) {
  if (!needs_events(program, costs, options)) {
    return evaluate_directly(program, costs, options.sink);
  }
  return evaluate_by_events(program, costs, options.transfers, options.sink);
}

}  // namespace

Metrics simulate(const Schedule& schedule, const Costs& costs, const SimulationOptions& options) {
  std::optional<Schedule> program;
  if (options.transfers.mode != P2p::async && !schedule.has_transfers()) {
    program = lower(schedule);
  }
  if (!costs.reduce_gradients_ns.empty() || !costs.optimizer_ns.empty() ||
      has_collectives(schedule, costs)) {
    const Schedule& open = program ? *program : schedule;
    program = with_closing(open, closing_of(open, costs));
  }
  return evaluate(program ? *program : schedule, costs, options);
}

Timeline record_timeline(const Schedule& schedule, const Costs& costs,
                         const SimulationOptions& options) {
  Timeline timeline;
  timeline.ranks = schedule.ranks();
  timeline.microbatches = schedule.microbatches;
  timeline.chunk_of_stage = schedule.placement.chunk_of_stage();
  timeline.footprints = costs.footprints(schedule.placement);
  timeline.states = costs.states(schedule.placement);
  SimulationOptions recording = options;
  recording.sink = [&](const Span& span) {
    timeline.spans.push_back(span);
    if (options.sink) options.sink(span);
  };
  simulate(schedule, costs, recording);
  const auto gathers = [](const Span& span) {
    return span.action.kind == Kind::UNSHARD && is_collective(span.action);
  };
  if (std::ranges::none_of(timeline.spans, gathers)) {
    for (StageFootprint& stage : timeline.footprints) stage.unsharded_bytes = 0;
  }
  std::ranges::stable_sort(timeline.spans, [](const Span& a, const Span& b) {
    return std::pair(a.start_ns, a.rank) < std::pair(b.start_ns, b.rank);
  });
  return timeline;
}

}  // namespace pipesim
