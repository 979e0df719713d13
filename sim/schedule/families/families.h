// Shared by the family files: their lists, and the order that most build on.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/schedule/family.h"

namespace pipesim::families {

std::vector<Family> naive();
std::vector<Family> gpipe();
std::vector<Family> one_f_one_b();
std::vector<Family> interleaved();
std::vector<Family> breadth_first();
std::vector<Family> zero_bubble();
std::vector<Family> dual_pipe();
std::vector<Family> zb_v();
std::vector<Family> controllable_memory();
std::vector<Family> dual_pipe_v();

// The closed form of looped schedules for m < p without latency: a rank waits,
// chunk after chunk, for the p-m ranks that have no work.
inline ClosedForm few_microbatches(const Shape& shape, const UniformTimes& t) {
  const std::int64_t p = shape.ranks;
  const std::int64_t waits = p - 1 + (p - shape.microbatches) * (std::int64_t{shape.chunks} - 1);
  return {BubbleMetric::global, waits * (t.forward_ns + t.backward_ns()),
          "(p-1)(F+B) + (p-m)(v-1)(F+B)"};
}

// A rank's k-th forward or backward.
struct Turn {
  int stage;
  int microbatch;
};

// Warm-up forwards, then pairs of a forward and a backward, then the remaining
// backwards: `count` of each in all. `forward(k)` and `backward(k)` give the
// k-th Turn.
template <typename Forward, typename Backward>
void warmup_pairs_drain(ActionLists& out, int count, std::int64_t longest_warmup, Forward forward,
                        Backward backward) {
  const auto add = [&](Kind kind, const Turn& turn) {
    out.add(make_action(turn.stage, kind, turn.microbatch));
  };
  const int warmup = static_cast<int>(std::min<std::int64_t>(longest_warmup, count));
  for (int k = 0; k < warmup; ++k) add(Kind::F, forward(k));
  for (int k = 0; k < count; ++k) {
    if (warmup + k < count) add(Kind::F, forward(warmup + k));
    add(Kind::B, backward(k));
  }
}

// The same with split backwards: the first W follows the (lag+1)-th I, then
// one W follows each I, and the remaining W close the list.
template <typename Forward, typename Backward>
void warmup_pairs_drain_split(ActionLists& out, int count, std::int64_t longest_warmup,
                              std::int64_t longest_lag, Forward forward, Backward backward) {
  const auto add = [&](Kind kind, const Turn& turn) {
    out.add(make_action(turn.stage, kind, turn.microbatch));
  };
  const int warmup = static_cast<int>(std::min<std::int64_t>(longest_warmup, count));
  const int lag = static_cast<int>(std::min<std::int64_t>(longest_lag, count));
  for (int k = 0; k < warmup; ++k) add(Kind::F, forward(k));
  for (int k = 0; k < count; ++k) {
    if (warmup + k < count) add(Kind::F, forward(warmup + k));
    add(Kind::I, backward(k));
    if (k >= lag) add(Kind::W, backward(k - lag));
  }
  for (int k = count - lag; k < count; ++k) add(Kind::W, backward(k));
}

}  // namespace pipesim::families
