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
  Flag context_parallel, context_parallel_type;
  Flag expert_parallel, expert_tensor_parallel, expert_dispatch, expert_load, expert_capacity;
  Flag weights, gradient_bytes, overlap_gather, tensor_overlap, optimizer_bytes, software_factor;
  ReplicaFlags replicas;
  Flag global_batch;
  bool sequence_parallel = false;
  bool fused_loss = false;
  bool separate_sums = false;
  std::optional<Model> own_model;             // read already; `model` is its name
  bool is_open = false;                       // a plan's, whose layouts have the rest
  bool is_row = false;                        // of a table, whose reader prints the models' notes
  std::vector<std::string>* notes = nullptr;  // takes notes instead of standard error

  bool operator==(const ModelFlags&) const = default;
};

std::vector<FlagHelp> all_model_flags(ModelFlags& flags);
void add_model_flags(CommandLine& command, ModelFlags& flags);
// What --attention and --recompute accept.
std::vector<std::string> attention_names();
std::vector<std::string> context_exchange_names();
std::vector<std::string> dispatch_names();
std::vector<std::string> recompute_names();

// Those that are a launch's options and no axis of a plan.
std::vector<FlagHelp> option_flags(ModelFlags& flags);

// The first of them that was given, or empty.
std::string first_model_flag(const ModelFlags& flags);

// Prints on standard error which settings of files are ignored, unless the flags say otherwise.
void tell(const ModelFlags& flags, const std::vector<std::string>& notes);

// Reads model and cluster, and prints their notes; throws an input error if flags lack others that
// they need, or have no effect.
TrainingRequest training_request(const ModelFlags& flags);

}  // namespace pipesim::cli
