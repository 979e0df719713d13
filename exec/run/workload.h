// The work of a rank's stages: training a model, or only taking the time of its costs.
// The worker (worker.h) decides when to run actions and passes tensors on; a workload never sees
// the program. One rank, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include "exec/model/tensor.h"
#include "traces/action.h"

namespace pipesim::exec {

// The outcome of an iteration, the same on all ranks.
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

  // Iterations are counted from 0. Work done here is not part of any action.
  virtual void start_iteration(int iteration) = 0;
  // Called before an F, I, W or B whose input is ready: waits until it may start.
  virtual void await_start(const Action& /*action*/, const Tensor& /*input*/) {}
  // Runs an F, I, W or B: its result from its input, empty if there is none.
  virtual Tensor run(const Action& action, Tensor input) = 0;
  // Whether an F and the I or B in the same cell run concurrently, by run_cell(); else one after
  // the other.
  virtual bool overlaps(const Action& /*forward*/) const { return false; }
  // await_start() and run() of both of such a cell.
  virtual void await_cell(const Cell& /*cell*/, const std::array<Tensor, 2>& /*inputs*/) {}
  virtual std::array<Tensor, 2> run_cell(const Cell& /*cell*/, std::array<Tensor, 2> /*inputs*/) {
    throw std::logic_error("a cell of a workload that overlaps nothing");
  }
  // Runs a REDUCE_GRAD of a stage, the `number`-th of its rank's `count`, from 0: later ones of the
  // stage replace the result of an earlier one.
  virtual void reduce(int stage, std::int64_t number, std::int64_t count) = 0;
  // The REDUCE_GRAD of that stage directly follows the next W or B.
  virtual void will_reduce(int /*stage*/) {}
  // Run an UNSHARD and a RESHARD; return whether they did anything.
  virtual bool unshard(int /*stage*/) { return false; }
  virtual bool reshard(int /*stage*/) { return false; }
  // Runs a REDUCE_TIED, with the rank at the other end of the pipeline.
  virtual void reduce_tied(int stage) = 0;
  // Runs a GRAD_NORM, with all ranks.
  virtual Outcome find_norm(int stage) = 0;
  // Runs the OPTIMIZER: updates weights, with gradients of that norm.
  virtual void step(int stage, double gradient_norm) = 0;
};

}  // namespace pipesim::exec
