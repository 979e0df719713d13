// Shared by the V-shaped families: two chunks per rank, the first on the way down the
// ranks, the second on the way up again, so that the r-th rank holds stages r and
// 2p-1-r.
#pragma once

#include <array>
#include <cstdint>
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

  void forward(int chunk) { add(Kind::F, chunk, counts_.forwards[at(chunk)]++); }
  void input(int chunk) { add(Kind::I, chunk, counts_.backwards[at(chunk)]++); }
  void weight(int chunk) { add(Kind::W, chunk, counts_.weights[at(chunk)]++); }
  void backward(int chunk) {
    add(Kind::B, chunk, counts_.backwards[at(chunk)]++);
    ++counts_.weights[at(chunk)];
  }
  // Both in one cell. Neither may be left out.
  void overlapped(int forward_chunk, int backward_chunk);
  // The weight gradients up to that of so many microbatches.
  void weights_until(int microbatches, int chunk) {
    repeat(microbatches - counts_.weights[at(chunk)], [&] { weight(chunk); });
  }

  // A step so many times. Once all of it is left out it is only counted.
  template <typename Step>
  void repeat(int times, const Step& step) {
    for (; times > 0; --times) {
      const Counts before = counts_;
      const std::int64_t written = out_.size();
      step();
      if (out_.size() != written) continue;
      for (const auto part : {&Counts::forwards, &Counts::backwards, &Counts::weights}) {
        for (const int chunk : {chunk_down, chunk_up}) {
          int& now = (counts_.*part)[at(chunk)];
          now += (times - 1) * (now - (before.*part)[at(chunk)]);
        }
      }
      return;
    }
  }

 private:
  // Microbatches by chunk, skipped ones included.
  struct Counts {
    std::array<int, 2> forwards{}, backwards{}, weights{};
  };

  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(Kind kind, int chunk, int microbatch) {
    if (microbatch >= shape_.microbatches) return;
    out_.add(make_action(shape_.stage(rank_, chunk), kind, microbatch));
  }

  const Shape& shape_;
  int rank_;
  ActionLists& out_;
  Counts counts_;
};

}  // namespace pipesim::families
