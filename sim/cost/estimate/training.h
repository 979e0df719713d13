// How a model is trained on a cluster: sizes, precision, and how it is split over devices.
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/estimate/expert_load.h"
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

// How context-parallel ranks, each with a part of every sequence, attend to all of it.
enum class ContextExchange : std::uint8_t {
  ring,        // keys and values go around, behind attention to those that came before
  gather,      // all ranks get all keys and values
  all_to_all,  // a rank gets the whole sequence of some of the heads ("Ulysses")
};
// How tokens reach their experts' ranks, and come back.
enum class Dispatch : std::uint8_t {
  all_to_all,    // each copy travels
  all_gather,    // every rank gets all tokens
  deduplicated,  // a token crosses the network once for a node (DeepEP, HybridEP)
};

std::string_view attention_name(Attention attention);
// By name; "flash" is fused. Refuses others, in the words of the command line.
Attention parse_attention(std::string_view text);
std::string_view gather_name(Gather gather);
std::string_view context_exchange_name(ContextExchange exchange);  // "ring", "gather", "a2a"
ContextExchange parse_context_exchange(std::string_view text);
// A ring where attention has one; of latent attention, whose keys and values are wide, heads.
ContextExchange usual_context_exchange(const Model& model, std::int64_t sequence_length);
std::string_view dispatch_name(Dispatch dispatch);  // "alltoall", "allgather", "deduplicated"
Dispatch parse_dispatch(std::string_view text);

struct Training {
  std::int64_t micro_batch_size = 1;  // sequences
  std::int64_t sequence_length = 1024;
  int pipeline_parallel = 1;  // ranks of the pipeline
  int tensor_parallel = 1;
  int data_parallel = 1;
  int context_parallel = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  // Routed experts are spread over the same ranks in another way: blocks of tensor- and
  // context-parallel ranks and of replicas share them out (Megatron-Core's parallel folding,
  // megatron/core/parallel_state.py).
  int expert_parallel = 1;
  std::optional<int> expert_tensor_parallel;  // ranks that split an expert; absent: as all else
  Dispatch dispatch = Dispatch::all_to_all;
  ExpertLoad expert_load;
  // A forward and another microbatch's backward run beside each other, each behind the other's
  // exchanges of experts.
  bool overlaps_experts = false;
  std::optional<double> expert_capacity;  // rows of an expert relative to the mean; more is dropped
  bool sequence_parallel = false;         // activations between split layers are split by tokens
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

  // The mesh of devices for so many ranks of a pipeline, of everything but routed experts, and of
  // those.
  Mesh mesh(int pipeline_ranks) const {
    return Mesh({.tensor = tensor_parallel,
                 .context = context_parallel,
                 .data = data_parallel,
                 .pipeline = pipeline_ranks});
  }
  Mesh expert_mesh(int pipeline_ranks) const {
    return Mesh({.tensor = split_experts(),
                 .expert = expert_parallel,
                 .data = expert_replicas(),
                 .pipeline = pipeline_ranks});
  }
  int split_experts() const { return expert_tensor_parallel.value_or(tensor_parallel); }
  // Ranks that hold the same weights: dense ones, and those of routed experts.
  int replicas() const { return data_parallel * context_parallel; }
  int expert_replicas() const {
    return tensor_parallel * replicas() / (split_experts() * expert_parallel);
  }
  // Of a microbatch.
  std::int64_t tokens_per_rank() const {
    return micro_batch_size * sequence_length / context_parallel;
  }
  std::int64_t devices() const { return mesh(pipeline_parallel).ranks(); }
  int shards() const { return zero == 0 ? 1 : shard_over.value_or(replicas()); }
  int expert_shards() const {
    if (zero == 0) return 1;
    return shard_over ? std::gcd(*shard_over, expert_replicas()) : expert_replicas();
  }
  // Whether a rank has a part of some states.
  bool splits_states() const { return shards() > 1 || expert_shards() > 1; }
  // Whether any rank holds the same weights as another.
  bool has_replicas() const { return replicas() > 1 || expert_replicas() > 1; }
  bool gathers_next_to_forwards() const {
    return gathers_ahead && (zero == 1 || zero == 2) && splits_states();
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
// Refuse what context-parallel ranks can't share of a sequence.
void check_context(const Training& training, const Model& model);
// Refuses impossible replicas, in the words of the command line.
void check_replicas(const Training& training);
// Resets settings without effect on one replica, on one tensor-parallel rank or at this stage of
// ZeRO, so that one line of flags serves a sweep. Returns a sentence for each. Expects a training
// that passes check_replicas().
std::vector<std::string> drop_without_effect(Training& training);
// The pairs of a query and what it sees that the rank with most of them has, of ranks that share a
// sequence in a zigzag: of 2C chunks, rank r has the r-th and the r-th last.
double most_pairs_of_rank(const BlockKind& kind, std::int64_t length, std::int64_t ranks);
// Refuses impossible trainings: the error says the rule, the value, the nearest valid choice.
void check(const Training& training, const Model& model, const Cluster& cluster);

}  // namespace pipesim
