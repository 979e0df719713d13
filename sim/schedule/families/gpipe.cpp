// GPipe (Huang et al. 2019): all forwards, then all backwards, both in
// ascending order of microbatches, as PyTorch does.
#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

void actions(const Shape& shape, int rank, ActionLists& out) {
  const int stage = shape.stage(rank, 0);
  const auto turn = [&](int k) { return Turn{stage, k}; };
  warmup_pairs_drain(out, shape.microbatches, shape.microbatches, turn, turn);
}

std::optional<ClosedForm> closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  return ClosedForm{BubbleMetric::global, (p - 1) * (t.forward_ns + t.backward_ns() + 2 * t.hop_ns),
                    t.hop_ns == 0 ? "(p-1)(F+B)" : "(p-1)(F+B) + 2(p-1)c"};
}

}  // namespace

std::vector<Family> gpipe() {
  Family family;
  family.name = "gpipe";
  family.title = "GPipe";
  family.summary = "all forwards, then all backwards";
  family.bubble = "(p-1)(F+B), global";
  family.conditions = "any m";
  family.peak = "m";
  family.aliases = {"ScheduleGPipe"};
  family.actions = actions;
  family.closed_form = closed_form;
  return {family};
}

}  // namespace pipesim::families
