// What the V-shaped families share: two chunks a rank, the first on the way down the
// ranks, the second on the way up again, so that the r-th rank holds stages r and
// 2p-1-r.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "sim/schedule/family.h"

namespace pipesim::families {

// The chunk of a rank on the way down, and that on the way up.
inline constexpr int chunk_down = 0;
inline constexpr int chunk_up = 1;

// A V-shaped family, still without a name and an order.
Family v_shaped();

// Why the stages of a shape are not placed as a V, or empty.
std::string not_a_v(const Shape& shape);

// Writes one rank's list. Each action is of the next microbatch that its chunk has not
// had; what would be of one beyond the last is left out.
class RankWriter {
 public:
  RankWriter(const Shape& shape, int rank, ActionLists& out)
      : shape_(shape), rank_(rank), out_(out) {}

  // How many of a chunk there were, left out or not.
  int forwards(int chunk) const { return forwards_[at(chunk)]; }
  int backwards(int chunk) const { return backwards_[at(chunk)]; }
  int weights(int chunk) const { return weights_[at(chunk)]; }

  void forward(int chunk) { add(Kind::F, chunk, forwards_[at(chunk)]++); }
  void input(int chunk) { add(Kind::I, chunk, backwards_[at(chunk)]++); }
  void weight(int chunk) { add(Kind::W, chunk, weights_[at(chunk)]++); }
  void backward(int chunk) {
    add(Kind::B, chunk, backwards_[at(chunk)]++);
    ++weights_[at(chunk)];
  }
  // Both in one cell. Neither may be left out.
  void overlapped(int forward_chunk, int backward_chunk);

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(Kind kind, int chunk, int microbatch) {
    if (microbatch >= shape_.microbatches) return;
    out_.add(make_action(shape_.stage(rank_, chunk), kind, microbatch));
  }

  const Shape& shape_;
  int rank_;
  ActionLists& out_;
  std::array<int, 2> forwards_{}, backwards_{}, weights_{};  // by chunk
};

}  // namespace pipesim::families
