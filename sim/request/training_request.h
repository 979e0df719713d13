// A model on a cluster, and how it is trained, before the number of pipeline ranks is
// known.
//
// Plain values; reading is const and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate/cost_model.h"

namespace pipesim {

struct TrainingRequest {
  Model model;
  Cluster cluster;
  Training training;           // its numbers of pipeline ranks and replicas aside, final
  std::optional<int> devices;  // all there are: replicas follow
  bool has_replicas = false;   // training.data_parallel is asked for, too
  // Asked for; else as the software has it.
  bool has_buckets = false;
  std::optional<bool> gathers_ahead;

  // Throws where a microbatch would leave 64 bits, in the words of the command line.
  void check() const;
  // For a pipeline of this many ranks. Throws if they don't fit the devices.
  int replicas(int pipeline_ranks) const;
  // Throws where the training can't be: see check() of training.h. What has no effect there is
  // reset, and said where `notes` is not null.
  CostModel with_ranks(int pipeline_ranks, std::vector<std::string>* notes = nullptr) const;
};

// "gpt2-small on 8 a100-sxm-80gb of dgx-a100".
std::string name_of(const CostModel& model);

}  // namespace pipesim
