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
  Training training;           // final, except for its numbers of pipeline ranks and replicas
  std::optional<int> devices;  // in all: replicas follow from it
  bool has_replicas = false;   // training.data_parallel was asked for
  // Asked for; else the software's default applies.
  bool has_buckets = false;
  std::optional<bool> gathers_ahead;

  // Throws, in the terms of the command line, if a microbatch would exceed 64 bits.
  void check() const;
  // For a pipeline of this many ranks. Throws if they don't fit the devices.
  int replicas(int pipeline_ranks) const;
  // Settings without effect are reset, with a note if `notes` is not null.
  Training training_with_ranks(int pipeline_ranks, std::vector<std::string>* notes = nullptr) const;
  // Throws if the training is impossible: see check() in training.h.
  CostModel with_ranks(int pipeline_ranks, std::vector<std::string>* notes = nullptr) const;
};

// "gpt2-small on 8 a100-sxm-80gb of dgx-a100".
std::string name_of(const CostModel& model);

}  // namespace pipesim
