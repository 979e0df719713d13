// What to train, how, and by which program: the same on every rank.
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
  int warmup = 2;      // earlier iterations, not measured
  int accumulate = 1;  // iterations, each a pass of all microbatches, per optimizer step
  std::uint64_t seed = 1;
  float learning_rate = 1e-3F;
  Recompute recompute;
  Attention attention = Attention::unfused;  // on GPUs: fused
  Number precision = Number::float32;        // of weights as operators read them, and activations
  // Replicas of the pipeline; `program` is that of one of them, with REDUCE_GRADs, UNSHARDs and
  // RESHARDs if their position matters.
  int data_parallel = 1;
  int zero = 0;                              // what they split: see exec/model/parameters.h
  std::optional<int> shard_over;             // how many neighbouring replicas; absent: all
  std::optional<std::int64_t> bucket_bytes;  // bytes of gradients reduced at once
  // Over how many ranks each layer is split, and whether tokens are, too, between layers' sums.
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  bool tensor_overlap = true;    // in a B, their sums overlap gradients of weights
  bool library_sums = false;     // sums replicas' gradients by the transport's library
  std::optional<Gather> gather;  // how long sharded weights stay gathered
  bool record_details = false;   // layers and memory, for a trace
  bool verify = false;

  std::optional<SavePlan> saves;  // all ranks write their parts
  std::string resume;             // the folder of checkpoints to resume from, if any
  int first_iteration = 0;        // earlier ones have been done

  // On an emulated device nothing is trained: costs replace the model and its layout.
  std::optional<Costs> costs;
  EmulationPace pace = EmulationPace::wall;
  Faults faults;  // of the emulated device, or of a training on the CPU

  std::int64_t rows() const { return micro_batch_size * sequence_length; }
  // Whether ranks go from one measured iteration to the next without a barrier; --verify computes
  // in between.
  bool is_continuous() const { return !verify; }
  // Iterations are counted from 0, and from the start of training.
  int end() const { return warmup + iterations; }
  int first_measured() const { return std::max(warmup, first_iteration); }
  // The remaining iterations of the warm-up, and of those measured.
  int warmup_left() const { return std::max(0, warmup - first_iteration); }
  int measured_left() const { return std::max(0, end() - first_measured()); }
  // Whether there is a barrier before an iteration.
  bool starts_together(int iteration) const {
    return iteration == first_iteration || iteration == warmup || !is_continuous();
  }
  bool is_saved(int iteration) const {
    return saves && ((iteration + 1) % saves->every == 0 || iteration + 1 == end());
  }
  Accumulation accumulation() const { return {accumulate, zero >= 2 && shards() > 1}; }
  // An iteration as a pass of a step. The warm-up and the measured iterations each end with a step.
  struct Pass {
    int step = 0;   // from 0
    int index = 0;  // within its step
    int count = 1;  // passes of the step

    bool is_first() const { return index == 0; }
    bool is_last() const { return index + 1 == count; }
  };
  Pass pass(int iteration) const;
  int most_passes() const { return std::min(accumulate, std::max(warmup, iterations)); }
  // Per iteration: of one replica, and of all.
  std::int64_t replica_tokens() const { return rows() * program.microbatches; }
  std::int64_t tokens() const { return replica_tokens() * data_parallel; }
  std::int64_t step_tokens(const Pass& pass) const { return tokens() * pass.count; }
  // The number of a microbatch's first sequence within its step.
  std::int64_t first_sequence(int pass, int replica, int microbatch) const {
    const std::int64_t part = std::int64_t{pass} * data_parallel + replica;
    return (part * program.microbatches + microbatch) * micro_batch_size;
  }
  Mesh mesh() const {
    return Mesh({.tensor = tensor_parallel, .data = data_parallel, .pipeline = program.ranks()});
  }
  // Pipelines that train in parallel: replicas times tensor-parallel ranks.
  int pipelines() const { return tensor_parallel * data_parallel; }
  // For a rank in this tensor-parallel group, null if layers are whole; without recomputation.
  LayerSetup layers(Device& device, Pool& pool, TensorGroup* tensor) const;
  // Over how many replicas states are split.
  int shards() const { return zero == 0 ? 1 : shard_over.value_or(data_parallel); }
  // Replicas as pipesim describes them: how many, and what they split and exchange.
  Training replicas() const;
  // Whether a forward or backward gathers weights layer by layer.
  bool gathers_layers() const {
    return zero == 3 && shards() > 1 && replicas().gathers(program.stages()) == Gather::pass;
  }
  // The split for the rank at index `own` among them.
  StateSplit split(int own) const { return {shards(), own, zero}; }
  Cuts cuts() const;
  int first_layer(int stage) const;
  // Bytes that each virtual stage sends to the next.
  std::vector<std::int64_t> message_bytes() const;

  // Everything that must be equal on all ranks, as one text.
  std::string fingerprint() const;
};

// The optimizer's constants besides the learning rate; as for GPT-3 (Brown et al., 2020).
inline constexpr float adam_beta1 = 0.9F;
inline constexpr float adam_beta2 = 0.95F;
inline constexpr float weight_decay = 0.1F;
inline constexpr double largest_gradient_norm = 1.0;

}  // namespace pipesim::exec
