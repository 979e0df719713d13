// The tensor-parallel ranks that split a stage's layers, as a layer sees them: each has a shard of
// most matrices and computes with it, and sums and gathers combine their results. After Shoeybi et
// al., arXiv 1909.08053: the first GEMM of a pair is split by the columns of its matrix, the second
// by its rows, so that a pair ends with one sum. With sequence parallelism (Korthikanti et al.,
// arXiv 2205.05198) activations between pairs are split by tokens: a gather comes before a pair,
// and its sum leaves each rank its own tokens. All ranks of a group make the same calls in the same
// order. Between its start and its end a sum overlaps the rank's compute, as far as the rank polls;
// a gather returns when its numbers have arrived. Sums are made in the order of ranks. One rank,
// one thread.
#pragma once

#include <cstdint>

#include "exec/model/tensor.h"

namespace pipesim::exec {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;

  virtual int ranks() const = 0;
  virtual int rank() const = 0;

  // Which sums a rank keeps: all, or its own of as many equal parts as there are ranks.
  enum class Keeps : std::uint8_t { all, own_part };
  // Replaces the numbers that the rank keeps by their sums over all ranks; the others are
  // unspecified afterwards. Until its end the numbers belong to the sum, and no other may start.
  virtual void start_sum(const Slice& numbers, Keeps keeps) = 0;
  virtual void finish_sum() = 0;
  // Advances a sum that has started.
  virtual void poll() = 0;
  // Splits the numbers into as many equal parts as there are ranks, and replaces each part by that
  // of its rank.
  virtual void all_gather(const Slice& numbers) = 0;
};

}  // namespace pipesim::exec
