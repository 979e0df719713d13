// A stage's states as its replicas exchange them (replicas.h): numbers cut into segments, and each
// segment into one part for each replica that splits it.
//
// One rank, one thread.
#pragma once

#include <cstddef>
#include <optional>

#include "exec/model/parameters.h"

namespace pipesim::exec {

class SharedStates {
 public:
  virtual ~SharedStates() = default;

  virtual int index() const = 0;  // of the stage
  virtual const Parts& parts() const = 0;
  virtual const StateSplit& split() const = 0;
  // Of a segment: summed gradients, and weights as operators read them.
  virtual Slice gradients(std::size_t segment) const = 0;
  virtual Slice operands(std::size_t segment) const = 0;
  // The gradients of a segment have been reduced; and all sums start from zero.
  virtual void keep_gradients(std::size_t segment) = 0;
  virtual void start_sums() = 0;
  // If gradients are in room for two consecutive layers while they are reduced: which of the two
  // places the segment's have.
  virtual std::optional<std::size_t> gradient_place(std::size_t segment) const = 0;
  // If gradients are split, but not reduced as they are made: allocates room for all of them, until
  // sums start from zero.
  virtual void make_all_gradients() = 0;
  // If weights are split: whether they are gathered; allocates room for them; frees it.
  virtual bool is_whole() const = 0;
  virtual void make_whole() = 0;
  virtual void release_whole() = 0;
};

}  // namespace pipesim::exec
