// A training with injected faults: actions take longer, or start later (faults.h).
// The rank's thread stays busy meanwhile, as if it had more to compute; results are those of the
// training. Works only if that thread computes: on the CPU. Wraps another workload, which it owns;
// one rank, one thread.
#pragma once

#include <memory>
#include <utility>

#include "exec/run/faults.h"
#include "exec/run/workload.h"

namespace pipesim::exec {

class FaultyWorkload final : public Workload {
 public:
  // `faults` must outlive it; `rank` is that in the pipeline.
  FaultyWorkload(std::unique_ptr<Workload> own, const Faults& faults, int rank)
      : own_(std::move(own)), faults_(faults), rank_(rank) {}

  void start_iteration(int iteration) override {
    iteration_ = iteration;
    own_->start_iteration(iteration);
  }
  void await_start(const Action& action, const Tensor& input) override;
  Tensor run(const Action& action, Tensor input) override;
  void reduce(int stage, std::int64_t number, std::int64_t count) override {
    own_->reduce(stage, number, count);
  }
  void will_reduce(int stage) override { own_->will_reduce(stage); }
  bool unshard(int stage) override { return own_->unshard(stage); }
  bool reshard(int stage) override { return own_->reshard(stage); }
  void reduce_tied(int stage) override { own_->reduce_tied(stage); }
  Outcome find_norm(int stage) override { return own_->find_norm(stage); }
  void step(int stage, double gradient_norm) override { own_->step(stage, gradient_norm); }

 private:
  std::unique_ptr<Workload> own_;
  const Faults& faults_;
  int rank_;
  int iteration_ = 0;
};

}  // namespace pipesim::exec
