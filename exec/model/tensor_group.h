// The tensor-parallel ranks that share a stage's layers, as a layer sees them: each has a shard
// of most matrices and computes with it what it can, and sums and gathers bring their results
// together.
//
// After Shoeybi et al., arXiv 1909.08053: the first product of a pair is split by the columns of
// its matrix, the second by its rows, so that a pair ends with one sum. With sequence parallelism
// (Korthikanti et al., arXiv 2205.05198) what lies between pairs is split by tokens: a gather
// comes before a pair, and its sum leaves each rank its own tokens.
//
// All ranks of a group call the same in the same order. A sum goes on beside what the rank computes
// between its start and its end, as far as it looks after it; a gather returns when its numbers
// are there. Sums are made in the order of ranks. One rank, one thread.
#pragma once

#include <cstdint>

#include "exec/model/tensor.h"

namespace pipesim::exec {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;

  virtual int ranks() const = 0;
  virtual int rank() const = 0;

  // Whose sums a rank keeps: all, or of as many equal parts as there are ranks its own.
  enum class Keeps : std::uint8_t { all, own_part };
  // The numbers become the sums of all ranks', those that the rank keeps; what the others are
  // afterwards is not said. Until its end they are the sum's, and no other starts.
  virtual void start_sum(const Slice& numbers, Keeps keeps) = 0;
  virtual void finish_sum() = 0;
  // Looks after a sum that has started.
  virtual void poll() = 0;
  // Of as many equal parts as there are ranks, each becomes what the rank has there that it is of.
  virtual void all_gather(const Slice& numbers) = 0;
};

}  // namespace pipesim::exec
