// How a model is trained on a cluster: sizes, precision, and what is split
// over which devices.
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
  fused,    // it never leaves the chip ("flash" attention)
};

// For how long a stage's weights stay gathered that replicas keep in parts.
enum class Gather : std::uint8_t {
  window,  // a rank has the next three stages that it needs, as PyTorch's pipelines have it
  pass,    // each forward and each backward gathers them, a layer at a time and the next one
           // beside, as FSDP2 does
  once,    // an iteration, as torchtitan has it with a pipeline
};

std::string_view attention_name(Attention attention);
// By its name; "flash" is fused. Refuses others, in the words of the command line.
Attention parse_attention(std::string_view text);
std::string_view gather_name(Gather gather);

struct Training {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1024;
  int pipeline_parallel = 1;  // ranks of the pipeline
  int tensor_parallel = 1;
  int data_parallel = 1;
  bool sequence_parallel = false;  // what tensor parallelism leaves whole is split by tokens
  Recompute recompute;
  Attention attention = Attention::unfused;
  Precision precision = Precision::bf16;
  std::int64_t gradient_bytes = 2;  // of a parameter's gradient, kept and reduced
  // What data-parallel replicas split: 1 optimizer, 2 and gradients, 3 and weights.
  int zero = 0;
  // Over how many neighbouring replicas; fewer than all is hybrid sharding.
  std::optional<int> shard_over;
  std::optional<Gather> gather;
  // Gradients are reduced in buckets of so many bytes while backwards still run;
  // absent: at once, after all of them.
  std::optional<std::int64_t> bucket_bytes;
  // Under ZeRO 1 and 2 new weights are gathered while the forwards that follow already run; else
  // at the end of the step. Of other training it says nothing.
  bool gathers_ahead = false;
  // Tensor-parallel exchanges run beside products, as far as the software does that.
  bool asynchronous_reduction = true;
  // In place of the software's part of exchanges that their own products hide.
  std::optional<double> hidden_exchange;
  // In place of the software's efficiency.
  std::optional<double> software_factor;

  // Of the devices of so many ranks of a pipeline.
  Mesh mesh(int pipeline_ranks) const {
    return Mesh({.tensor = tensor_parallel, .data = data_parallel, .pipeline = pipeline_ranks});
  }
  std::int64_t devices() const { return mesh(pipeline_parallel).ranks(); }
  int shards() const { return zero == 0 ? 1 : shard_over.value_or(data_parallel); }
  bool gathers_next_to_forwards() const {
    return gathers_ahead && (zero == 1 || zero == 2) && shards() > 1;
  }
  // Of a pipeline of so many virtual stages.
  Gather gathers(int stages) const {
    return gather.value_or(stages == 1 ? Gather::pass : Gather::window);
  }
};

// Refuses what tensor-parallel ranks can't split of a model. They are devices of a cluster, whose
// nodes they must fit, or, where it is null, ranks that may be anywhere and have as many words of
// the vocabulary each, which a cluster's fill up.
void check_shards(const Training& training, const Model& model, const Cluster* cluster);
// Refuses replicas that can't be, in the words of the command line.
void check_replicas(const Training& training);
// Resets what has no effect on one replica, on one tensor-parallel rank or at this stage of ZeRO,
// so that one line of flags serves a sweep. Says what, a sentence per flag. For a training that
// passes check_replicas().
std::vector<std::string> drop_without_effect(Training& training);
// Refuses what can't be: the rule, the value, the nearest valid choice.
void check(const Training& training, const Model& model, const Cluster& cluster);

}  // namespace pipesim
