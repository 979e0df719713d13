// The tensor-parallel ranks that share a stage's layers, as a layer sees them: each has a shard
// of most matrices and computes with it what it can, and sums and gathers bring their results
// together.
//
// After Shoeybi et al., arXiv 1909.08053: the first product of a pair is split by the columns of
// its matrix, the second by its rows, so that a pair ends with one sum. With sequence parallelism
// (Korthikanti et al., arXiv 2205.05198) what lies between pairs is split by tokens: a gather
// comes before a pair, and its sum leaves each rank its own tokens.
//
// All ranks of a group call the same in the same order; each call returns when its numbers are
// there. Sums are made in the order of ranks. One rank, one thread.
#pragma once

#include "exec/model/tensor.h"

namespace pipesim::exec {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;

  virtual int ranks() const = 0;
  virtual int rank() const = 0;

  // The numbers become the sums of all ranks'.
  virtual void all_reduce(const Slice& numbers) = 0;
  // They are in as many equal parts as there are ranks: the rank's own becomes the sum of all
  // ranks' numbers there. What the others are afterwards is not said.
  virtual void reduce_scatter(const Slice& numbers) = 0;
  // Each part becomes what the rank has there that it is of.
  virtual void all_gather(const Slice& numbers) = 0;
};

}  // namespace pipesim::exec
