#include "sim/engine/simulate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/engine/event_evaluation.h"
#include "sim/engine/prepare.h"
#include "sim/engine/topological_evaluation.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/unroll.h"

namespace pipesim {

Metrics simulate(const Schedule& schedule, const Costs& costs, const SimulationOptions& options) {
  if (options.budget != nullptr) options.budget->check();
  const Prepared prepared = prepare(schedule, costs, options);
  const bool has_closing = std::ranges::any_of(prepared.closing, &Closing::any);
  std::optional<Schedule> made;
  const Schedule* program = &schedule;
  const auto become = [&](Schedule next) { program = &made.emplace(std::move(next)); };
  if (prepared.evaluation != Evaluation::by_events) {
    if (has_closing) become(with_closing(schedule, prepared.closing));
    if (const auto metrics = evaluate_topologically(*program, prepared)) return *metrics;
    program = &schedule;
  }
  if (options.transfers.mode != P2p::async && !prepared.lists_transfers) become(lower(schedule));
  if (has_closing) become(with_closing(*program, prepared.closing));
  if (options.iterations > 1) {
    become(unroll(*program, options.iterations, options.accumulation, options.saves));
  }
  return evaluate_by_events(*program, prepared);
}

}  // namespace pipesim
