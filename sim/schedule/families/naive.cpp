// Naive model parallelism: one microbatch at a time through all stages.
#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

void actions(const Shape& shape, int rank, ActionLists& out) {
  const auto& stages = shape.placement.stages_of(rank);
  for (int mb = 0; mb < shape.microbatches; ++mb) {
    for (auto s = stages.begin(); s != stages.end(); ++s) out.add(make_action(*s, Kind::F, mb));
    for (auto s = stages.rbegin(); s != stages.rend(); ++s) {
      out.add(make_action(*s, Kind::B, mb));
    }
  }
}

// A microbatch takes p·v(F+B) plus a hop between each pair of stages in both directions; a rank
// works v(F+B) of that.
std::optional<ClosedForm> closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  const std::int64_t v = shape.chunks;
  const std::int64_t hops = p == 1 ? 0 : 2 * (p * v - 1);
  const std::int64_t idle = (p - 1) * v * (t.forward_ns + t.backward_ns()) + hops * t.hop_ns;
  return ClosedForm{BubbleMetric::global, shape.microbatches * idle,
                    t.hop_ns == 0 ? "m(p-1)(F+B)v" : "m((p-1)(F+B)v + 2(pv-1)c)"};
}

}  // namespace

std::vector<Family> naive() {
  Family family;
  family.name = "naive";
  family.title = "Naive model parallelism";
  family.summary = "one microbatch at a time through all stages";
  family.bubble = "m(p-1)(F+B), global";
  family.conditions = "any m";
  family.peak = "v";
  family.many_chunks = true;
  family.actions = actions;
  family.closed_form = closed_form;
  return {family};
}

}  // namespace pipesim::families
