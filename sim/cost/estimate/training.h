// How a model is trained on a cluster: sizes, precision, and how it is split over devices.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/estimate/recompute.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/model.h"
#include "traces/mesh.h"

namespace pipesim {

enum class Attention : std::uint8_t {
  unfused,  // the matrix of scores goes through memory
  fused,    // scores never leave the chip ("flash" attention)
};

// How long sharded weights of a stage stay gathered.
enum class Gather : std::uint8_t {
  window,  // a rank has the next three stages that it needs, as in PyTorch's pipelines
  pass,    // each forward and each backward gathers them, a layer at a time while computing the one
           // before, as in FSDP2
  once,    // per iteration, as in torchtitan with a pipeline
};

std::string_view attention_name(Attention attention);
// By name; "flash" is fused. Refuses others, in the words of the command line.
Attention parse_attention(std::string_view text);
std::string_view gather_name(Gather gather);

struct Training {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1024;
  int pipeline_parallel = 1;  // ranks of the pipeline
  int tensor_parallel = 1;
  int data_parallel = 1;
  bool sequence_parallel = false;  // activations between split layers are split by tokens
  Recompute recompute;
  Attention attention = Attention::unfused;
  Precision precision = Precision::bf16;
  std::int64_t gradient_bytes = 2;  // per parameter, kept and reduced
  // What data-parallel replicas split: 1 optimizer, 2 also gradients, 3 also weights.
  int zero = 0;
  // Over how many neighbouring replicas; fewer than all is hybrid sharding.
  std::optional<int> shard_over;
  std::optional<Gather> gather;
  // Bytes per bucket of gradients, reduced while backwards still run; absent: all at once, after
  // them.
  std::optional<std::int64_t> bucket_bytes;
  // With ZeRO 1 and 2, new weights are gathered while the next forwards already run, instead of at
  // the end of the step. No effect on other training.
  bool gathers_ahead = false;
  // Tensor-parallel exchanges overlap GEMMs, as far as the software does that.
  bool asynchronous_reduction = true;
  // The part of exchanges that their own GEMMs hide; absent: the software's, with sequence
  // parallelism. Megatron-LM's --tp-comm-overlap takes that (megatron/training/arguments.py).
  std::optional<double> hidden_exchange;
  // Optimizer states per parameter; absent: two moments, and a 32-bit copy of 16-bit weights.
  std::optional<std::int64_t> optimizer_bytes;
  bool fused_loss = false;  // cross-entropy in one kernel each way
  bool fused_sums = true;   // products add weight gradients to their sums, if the software can
  // Replaces the software's efficiency.
  std::optional<double> software_factor;

  // The mesh of devices for so many ranks of a pipeline.
  Mesh mesh(int pipeline_ranks) const {
    return Mesh({.tensor = tensor_parallel, .data = data_parallel, .pipeline = pipeline_ranks});
  }
  std::int64_t devices() const { return mesh(pipeline_parallel).ranks(); }
  int shards() const { return zero == 0 ? 1 : shard_over.value_or(data_parallel); }
  bool gathers_next_to_forwards() const {
    return gathers_ahead && (zero == 1 || zero == 2) && shards() > 1;
  }
  // For a pipeline of so many virtual stages.
  Gather gathers(int stages) const {
    return gather.value_or(stages == 1 ? Gather::pass : Gather::window);
  }
};

// The part of tensor-parallel exchanges that their own GEMMs hide.
double hidden_exchange(const Training& training, const SoftwareSpec& software);
// Bytes of optimizer states per parameter, unless the training says so itself.
std::int64_t usual_optimizer_bytes(const Training& training, const SoftwareSpec& software);

// Refuses a model that tensor-parallel ranks can't split. They are devices of a cluster, whose
// nodes they must fit, or, if it is null, ranks that may be anywhere and must split the vocabulary
// evenly, which a cluster's ranks pad.
void check_shards(const Training& training, const Model& model, const Cluster* cluster);
// Refuses impossible replicas, in the words of the command line.
void check_replicas(const Training& training);
// Resets settings without effect on one replica, on one tensor-parallel rank or at this stage of
// ZeRO, so that one line of flags serves a sweep. Returns a sentence for each. Expects a training
// that passes check_replicas().
std::vector<std::string> drop_without_effect(Training& training);
// Refuses impossible trainings: the error says the rule, the value, the nearest valid choice.
void check(const Training& training, const Model& model, const Cluster& cluster);

}  // namespace pipesim
