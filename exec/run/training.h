// What is to be trained, how, and by which program: the same on every rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/data/text.h"
#include "exec/device/device.h"
#include "exec/model/layer.h"
#include "exec/model/parameters.h"
#include "exec/run/emulation.h"
#include "sim/cost/costs.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/model.h"
#include "sim/schedule/schedule.h"
#include "traces/accumulation.h"
#include "traces/mesh.h"

namespace pipesim::exec {

// "fp32" or "bf16".
std::string_view precision_name(Number precision);

struct TrainingJob {
  Schedule program;  // with transfers
  Model model;
  std::vector<int> layout;  // layers of each virtual stage
  Text text = Text::built_in();
  std::int64_t micro_batch_size = 4;  // sequences
  std::int64_t sequence_length = 64;
  int iterations = 10;
  int warmup = 2;      // iterations before those, not measured
  int accumulate = 1;  // iterations, each a pass of all microbatches, to a step of the optimizer
  std::uint64_t seed = 1;
  float learning_rate = 1e-3F;
  Recompute recompute;
  Attention attention = Attention::unfused;  // of GPUs: fused
  Number precision = Number::float32;        // of weights as they are read, and activations
  // Replicas of the pipeline; `program` is of one of them, with REDUCE_GRADs, UNSHARDs and
  // RESHARDs where it matters when they are.
  int data_parallel = 1;
  int zero = 0;                              // what they split: see exec/model/parameters.h
  std::optional<int> shard_over;             // how many neighbouring replicas; all, where absent
  std::optional<std::int64_t> bucket_bytes;  // gradients of them are reduced at once
  // Over how many ranks each layer is split, and whether tokens are, too, between their sums.
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  bool tensor_overlap = true;  // their sums go on beside gradients of weights, where a B makes both
  bool library_sums = false;   // replicas' gradients by the transport's library
  std::optional<Gather> gather;  // for how long weights in parts are gathered
  bool record_details = false;   // layers and memory, for a trace
  bool verify = false;

  std::optional<SavePlan> saves;  // of which all ranks have their part
  std::string resume;             // the folder of checkpoints that it goes on from, if any
  int first_iteration = 0;        // iterations before it have been done

  // On an emulated device nothing is trained: costs take the place of the
  // model and its layout.
  std::optional<Costs> costs;
  EmulationPace pace = EmulationPace::wall;
  Faults faults;  // of the emulated device, or of a training on the CPU

  std::int64_t rows() const { return micro_batch_size * sequence_length; }
  // Whether ranks go from one measured iteration to the next without waiting for all;
  // --verify computes in between.
  bool is_continuous() const { return !verify; }
  // Iterations are counted from 0, and from the start of training.
  int end() const { return warmup + iterations; }
  int first_measured() const { return std::max(warmup, first_iteration); }
  // What is left to do of warm-up and of what is measured.
  int warmup_left() const { return std::max(0, warmup - first_iteration); }
  int measured_left() const { return std::max(0, end() - first_measured()); }
  // Whether all ranks wait for each other before an iteration.
  bool starts_together(int iteration) const {
    return iteration == first_iteration || iteration == warmup || !is_continuous();
  }
  bool is_saved(int iteration) const {
    return saves && ((iteration + 1) % saves->every == 0 || iteration + 1 == end());
  }
  Accumulation accumulation() const { return {accumulate, zero >= 2 && shards() > 1}; }
  // An iteration as a pass of a step. Warm-up and what is measured end with steps of their own.
  struct Pass {
    int step = 0;   // from 0 on
    int index = 0;  // in its step
    int count = 1;  // of the step

    bool is_first() const { return index == 0; }
    bool is_last() const { return index + 1 == count; }
  };
  Pass pass(int iteration) const;
  int most_passes() const { return std::min(accumulate, std::max(warmup, iterations)); }
  // Of an iteration: of one replica, and of all.
  std::int64_t replica_tokens() const { return rows() * program.microbatches; }
  std::int64_t tokens() const { return replica_tokens() * data_parallel; }
  std::int64_t step_tokens(const Pass& pass) const { return tokens() * pass.count; }
  // The number within its step of a microbatch's first sequence.
  std::int64_t first_sequence(int pass, int replica, int microbatch) const {
    const std::int64_t part = std::int64_t{pass} * data_parallel + replica;
    return (part * program.microbatches + microbatch) * micro_batch_size;
  }
  Mesh mesh() const {
    return Mesh({.tensor = tensor_parallel, .data = data_parallel, .pipeline = program.ranks()});
  }
  // Pipelines that train side by side: replicas, and of each one a tensor-parallel rank.
  int pipelines() const { return tensor_parallel * data_parallel; }
  // Of a rank with these others, null where layers are whole; nothing is computed again.
  LayerSetup layers(Device& device, Pool& pool, TensorGroup* tensor) const;
  // Over how many replicas states are split.
  int shards() const { return zero == 0 ? 1 : shard_over.value_or(data_parallel); }
  // As pipesim has replicas: how many, and what they split and exchange.
  Training replicas() const;
  // Whether a forward or backward gathers weights layer by layer.
  bool gathers_layers() const {
    return zero == 3 && shards() > 1 && replicas().gathers(program.stages()) == Gather::pass;
  }
  // How the rank at a place among them has them.
  StateSplit split(int own) const { return {shards(), own, zero}; }
  Cuts cuts() const;
  int first_layer(int stage) const;
  // What each virtual stage sends to the next.
  std::vector<std::int64_t> message_bytes() const;

  // Everything that must be alike on all ranks, as one text.
  std::string fingerprint() const;
};

// What the optimizer goes by, beside the learning rate; as GPT-3 was trained
// (Brown et al., 2020).
inline constexpr float adam_beta1 = 0.9F;
inline constexpr float adam_beta2 = 0.95F;
inline constexpr float weight_decay = 0.1F;
inline constexpr double largest_gradient_norm = 1.0;

}  // namespace pipesim::exec
