// V-Half and V-Min (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory",
// arXiv 2405.15362): the lifespans in a building block of one microbatch bound a rank's memory, to
// a half and a third of 1F1B's. The orders are those of zbv_greedy.py in
// sail-sg/zero-bubble-pipeline-parallelism. They don't depend on the times of F, I and W.
#include "sim/schedule/families/families.h"
#include "sim/schedule/families/slots.h"
#include "sim/schedule/families/v_shaped.h"

namespace pipesim::families {
namespace {

// Per action, while the order is made: its item, its slot, memory held after it.
constexpr int working_bytes = 40;
// The slots that a rank works per microbatch.
constexpr int slots_a_microbatch = 6;

Block half_block(int p, int r) {
  const int pause = p % 2 == 0 ? 3 : 0;  // so that no two passes of a rank share a slot
  return {2 * r, 3 * p - 2 - r, 3 * p - 1 + pause + 2 * r, 6 * p - 2 + pause - r};
}

Block min_block(int p, int r) {
  const int pause = p % 3 == 0 ? 2 : 0;  // likewise
  return {r, 2 * p - 1 - r, 2 * p + pause + r, 4 * p - 1 + pause - r};
}

Action action_of(const Shape& shape, int rank, const SlotItem& item) {
  const auto made = [&](Kind kind, int chunk) {
    return make_action(shape.stage(rank, chunk), kind, item.microbatch);
  };
  switch (item.pass) {
    case Pass::forward_down: return made(Kind::F, chunk_down);
    case Pass::forward_up: return made(Kind::F, chunk_up);
    case Pass::input_up: return made(Kind::I, chunk_up);
    case Pass::input_down: return made(Kind::I, chunk_down);
    case Pass::weight_up: return made(Kind::W, chunk_up);
    default: return made(Kind::W, chunk_down);
  }
}

void from_blocks(const Shape& shape, Block (*block)(int p, int r), ActionLists& out) {
  std::vector<Block> blocks;
  for (int r = 0; r < shape.ranks; ++r) blocks.push_back(block(shape.ranks, r));
  Timelines ranks = repeated(blocks, shape.microbatches, slots_a_microbatch);
  add_weights(ranks, Weights::alike);
  move_earlier(ranks);
  squeeze(ranks);
  drop_weights(ranks);
  move_earlier(ranks);
  add_weights(ranks, Weights::alike);
  squeeze(ranks);
  drop_weights(ranks);
  add_weights(ranks, Weights::by_chunk);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    out.add_rank();
    for (const SlotItem& item : ranks[static_cast<std::size_t>(shape.place(rank))]) {
      out.add(action_of(shape, rank, item));
    }
  }
}

void half_actions(const Shape& shape, ActionLists& out) { from_blocks(shape, half_block, out); }
void min_actions(const Shape& shape, ActionLists& out) { from_blocks(shape, min_block, out); }

bool all_alike(const UniformTimes& t) {
  return t.hop_ns == 0 && t.forward_ns == t.input_ns && t.input_ns == t.weight_ns;
}

std::optional<ClosedForm> half_closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  if (!all_alike(t) || p < 3 || shape.microbatches < p + 2) return std::nullopt;
  return p % 2 == 0 ? ClosedForm{BubbleMetric::span, (3 * p - 7) * t.forward_ns, "(3p-7)F"}
                    : ClosedForm{BubbleMetric::span, (3 * p - 4) * t.forward_ns, "(3p-4)F"};
}

std::optional<ClosedForm> min_closed_form(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  if (!all_alike(t) || p < 2 || shape.microbatches < p + 1) return std::nullopt;
  return p % 3 == 0 ? ClosedForm{BubbleMetric::span, (4 * p - 7) * t.forward_ns, "(4p-7)F"}
                    : ClosedForm{BubbleMetric::span, (4 * p - 5) * t.forward_ns, "(4p-5)F"};
}

}  // namespace

std::vector<Family> controllable_memory() {
  Family half = v_shaped();
  half.name = "v-half";
  half.title = "V-Half";
  half.summary = "a V with half of 1F1B's memory and half of its bubble";
  half.bubble = "(3p-4)F per chunk at F=I=W, (3p-7)F for even p, span";
  half.conditions = "F = I = W, p >= 3, m >= p+2, no latency";
  half.peak = "2((p+2)//2), counted until W";
  half.working_bytes = working_bytes;
  half.all_actions = half_actions;
  half.closed_form = half_closed_form;

  Family least = v_shaped();
  least.name = "v-min";
  least.title = "V-Min";
  least.summary = "a V with a third of 1F1B's memory and 2/3 of its bubble";
  least.bubble = "(4p-5)F per chunk at F=I=W, (4p-7)F where 3 divides p, span";
  least.conditions = "F = I = W, p >= 2, m > p, no latency";
  least.peak = "2((p+4)//3), counted until W";
  least.working_bytes = working_bytes;
  least.all_actions = min_actions;
  least.closed_form = min_closed_form;
  return {half, least};
}

}  // namespace pipesim::families
