// Looped breadth-first (Lamy-Poirier 2023): chunk by chunk all forwards, then
// the chunks in reverse with their microbatches descending, as PyTorch does.
#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

void actions(const Shape& shape, int rank, ActionLists& out) {
  const auto& stages = shape.placement.stages_of(rank);
  for (auto s = stages.begin(); s != stages.end(); ++s) {
    for (int mb = 0; mb < shape.microbatches; ++mb) out.add(make_action(*s, Kind::F, mb));
  }
  for (auto s = stages.rbegin(); s != stages.rend(); ++s) {
    for (int mb = shape.microbatches - 1; mb >= 0; --mb) {
      out.add(make_action(*s, Kind::B, mb));
    }
  }
}

std::optional<ClosedForm> closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  const std::int64_t m = shape.microbatches;
  const std::int64_t pair = t.forward_ns + t.backward_ns();
  if (t.hop_ns == 0 && m < p) return few_microbatches(shape, t);
  if (t.hop_ns == 0) return ClosedForm{BubbleMetric::global, (p - 1) * pair, "(p-1)(F+B)"};
  if ((m - p) * std::min(t.forward_ns, t.backward_ns()) < p * t.hop_ns) return std::nullopt;
  return ClosedForm{BubbleMetric::global, (p - 1) * (pair + 2 * t.hop_ns), "(p-1)(F+B) + 2(p-1)c"};
}

}  // namespace

std::vector<Family> breadth_first() {
  Family family;
  family.name = "bfs";
  family.title = "Looped breadth-first";
  family.summary = "all forwards chunk by chunk, then all backwards in reverse";
  family.bubble = "(p-1)(F+B) per chunk, global";
  family.conditions = "m >= p; with a latency c, (m-p) min(F, B) >= pc";
  family.peak = "mv";
  family.aliases = {"LoopedBFS", "ScheduleLoopedBFS"};
  family.default_chunks = 2;
  family.many_chunks = true;
  family.actions = actions;
  family.closed_form = closed_form;
  return {family};
}

}  // namespace pipesim::families
