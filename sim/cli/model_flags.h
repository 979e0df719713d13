// The flags that give costs by a model, a cluster, and how it is trained.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cost/model.h"
#include "sim/flags/replica_flags.h"
#include "sim/request/training_request.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ModelFlags {
  Flag model, cluster, software;
  Flag micro_batch_size, sequence_length, tensor_parallel, devices;
  Flag recompute, attention, precision;
  Flag weights, gradient_bytes, overlap_gather, tensor_overlap, software_factor;
  ReplicaFlags replicas;
  Flag global_batch;
  bool sequence_parallel = false;
  bool is_row = false;  // of a table, whose reader prints the models' notes
};

void add_model_flags(CommandLine& command, ModelFlags& flags);
// What --attention and --recompute accept.
std::vector<std::string> attention_names();
std::vector<std::string> recompute_names();

// The first of them that was given, or empty.
std::string first_model_flag(ModelFlags flags);

// Prints on standard error which settings of files are ignored.
void tell(const std::vector<std::string>& notes);

// Reads model and cluster, and prints their notes; throws an input error if flags lack others that
// they need, or have no effect.
TrainingRequest training_request(const ModelFlags& flags);

}  // namespace pipesim::cli
