// The flags that give costs by a model, a cluster, and how it is trained.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate/cost_model.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ModelFlags {
  Flag model, cluster;
  Flag micro_batch_size, sequence_length, tensor_parallel, data_parallel, devices;
  Flag recompute, attention, precision, zero, shard_over;
  Flag gradient_bytes, bucket_bytes, tensor_overlap, software_factor;
  bool sequence_parallel = false;
};

void add_model_flags(CommandLine& command, ModelFlags& flags);

// The first of them that was given, or empty.
std::string first_model_flag(ModelFlags flags);

// A model on a cluster, before it is known how many ranks its pipeline has.
class ModelSource {
 public:
  // Reads both; an input error where flags miss each other, or mean nothing.
  explicit ModelSource(const ModelFlags& flags);

  const Model& model() const { return model_; }
  // Throws where the training can't be: see check() of training.h.
  CostModel with_ranks(int pipeline_ranks) const;

 private:
  int replicas(int pipeline_ranks) const;
  void check_sizes() const;

  Model model_;
  Cluster cluster_;
  Training training_;
  std::optional<int> devices_;  // as given
  bool has_replicas_ = false;   // --data-parallel was given
};

// "gpt2-small on 8 a100-sxm-80gb of dgx-a100".
std::string name_of(const CostModel& model);

}  // namespace pipesim::cli
