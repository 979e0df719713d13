// The flags that give costs by a model, a cluster, and how it is trained.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate/replica_flags.h"
#include "sim/request/training_request.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ModelFlags {
  Flag model, cluster, software;
  Flag micro_batch_size, sequence_length, tensor_parallel, devices;
  Flag recompute, attention, precision;
  Flag gradient_bytes, overlap_gather, tensor_overlap, software_factor;
  ReplicaFlags replicas;
  Flag global_batch;
  bool sequence_parallel = false;
  bool is_row = false;  // of a table, whose reader tells what notes there are of models
};

void add_model_flags(CommandLine& command, ModelFlags& flags);

// The first of them that was given, or empty.
std::string first_model_flag(ModelFlags flags);

// What files say that is not taken, on standard error.
void tell(const std::vector<std::string>& notes);

// Reads model and cluster, and tells their notes; an input error where flags miss each other, or
// mean nothing.
TrainingRequest training_request(const ModelFlags& flags);

}  // namespace pipesim::cli
