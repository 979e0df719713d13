// DualPipe (DeepSeek-AI 2024): both directions at once, with two copies of each stage.
//
// Rank r holds stages r and p-1-r. The first half of the microbatches goes down from rank 0, the
// second half up from rank p-1. The order is that of the reference implementation, in its eight
// steps; the two halves of the ranks mirror each other, so a rank goes by its distance h from the
// nearer end. An F and a backward that overlap share a cell.
#include <fmt/format.h>

#include <deque>

#include "sim/schedule/families/families.h"

namespace pipesim::families {
namespace {

class BothWays {
 public:
  BothWays(const Shape& shape, int rank, ActionLists& out) : out_(out) {
    const int last = shape.ranks - 1;
    half_ranks_ = shape.ranks / 2;
    h_ = std::min(rank, last - rank);
    const bool is_upper = rank >= half_ranks_;
    const int half = shape.microbatches / 2;
    half_microbatches_ = half;
    near_ = {h_, is_upper ? half : 0, 0, 0};
    far_ = {last - h_, is_upper ? 0 : half, 0, 0};
  }

  void write() {
    const int to_middle = half_ranks_ - 1 - h_;  // ranks between this and the middle
    for (int i = 0; i < 2 * to_middle; ++i) forward(near_);
    for (int i = 0; i <= h_; ++i) {
      forward(near_);
      forward(far_);
    }
    for (int i = 0; i < to_middle; ++i) {
      input_gradient(far_);
      weight_gradient();
      forward(far_);
    }
    for (int i = 0; i < half_microbatches_ - 2 * half_ranks_ + h_ + 1; ++i) {
      const bool apart = i == 0 && to_middle == 0;
      forward(near_, !apart);
      backward(far_);
      forward(far_, true);
      backward(near_);
    }
    for (int i = 0; i < to_middle; ++i) {
      backward(far_);
      forward(far_, true);
      backward(near_);
    }
    // From the middle of these on, weight gradients wait.
    const int switches = (h_ + 1) / 2;
    for (int i = 0; i <= h_; ++i) {
      const bool behind = i > switches || (i == switches && h_ % 2 == 1);
      behind ? input_gradient(far_) : backward(far_);
      i >= switches ? input_gradient(near_) : backward(near_);
    }
    for (int i = 0; i < to_middle; ++i) {
      weight_gradient();
      input_gradient(near_);
    }
    while (!waiting_.empty()) weight_gradient();
  }

 private:
  // One of the two directions through this rank.
  struct Direction {
    int stage;
    int first;      // microbatch
    int forwards;   // so far
    int backwards;  // likewise
  };

  void forward(Direction& way, bool joined = false) {
    Action action = make_action(way.stage, Kind::F, way.first + way.forwards++);
    action.joined = joined;
    out_.add(action);
  }
  void backward(Direction& way) {
    out_.add(make_action(way.stage, Kind::B, way.first + way.backwards++));
  }
  void input_gradient(Direction& way) {
    const Action action = make_action(way.stage, Kind::I, way.first + way.backwards++);
    out_.add(action);
    waiting_.push_back(make_action(way.stage, Kind::W, action.microbatch));
  }
  // The one waiting longest.
  void weight_gradient() {
    out_.add(waiting_.front());
    waiting_.pop_front();
  }

  ActionLists& out_;
  int half_ranks_;
  int half_microbatches_;
  int h_;
  Direction near_;  // whose stage is nearer to the model's beginning
  Direction far_;
  std::deque<Action> waiting_;
};

void dual_pipe_actions(const Shape& shape, int rank, ActionLists& out) {
  BothWays(shape, rank, out).write();
}

// For cells that take as long as both their parts; it is (p/2-1)(F&B+B-3W), as published, if F = I.
std::optional<ClosedForm> dual_pipe_closed_form(const Shape& shape, const UniformTimes& t) {
  if (t.hop_ns != 0 || t.input_ns > t.forward_ns || t.weight_ns > t.input_ns) return std::nullopt;
  return ClosedForm{BubbleMetric::global,
                    (shape.ranks / 2 - 1) * (2 * t.forward_ns + t.input_ns - t.weight_ns),
                    "(p/2-1)(2F+I-W)"};
}

std::string outside_dual_pipe(const Shape& shape) {
  const int p = shape.ranks;
  if (p % 2 != 0) {
    return fmt::format("goes both ways, so it needs an even number of stages; use {}",
                       p == 1 ? "2" : fmt::format("{} or {}", p - 1, p + 1));
  }
  const int m = shape.microbatches;
  if (m % 2 != 0 || m < 2 * p) {
    return fmt::format(
        "needs an even number of microbatches, at least {}, twice the stages; use "
        "{}",
        2 * p, std::max(2 * p, m + m % 2));
  }
  return {};
}

}  // namespace

std::vector<Family> dual_pipe() {
  Family family;
  family.name = "dualpipe";
  family.title = "DualPipe";
  family.summary = "both directions at once, with two copies of each stage";
  family.bubble = "(p/2-1)(2F+I-W), global";
  family.conditions = "W <= I <= F, cells that take F + B, no latency";
  family.peak = "p+1";
  family.aliases = {"DualPipe"};
  family.overlaps = true;
  family.splits_backward = true;
  family.actions = dual_pipe_actions;
  family.closed_form = dual_pipe_closed_form;
  family.objection = outside_dual_pipe;
  family.placement = both_ways;
  return {family};
}

}  // namespace pipesim::families
