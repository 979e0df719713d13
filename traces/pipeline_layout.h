// The layout of a training: layers on virtual stages, stages on pipeline ranks,
// ranks on devices, and the messages between them.
//
// traces/print/layout_picture.h draws it; it is filled from costs or a model
// (sim/cost/describe_layout.h). Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/mesh.h"

namespace pipesim {

// Bytes and parameters are those of one device: with tensor parallelism each has a part.
struct LaidStage {
  int rank = 0;                            // of the pipeline
  int first_layer = 0;                     // of the model
  std::optional<int> layers;               // how many; absent if unknown
  std::string layer_names;                 // "embedding, blocks 0-3"; empty where layers are
  std::optional<std::int64_t> parameters;  // that it computes with; absent if unknown
  std::int64_t weight_bytes = 0;           // that it keeps; 0 if unknown

  bool operator==(const LaidStage&) const = default;
};

// From a stage to the next on another rank: each microbatch's activations. The same number of
// bytes of gradients comes back.
struct StageMessage {
  int from_stage = 0;
  int from_rank = 0;
  int to_rank = 0;
  std::int64_t bytes = 0;  // per microbatch, from each device; 0 if unknown

  bool operator==(const StageMessage&) const = default;
};

// The sum of the gradients of a matrix that the first and the last stage share, if those
// are on two ranks.
struct TiedExchange {
  int first_rank = 0;
  int last_rank = 0;
  std::int64_t bytes = 0;  // sent by each device, once per iteration

  bool operator==(const TiedExchange&) const = default;
};

// What a pipeline rank's devices exchange with those that hold the same.
struct ReplicaExchange {
  std::string what;  // "gradients"
  std::string how;   // "all-reduce"
  // Device 0's group; all others are laid out alike. Size 1: not known.
  RankGroup group;
  std::vector<std::int64_t> bytes;  // by pipeline rank: sent by each device per iteration
  std::string of = {};              // "experts"; empty: of all

  bool operator==(const ReplicaExchange&) const = default;
};

struct PipelineLayout {
  std::string model;              // its name; empty if there is none
  std::string schedule;           // for use in a sentence
  int microbatches = 1;           // per iteration and replica
  MeshSizes sizes;                // of all devices
  std::int64_t experts = 0;       // routed ones of a block
  MeshSizes expert_sizes;         // how they are spread over the same devices
  std::vector<LaidStage> stages;  // in the order of data flow
  std::vector<StageMessage> messages;
  std::optional<TiedExchange> tied;
  std::vector<ReplicaExchange> replicas;

  bool operator==(const PipelineLayout&) const = default;
};

}  // namespace pipesim
