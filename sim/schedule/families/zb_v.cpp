// ZB-V (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 6), in the
// fixed order of PyTorch's ScheduleZBVZeroBubble: made for F = I = W.
#include <algorithm>

#include "sim/schedule/families/families.h"
#include "sim/schedule/families/v_shaped.h"

namespace pipesim::families {
namespace {

// The order is that of at least 2p-1 microbatches, which fill the pipeline; fewer ones keep their
// places in it.
void zb_v_actions(const Shape& shape, int rank, ActionLists& out) {
  const int p = shape.ranks;
  const int r = shape.place(rank);
  const int microbatches = std::max(shape.microbatches, 2 * p - 1);
  RankWriter list(shape, rank, out);
  list.repeat(2 * (p - r) - 1, [&] { list.forward(chunk_down); });
  list.repeat(r, [&] {
    list.forward(chunk_up);
    list.forward(chunk_down);
  });
  const auto turn_back = [&] {
    list.forward(chunk_up);
    list.input(chunk_up);
    list.weight(chunk_up);
  };
  list.repeat(p - r, turn_back);
  list.repeat(microbatches - p, [&] {
    list.forward(chunk_down);
    list.input(chunk_down);
    list.weight(chunk_down);
    turn_back();
  });
  list.repeat(r, [&] {
    list.input(chunk_down);
    list.input(chunk_up);
  });
  list.repeat(p - r, [&] {
    list.input(chunk_down);
    list.weight(chunk_down);
  });
  list.weights_until(microbatches, chunk_up);
  list.weights_until(microbatches, chunk_down);
}

std::optional<ClosedForm> zb_v_closed_form(const Shape& shape, const UniformTimes& t) {
  if (t.hop_ns != 0 || shape.microbatches < 2 * shape.ranks - 1 || t.forward_ns > t.input_ns ||
      t.weight_ns > t.input_ns) {
    return std::nullopt;
  }
  return ClosedForm{
      BubbleMetric::span,
      (shape.ranks - 1) * std::max(2 * (t.input_ns - t.weight_ns), t.input_ns - t.forward_ns),
      "(p-1)max(2(I-W), I-F)"};
}

}  // namespace

std::vector<Family> zb_v() {
  Family family = v_shaped();
  family.name = "zb-v";
  family.title = "ZB-V";
  family.summary = "two chunks in a V: no bubble at F=I=W, 1F1B's memory";
  family.bubble = "(p-1)max(2(I-W), I-F) per chunk, span";
  family.conditions = "m >= 2p-1, F <= I, W <= I, no latency";
  family.peak = "2p";
  family.aliases = {"ZBVZeroBubble", "ScheduleZBVZeroBubble"};
  family.actions = zb_v_actions;
  family.closed_form = zb_v_closed_form;
  return {family};
}

}  // namespace pipesim::families
