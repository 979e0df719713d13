// A stage's states as its replicas exchange them (replicas.h): numbers cut into segments, and
// each segment into as many parts as replicas split it.
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
  // Of a segment: gradients that were summed up, and weights as operators read them.
  virtual Slice gradients(std::size_t segment) const = 0;
  virtual Slice operands(std::size_t segment) const = 0;
  // The gradients of a segment have been reduced; and those of all are added up anew.
  virtual void keep_gradients(std::size_t segment) = 0;
  virtual void start_sums() = 0;
  // Where gradients stand in room for two layers that follow each other, as they are reduced:
  // which of both places the segment's have.
  virtual std::optional<std::size_t> gradient_place(std::size_t segment) const = 0;
  // Where gradients are split, but not reduced as they are made: room for all of them, until
  // sums start anew.
  virtual void make_all_gradients() = 0;
  // Where weights are split: whether they are there, room for them, and that it is let go of.
  virtual bool is_whole() const = 0;
  virtual void make_whole() = 0;
  virtual void release_whole() = 0;
};

}  // namespace pipesim::exec
