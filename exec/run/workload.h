// What a rank's stages do when it is their turn: train a model, or only take
// the time that costs say.
//
// The worker (worker.h) decides when and passes tensors on; a workload never
// sees the program. One rank, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include "exec/model/tensor.h"
#include "traces/action.h"

namespace pipesim::exec {

// What an iteration comes to, the same on all ranks.
struct Outcome {
  double loss = 0;           // mean over tokens, in nats
  double gradient_norm = 0;  // of the mean gradient, before clipping
  bool stops = false;        // a rank was asked to stop
};

// An OVERLAP_F_B: an F, then an I or B.
using Cell = std::array<Action, 2>;

class Workload {
 public:
  virtual ~Workload() = default;

  // Iterations are counted from 0. What is done here is in no action.
  virtual void start_iteration(int iteration) = 0;
  // Before an F, I, W or B, whose input is there: when it may start.
  virtual void await_start(const Action& /*action*/, const Tensor& /*input*/) {}
  // An F, I, W or B: its result from its input, empty where there is none.
  virtual Tensor run(const Action& action, Tensor input) = 0;
  // Whether an F and the I or B that it shares a cell with go on at once, by run_cell(); else
  // one runs after the other.
  virtual bool overlaps(const Action& /*forward*/) const { return false; }
  // await_start() and run() of both of such a cell.
  virtual void await_cell(const Cell& /*cell*/, const std::array<Tensor, 2>& /*inputs*/) {}
  virtual std::array<Tensor, 2> run_cell(const Cell& /*cell*/, std::array<Tensor, 2> /*inputs*/) {
    throw std::logic_error("a cell of a workload that overlaps nothing");
  }
  // A REDUCE_GRAD of a stage, of its rank's so many the n-th, from 0: later ones of the
  // stage replace what an earlier one has found.
  virtual void reduce(int stage, std::int64_t number, std::int64_t count) = 0;
  // The REDUCE_GRAD of that stage stands straight behind the W or B that comes next.
  virtual void will_reduce(int /*stage*/) {}
  // An UNSHARD and a RESHARD; whether they did anything.
  virtual bool unshard(int /*stage*/) { return false; }
  virtual bool reshard(int /*stage*/) { return false; }
  // A REDUCE_TIED, with the rank at the other end of the pipeline.
  virtual void reduce_tied(int stage) = 0;
  // A GRAD_NORM, with all ranks.
  virtual Outcome find_norm(int stage) = 0;
  // The OPTIMIZER: weights step, by gradients of that norm.
  virtual void step(int stage, double gradient_norm) = 0;
};

}  // namespace pipesim::exec
