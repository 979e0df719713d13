#include "sim/engine/prepare.h"

#include <optional>

#include "sim/engine/collectives.h"

namespace pipesim {
namespace {

std::vector<Closing> closing_of(const Schedule& schedule, const Costs& costs,
                                const SimulationOptions& options) {
  std::vector<Closing> closing(
      static_cast<std::size_t>(schedule.ranks()),
      {.reduces = !costs.reduce_gradients_ns.empty(),
       .reduces_tied = costs.tied_gradients.has_value(),
       .finds_norm = costs.gradient_norm.has_value(),
       .steps = !costs.optimizer_ns.empty(),
       .saves = options.saves.any() && options.saves.every <= options.iterations});
  for (const Collective& collective : find_collectives(schedule, costs)) {
    if (collective.action.kind == Kind::RESHARD) continue;
    closing[static_cast<std::size_t>(collective.rank)].steps = true;
  }
  return closing;
}

Evaluation evaluation_of(const Schedule& schedule, const Prepared& prepared) {
  const Costs& costs = prepared.costs;
  const SimulationOptions& options = prepared.options;
  if (options.always_by_events || costs.compute_slowdown_ppm > 0 || options.saves.any() ||
      !schedule.dependencies.empty() || has_collectives(schedule, costs)) {
    return Evaluation::by_events;
  }
  const auto meets_others = [](const std::optional<GroupCosts>& group) {
    return group && group->bytes > 0 && !group->through.empty();
  };
  if (options.transfers.mode == P2p::async && !exchanges_bytes(prepared.footprints) &&
      !meets_others(costs.tied_gradients) && !meets_others(costs.gradient_norm)) {
    return Evaluation::alone;
  }
  const bool is_topological = !prepared.lists_transfers && costs.shared_links.empty();
  return is_topological ? Evaluation::topological : Evaluation::by_events;
}

}  // namespace

Prepared prepare(const Schedule& schedule, const Costs& costs, const SimulationOptions& options) {
  Prepared prepared{.costs = costs,
                    .options = options,
                    .footprints = costs.footprints(schedule.placement),
                    .closing = closing_of(schedule, costs, options),
                    .lists_transfers = schedule.has_transfers()};
  prepared.evaluation = evaluation_of(schedule, prepared);
  return prepared;
}

}  // namespace pipesim
