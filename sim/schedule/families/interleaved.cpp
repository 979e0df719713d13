// Interleaved 1F1B: v chunks per rank, in groups of g microbatches.
//
// Megatron-LM's order (Narayanan et al. 2021), PyTorch's, and PyTorch's
// interleaved zero bubble. For each group of g microbatches the order visits
// chunk 0..v-1 with all microbatches of the group; backwards use the same
// table with chunk -> v-1-chunk. If Megatron-LM overlaps the communication of experts with compute
// (overlap_moe_expert_parallel_comm), ranks run one more forward before their first backward, so
// that no forward waits for the backward that it is paired with.
#include <fmt/format.h>

#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

// The k-th entry of a rank's table of (chunk, microbatch), k < m·v. The last
// group may be smaller.
class Table {
 public:
  Table(const Shape& shape, int group, int rank) : shape_(shape), group_(group), rank_(rank) {}

  Turn forward(int k) const { return turn(k, false); }
  Turn backward(int k) const { return turn(k, true); }

 private:
  Turn turn(int k, bool reversed) const {
    const std::int64_t full = std::int64_t{group_} * shape_.chunks;
    const int first = static_cast<int>(k / full) * group_;  // opens the group
    const int size = std::min(group_, shape_.microbatches - first);
    const int within = static_cast<int>(k % full);
    const int chunk = within / size;
    return {shape_.stage(rank_, reversed ? shape_.chunks - 1 - chunk : chunk),
            first + within % size};
  }

  const Shape& shape_;
  int group_;
  int rank_;
};

void actions_in_groups(const Shape& shape, int group, int rank, ActionLists& out) {
  const Table table(shape, group, rank);
  const std::int64_t warmup = std::int64_t{2} * (shape.ranks - 1 - shape.place(rank)) +
                              (shape.chunks - 1) * std::int64_t{group} +
                              (shape.overlap_experts ? 1 : 0);
  warmup_pairs_drain(
      out, shape.microbatches * shape.chunks, warmup, [&](int k) { return table.forward(k); },
      [&](int k) { return table.backward(k); });
}

void actions(const Shape& shape, int rank, ActionLists& out) {
  actions_in_groups(shape, shape.group, rank, out);
}

// PyTorch splits m into m // p rounds (at least one) of equal size: microbatches in each.
int round_of(const Shape& shape) {
  return shape.microbatches / std::max(1, shape.microbatches / shape.ranks);
}

void pytorch_actions(const Shape& shape, int rank, ActionLists& out) {
  actions_in_groups(shape, round_of(shape), rank, out);
}

void zero_bubble_actions(const Shape& shape, int rank, ActionLists& out) {
  const int group = round_of(shape);
  const Table table(shape, group, rank);
  const std::int64_t warmup =
      (shape.chunks - 1) * std::int64_t{group} + shape.ranks - 1 - shape.place(rank);
  warmup_pairs_drain_split(
      out, shape.microbatches * shape.chunks, warmup, shape.place(rank),
      [&](int k) { return table.forward(k); }, [&](int k) { return table.backward(k); });
}

std::string uneven_rounds(const Shape& shape) {
  const int rounds = std::max(1, shape.microbatches / shape.ranks);
  if (shape.microbatches % rounds == 0) return {};
  const int below = shape.microbatches - shape.microbatches % rounds;
  return fmt::format(
      "splits {} microbatches into {} rounds of equal size, which leaves {}; use {} or {} "
      "microbatches, or interleaved",
      shape.microbatches, rounds, shape.microbatches % rounds, below, below + rounds);
}

std::optional<ClosedForm> bubble_in_groups(const Shape& shape, int group, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  const std::int64_t v = shape.chunks;
  const std::int64_t m = shape.microbatches;
  const std::int64_t pair = t.forward_ns + t.backward_ns();
  if (group != p) return std::nullopt;
  if (t.hop_ns == 0 && m < p) return few_microbatches(shape, t);
  if (m % p != 0) return std::nullopt;
  if (t.hop_ns == 0) return ClosedForm{BubbleMetric::global, (p - 1) * pair, "(p-1)(F+B)"};
  if (p < 2 || t.hop_ns > std::min(t.forward_ns, t.backward_ns())) return std::nullopt;
  return ClosedForm{BubbleMetric::global, (p - 1) * pair + 2 * (p * v - 1) * t.hop_ns,
                    "(p-1)(F+B) + 2(pv-1)c"};
}

std::optional<ClosedForm> closed_form(const Shape& shape, const UniformTimes& t) {
  return bubble_in_groups(shape, shape.group, t);
}

std::optional<ClosedForm> pytorch_closed_form(const Shape& shape, const UniformTimes& t) {
  return bubble_in_groups(shape, round_of(shape), t);
}

std::optional<ClosedForm> zero_bubble_closed_form(const Shape& shape, const UniformTimes& t) {
  const bool alike = t.forward_ns == t.input_ns && t.input_ns == t.weight_ns;
  if (!alike || t.hop_ns != 0) return std::nullopt;
  if (shape.microbatches % shape.ranks != 0) return std::nullopt;
  return ClosedForm{BubbleMetric::span,
                    (shape.ranks - 1) * (t.forward_ns + t.input_ns - t.weight_ns), "(p-1)(F+I-W)"};
}

}  // namespace

std::vector<Family> interleaved() {
  Family family;
  family.name = "interleaved";
  family.title = "Interleaved 1F1B";
  family.summary = "1F1B over v chunks per rank, Megatron's order, groups of g";
  family.bubble = "(p-1)(F+B) per chunk, global";
  family.conditions =
      "g = p and p divides m, or m < p without latency; a hop takes at most min(F, B)";
  family.peak = "min(mv, 2(p-1-r)+(v-1)g+1)";
  family.default_chunks = 2;
  family.many_chunks = true;
  family.aliases = {"forward_backward_pipelining_with_interleaving"};
  family.takes_group = true;
  family.actions = actions;
  family.closed_form = closed_form;

  Family pytorch = family;
  pytorch.name = "interleaved-pytorch";
  pytorch.title = "Interleaved 1F1B (PyTorch)";
  pytorch.summary = "the same in m // p equal rounds, as PyTorch orders it";
  pytorch.aliases = {"Interleaved1F1B", "ScheduleInterleaved1F1B"};
  pytorch.takes_group = false;
  pytorch.conditions = "p divides m; a hop takes at most min(F, B)";
  pytorch.actions = pytorch_actions;
  pytorch.closed_form = pytorch_closed_form;
  pytorch.objection = uneven_rounds;

  Family zero = pytorch;
  zero.name = "interleaved-zb";
  zero.title = "Interleaved zero bubble";
  zero.summary = "PyTorch's interleaved order, backwards split, W late by r";
  zero.bubble = "(p-1)(F+I-W) per chunk at F=I=W, span";
  zero.conditions = "F = I = W, p divides m, no latency";
  zero.peak = "(v-1)p+(p-r) + residue";
  zero.aliases = {"InterleavedZeroBubble", "ScheduleInterleavedZeroBubble"};
  zero.splits_backward = true;
  zero.actions = zero_bubble_actions;
  zero.closed_form = zero_bubble_closed_form;
  return {family, pytorch, zero};
}

}  // namespace pipesim::families
