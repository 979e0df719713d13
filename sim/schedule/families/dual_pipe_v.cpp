// DualPipeV: DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report") folded
// to a V, which halves its ranks and needs no second copy of the parameters. In eight steps, as in
// PyTorch's ScheduleDualPipeV and DeepSeek's DualPipe.
#include <fmt/format.h>

#include <deque>
#include <utility>

#include "sim/schedule/families/families.h"
#include "sim/schedule/families/v_shaped.h"

namespace pipesim::families {
namespace {

// One rank's list, with the pending weight gradients of both chunks, the oldest first.
class DualPipeVWriter {
 public:
  DualPipeVWriter(const Shape& shape, int rank, ActionLists& out)
      : p_(shape.ranks),
        r_(shape.place(rank)),
        microbatches_(shape.microbatches),
        list_(shape, rank, out) {}

  void write() {
    list_.repeat(2 * (p_ - r_ - 1), [&] { list_.forward(chunk_down); });
    list_.repeat(r_ + 1, [&] {
      list_.forward(chunk_down);
      list_.forward(chunk_up);
    });
    list_.repeat(p_ - r_ - 1, [&] {
      input(chunk_up);
      owed_weight();
      list_.forward(chunk_up);
    });
    bool is_apart = r_ == p_ - 1;  // the first pair of the last rank: another waits for its F
    list_.repeat(microbatches_ - 2 * p_ + r_ + 1, [&] {
      if (std::exchange(is_apart, false)) {
        list_.forward(chunk_down);
        list_.backward(chunk_up);
      } else {
        list_.overlapped(chunk_down, chunk_up);
      }
      list_.overlapped(chunk_up, chunk_down);
    });
    list_.repeat(p_ - r_ - 1, [&] {
      list_.backward(chunk_up);
      list_.overlapped(chunk_up, chunk_down);
    });
    // Of 2(r+1) backwards, alternating between both chunks, the second half delays W.
    for (int k = 0; k < 2 * (r_ + 1); ++k) {
      const int chunk = k % 2 == 0 ? chunk_up : chunk_down;
      if (k > r_) {
        input(chunk);
      } else {
        list_.backward(chunk);
      }
    }
    list_.repeat(p_ - r_ - 1, [&] {
      owed_weight();
      input(chunk_down);
    });
    while (!owed_.empty()) owed_weight();
  }

 private:
  void input(int chunk) {
    list_.input(chunk);
    owed_.push_back(chunk);
  }
  void owed_weight() {
    list_.weight(owed_.front());
    owed_.pop_front();
  }

  int p_;
  int r_;
  int microbatches_;
  RankWriter list_;
  std::deque<int> owed_;  // chunks
};

void dual_pipe_v_actions(const Shape& shape, int rank, ActionLists& out) {
  DualPipeVWriter(shape, rank, out).write();
}

std::string too_few_for_dual_pipe_v(const Shape& shape) {
  if (std::string objection = not_a_v(shape); !objection.empty()) return objection;
  const int least = 2 * shape.ranks;
  if (shape.microbatches >= least) return {};
  return fmt::format(
      "needs at least as many microbatches as stages, {} on {} ranks, but there are {}; "
      "use {}, or zb-v",
      least, shape.ranks, shape.microbatches, least);
}

// For cells that take as long as both their parts; it is (p-1)(F&B+B-3W), as published, if F = I.
std::optional<ClosedForm> dual_pipe_v_closed_form(const Shape& shape, const UniformTimes& t) {
  if (t.hop_ns != 0 || t.input_ns > t.forward_ns || t.weight_ns > t.input_ns) return std::nullopt;
  return ClosedForm{BubbleMetric::global,
                    (shape.ranks - 1) * (2 * t.forward_ns + t.input_ns - t.weight_ns),
                    "(p-1)(2F+I-W)"};
}

}  // namespace

std::vector<Family> dual_pipe_v() {
  Family family = v_shaped();
  family.name = "dualpipe-v";
  family.title = "DualPipeV";
  family.summary = "a V whose forwards and backwards share cells";
  family.bubble = "(p-1)(2F+I-W) per chunk, global";
  family.conditions = "W <= I <= F, cells that take F + B, no latency";
  family.peak = "2p+1";
  family.aliases = {"DualPipeV", "ScheduleDualPipeV"};
  family.overlaps = true;
  family.actions = dual_pipe_v_actions;
  family.closed_form = dual_pipe_v_closed_form;
  family.objection = too_few_for_dual_pipe_v;
  return {family};
}

}  // namespace pipesim::families
