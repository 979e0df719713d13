#include "sim/advice/time_parts.h"

namespace pipesim {

const char* name_of(TimePart part) {
  constexpr const char* names[] = {"compute", "overlap", "messages", "closing", "slowdown",
                                   "warmup",  "steady",  "drain",    "p2p"};
  return names[static_cast<std::size_t>(part)];
}

TimeParts time_parts(const Schedule& schedule, const Costs& costs, const Metrics& metrics) {
  TimeParts parts;
  const auto stage_of = [&](const Action& action) -> const StageCosts& {
    const Placement& placement = schedule.placement;
    return costs.of(action.stage, placement.copy_of(action.microbatch), placement);
  };
  std::int64_t& compute = parts.of(TimePart::compute);
  std::int64_t& messages = parts.of(TimePart::messages);
  for (const Action& action : schedule.actions.all()) {
    if (!is_compute(action.kind)) continue;
    const StageCosts& stage = stage_of(action);
    const std::int64_t own = action.kind == Kind::F   ? stage.forward_messages_ns
                             : action.kind == Kind::W ? 0
                                                      : stage.backward_messages_ns;
    messages += own;
    compute += stage.duration_ns(action.kind) - own;
  }
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto list = schedule.actions[rank];
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      if (!list[i].joined || !is_compute(list[i].kind)) continue;
      if (const auto& both_ns = stage_of(list[i]).overlap_ns) {
        parts.of(TimePart::overlap) += *both_ns - stage_of(list[i]).duration_ns(Kind::F) -
                                       stage_of(list[i + 1]).duration_ns(list[i + 1].kind);
      }
    }
  }
  std::int64_t busy = 0;
  for (const RankMetrics& rank : metrics.ranks) {
    busy += rank.busy_ns;
    for (const Kind kind :
         {Kind::REDUCE_GRAD, Kind::REDUCE_TIED, Kind::GRAD_NORM, Kind::OPTIMIZER, Kind::SAVE}) {
      parts.of(TimePart::closing) += rank.closing.of(kind);
    }
    parts.of(TimePart::warmup) += rank.bubble.warmup_ns;
    parts.of(TimePart::steady) += rank.bubble.steady_ns;
    parts.of(TimePart::drain) += rank.bubble.drain_ns;
    parts.of(TimePart::p2p) += rank.bubble.p2p_ns;
  }
  parts.of(TimePart::slowdown) =
      busy - compute - messages - parts.of(TimePart::overlap) - parts.of(TimePart::closing);
  return parts;
}

}  // namespace pipesim
