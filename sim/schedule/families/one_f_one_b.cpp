// 1F1B (PipeDream-Flush, Narayanan et al. 2021) and its eager variant, which
// starts backwards as late as twice the depth to hide transfers.
#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

void with_warmup(const Shape& shape, int rank, int warmup, ActionLists& out) {
  const int stage = shape.stage(rank, 0);
  const auto turn = [&](int k) { return Turn{stage, k}; };
  warmup_pairs_drain(out, shape.microbatches, warmup, turn, turn);
}

void actions(const Shape& shape, int rank, ActionLists& out) {
  with_warmup(shape, rank, shape.ranks - 1 - shape.place(rank), out);
}

void eager_actions(const Shape& shape, int rank, ActionLists& out) {
  with_warmup(shape, rank, 2 * (shape.ranks - 1 - shape.place(rank)), out);
}

// With a hop of c, each round trip of p microbatches through the pipeline
// exposes 2(p-1)c, and warm-up and drain another 2(p-2)c.
std::optional<ClosedForm> closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  const std::int64_t m = shape.microbatches;
  const std::int64_t bubble = (p - 1) * (t.forward_ns + t.backward_ns());
  if (t.hop_ns == 0) return ClosedForm{BubbleMetric::global, bubble, "(p-1)(F+B)"};
  if (p < 2 || m % p != 0) return std::nullopt;
  return ClosedForm{BubbleMetric::global, bubble + t.hop_ns * (2 * (p - 1) * (m / p) + 2 * (p - 2)),
                    "(p-1)(F+B) + 2c((p-1)m/p + p-2)"};
}

std::optional<ClosedForm> eager_closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  if (2 * t.hop_ns > t.forward_ns + t.backward_ns()) return std::nullopt;
  return ClosedForm{BubbleMetric::global, (p - 1) * (t.forward_ns + t.backward_ns() + 2 * t.hop_ns),
                    t.hop_ns == 0 ? "(p-1)(F+B)" : "(p-1)(F+B) + 2(p-1)c"};
}

}  // namespace

std::vector<Family> one_f_one_b() {
  Family family;
  family.name = "1f1b";
  family.title = "1F1B";
  family.summary = "p-1-r forwards, then forwards and backwards in turn";
  family.bubble = "(p-1)(F+B), global";
  family.conditions = "any m; with a latency, p divides m";
  family.peak = "min(m, p-r)";
  family.aliases = {"Schedule1F1B", "forward_backward_pipelining_without_interleaving",
                    "TrainSchedule"};  // PyTorch's, Megatron-LM's, DeepSpeed's
  family.actions = actions;
  family.closed_form = closed_form;

  Family eager = family;
  eager.name = "eager-1f1b";
  eager.title = "Eager 1F1B";
  eager.aliases = {};
  eager.summary = "1F1B with twice the warm-up, which hides transfers";
  eager.conditions = "any m; a hop takes at most (F+B)/2";
  eager.peak = "min(m, 2(p-r)-1)";
  eager.actions = eager_actions;
  eager.closed_form = eager_closed_form;
  return {family, eager};
}

}  // namespace pipesim::families
