// ZB-H1 and ZB-H2 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"):
// backwards split into input and weight gradients, W delayed to fill bubbles.
#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

void with_warmup(const Shape& shape, int rank, int warmup, int lag, ActionLists& out) {
  const int stage = shape.stage(rank, 0);
  const auto turn = [&](int k) { return Turn{stage, k}; };
  warmup_pairs_drain_split(out, shape.microbatches, warmup, lag, turn, turn);
}

void h1_actions(const Shape& shape, int rank, ActionLists& out) {
  const int r = shape.place(rank);
  with_warmup(shape, rank, shape.ranks - 1 - r, r, out);
}

void h2_actions(const Shape& shape, int rank, ActionLists& out) {
  const int r = shape.place(rank);
  with_warmup(shape, rank, 2 * (shape.ranks - 1 - r), 2 * r, out);
}

std::optional<ClosedForm> h1_closed_form(const Shape& shape, const UniformTimes& t) {
  if (t.hop_ns != 0 || shape.microbatches < shape.ranks || t.weight_ns > t.forward_ns) {
    return std::nullopt;
  }
  return ClosedForm{BubbleMetric::span,
                    (shape.ranks - 1) * (t.forward_ns + t.input_ns - t.weight_ns), "(p-1)(F+I-W)"};
}

std::optional<ClosedForm> h2_closed_form(const Shape& shape, const UniformTimes& t) {
  if (t.hop_ns != 0 || shape.microbatches < 2 * shape.ranks - 1 || t.weight_ns > t.forward_ns ||
      2 * t.weight_ns > t.forward_ns + t.input_ns) {
    return std::nullopt;
  }
  return ClosedForm{BubbleMetric::span,
                    (shape.ranks - 1) * (t.forward_ns + t.input_ns - 2 * t.weight_ns),
                    "(p-1)(F+I-2W)"};
}

}  // namespace

std::vector<Family> zero_bubble() {
  Family h1;
  h1.name = "zb-h1";
  h1.title = "ZB-H1";
  h1.summary = "1F1B with backwards split: W fills the drain, same memory";
  h1.bubble = "(p-1)(F+I-W), span";
  h1.conditions = "m >= p, W <= F, no latency";
  h1.peak = "min(m, p-r) + residue";
  h1.splits_backward = true;
  h1.actions = h1_actions;
  h1.closed_form = h1_closed_form;

  Family h2 = h1;
  h2.name = "zb-h2";
  h2.title = "ZB-H2";
  h2.summary = "twice ZB-H1's warm-up: almost no bubble, twice the memory";
  h2.bubble = "(p-1)(F+I-2W), span";
  h2.conditions = "m >= 2p-1, W <= F, 2W <= F+I, no latency";
  h2.peak = "2(p-r)-1 + residue";
  h2.actions = h2_actions;
  h2.closed_form = h2_closed_form;
  return {h1, h2};
}

}  // namespace pipesim::families
