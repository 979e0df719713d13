#include "sim/engine/simulate.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/collectives.h"
#include "sim/engine/direct_evaluation.h"
#include "sim/engine/event_evaluation.h"
#include "sim/engine/topological_evaluation.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/unroll.h"

namespace pipesim {

bool exceeds_direct(const Schedule& schedule, const Costs& costs,
                    const SimulationOptions& options) {
  if (options.always_by_events || options.transfers.mode != P2p::async ||
      costs.compute_slowdown_ppm > 0 || !schedule.dependencies.empty() || options.saves.any()) {
    return true;
  }
  const auto meets_others = [](const std::optional<GroupCosts>& group) {
    return group && group->bytes > 0 && !group->through.empty();
  };
  if (meets_others(costs.tied_gradients) || meets_others(costs.gradient_norm)) return true;
  // Bytes occupy links and buffers.
  return exchanges_bytes(costs.footprints(schedule.placement)) || has_collectives(schedule, costs);
}

namespace {

// Closing actions that take time, or wait for others that do.
std::vector<Closing> closing_of(const Schedule& schedule, const Costs& costs, bool saves) {
  std::vector<Closing> closing(static_cast<std::size_t>(schedule.ranks()),
                               {.reduces = !costs.reduce_gradients_ns.empty(),
                                .reduces_tied = costs.tied_gradients.has_value(),
                                .finds_norm = costs.gradient_norm.has_value(),
                                .steps = !costs.optimizer_ns.empty(),
                                .saves = saves});
  for (const Collective& collective : find_collectives(schedule, costs)) {
    if (collective.action.kind == Kind::RESHARD) continue;
    closing[static_cast<std::size_t>(collective.rank)].steps = true;
  }
  return closing;
}

Metrics evaluate(const Schedule& program, const Costs& costs, const SimulationOptions& options) {
  if (!exceeds_direct(program, costs, options)) {
    return evaluate_directly(program, costs, options.iterations, options.jitter, options.sink);
  }
  return evaluate_by_events(program, costs, options);
}

}  // namespace

Metrics simulate(const Schedule& schedule, const Costs& costs, const SimulationOptions& options) {
  if (options.budget != nullptr) options.budget->check();
  const bool saves = options.saves.any() && options.saves.every <= options.iterations;
  std::optional<Schedule> program;
  if (!options.always_by_events && exceeds_direct(schedule, costs, options) &&
      has_fixed_durations(schedule, costs, options)) {
    const std::vector<Closing> closing = closing_of(schedule, costs, saves);
    if (std::ranges::any_of(closing, &Closing::any)) program = with_closing(schedule, closing);
    const auto metrics = evaluate_topologically(program ? *program : schedule, costs, options);
    if (metrics) return *metrics;
    program.reset();
  }
  if (options.transfers.mode != P2p::async && !schedule.has_transfers()) {
    program = lower(schedule);
  }
  const Schedule& open = program ? *program : schedule;
  const std::vector<Closing> closing = closing_of(open, costs, saves);
  if (std::ranges::any_of(closing, &Closing::any)) program = with_closing(open, closing);
  if (options.iterations > 1) {
    program = unroll(program ? *program : schedule, options.iterations, options.accumulation,
                     options.saves);
  }
  return evaluate(program ? *program : schedule, costs, options);
}

}  // namespace pipesim
