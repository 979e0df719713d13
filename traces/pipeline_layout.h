// What a training is laid out as: layers on virtual stages, stages on the ranks of a
// pipeline, ranks on devices, and who sends what to whom.
//
// What a picture of it shows (traces/print/layout_picture.h); filled by whoever knows costs
// or a model (sim/cost/lay_out.h). Plain values that belong to whoever has them; any thread.
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
  std::optional<int> layers;               // how many; absent where nobody says
  std::string layer_names;                 // "embedding, blocks 0-3"; empty where layers are
  std::optional<std::int64_t> parameters;  // that it computes with; absent where nobody says
  std::int64_t weight_bytes = 0;           // that it keeps; 0 where nobody says

  bool operator==(const LaidStage&) const = default;
};

// From a stage to the next on another rank: each microbatch's activations. As many bytes of
// gradients come back.
struct StageMessage {
  int from_stage = 0;
  int from_rank = 0;
  int to_rank = 0;
  std::int64_t bytes = 0;  // of a microbatch, from each device; 0 where nobody says

  bool operator==(const StageMessage&) const = default;
};

// The sum of the gradients of a matrix that the first and the last stage share, where those
// are on two ranks.
struct TiedExchange {
  int first_rank = 0;
  int last_rank = 0;
  std::int64_t bytes = 0;  // that each device sends, once an iteration

  bool operator==(const TiedExchange&) const = default;
};

// What a pipeline rank's devices exchange with those that stand for it in other replicas.
struct ReplicaExchange {
  std::string what;  // "gradients"
  std::string how;   // "all-reduce"
  // Of device 0; the groups of all others lie like it. Of 1: not known.
  RankGroup group;
  std::vector<std::int64_t> bytes;  // by pipeline rank: that each device sends an iteration

  bool operator==(const ReplicaExchange&) const = default;
};

struct PipelineLayout {
  std::string model;              // its name; empty where there is none
  std::string schedule;           // as in a sentence
  int microbatches = 1;           // an iteration, of each replica
  MeshSizes sizes;                // of all devices
  std::vector<LaidStage> stages;  // in the order of data flow
  std::vector<StageMessage> messages;
  std::optional<TiedExchange> tied;
  std::vector<ReplicaExchange> replicas;

  bool operator==(const PipelineLayout&) const = default;
};

}  // namespace pipesim
