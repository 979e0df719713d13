// The workload that trains: samples, stages of a real model, the optimizer.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/run/optimizer.h"
#include "exec/run/recorder.h"
#include "exec/run/replicas.h"
#include "exec/run/saved_training.h"
#include "exec/run/stage.h"
#include "exec/run/tensor_exchange.h"
#include "exec/run/training.h"
#include "exec/run/workload.h"
#include "exec/transport/transport.h"

namespace pipesim::exec {

class Trainer final : public Workload {
 public:
  // `between_layers` is called after each layer's part of an action.
  Trainer(const TrainingJob& training, Device& device, RankGroups& groups, Pool& pool,
          Recorder& recorder, OverlappedCollectives& beside,
          const std::function<void()>& between_layers);

  void start_iteration(int iteration) override;
  void await_start(const Action& action, const Tensor& input) override;
  Tensor run(const Action& action, Tensor input) override;
  void will_reduce(int stage) override;
  bool unshard(int stage) override;
  bool reshard(int stage) override;
  void reduce(int stage, std::int64_t number, std::int64_t count) override;
  void reduce_tied(int stage) override { optimizer_.reduce_tied(stage); }
  Outcome find_norm(int stage) override {
    return optimizer_.find_norm(stage, pass_, read_losses(), is_to_stop_ && is_to_stop_());
  }
  // Gradients are unchanged until the next iteration.
  void step(int stage, double gradient_norm) override {
    optimizer_.step(stage, pass_, gradient_norm);
  }

  const Stages& stages() const { return stages_; }

  // Called at the end of a step.
  void stop_where(std::function<bool()> is_to_stop) { is_to_stop_ = std::move(is_to_stop); }
  // Its arrays after so many passes of a step, for a checkpoint; and loads them, before any
  // iteration.
  std::vector<SavedArray> saved_arrays(int passes) const;
  void load(const CheckpointReader& checkpoint, int passes);

 private:
  Stage& stage_at(int index);
  std::vector<float> read_losses() const;  // of the step
  Microbatch microbatch(const Action& action) const;

  const TrainingJob& training_;
  Device& device_;
  TensorExchange tensor_;
  LayerSetup layers_;
  int rank_;  // of the pipeline
  int replica_;
  Replicas replicas_;
  Stages stages_;  // by chunk
  Optimizer optimizer_;
  bool has_embedding_ = false;
  bool has_head_ = false;
  Tensor tokens_;   // of all microbatches, if a stage needs them; as int32
  Tensor targets_;  // likewise
  Tensor losses_;   // of all tokens of a step, pass by pass, if the rank has the head
  TrainingJob::Pass pass_;
  SavedPlace place_;
  std::function<bool()> is_to_stop_;
};

}  // namespace pipesim::exec
