// The inverse of sim/import/megatron.cpp, which cites the source of the arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/cli/export.h"
#include "sim/cost/layout.h"
#include "sim/flags/schedule_choice.h"
#include "sim/import/number_list.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

class MegatronExport {
 public:
  MegatronExport(const PlanSpace& space, const PlanPoint& point, const LayersOfStages& layers)
      : space_(space),
        point_(point),
        layers_(layers),
        request_(space.training(point)),
        model_(request_.model),
        training_(request_.training) {}

  std::string text() {
    check();
    add_model();
    add_batch();
    add_split();
    add_precision();
    add_optimizer();
    add_recomputation();
    add_replicas();
    return fmt::format("MEGATRON_ARGS=(\n{})\n", lines_);
  }

 private:
  void add(std::string_view name) { lines_ += fmt::format("  {}\n", name); }
  void add(std::string_view name, std::string_view value) {
    lines_ += fmt::format("  {} {}\n", name, value);
  }
  void add(std::string_view name, std::int64_t value) { add(name, std::to_string(value)); }
  void note(std::string_view text) { lines_ += fmt::format("  # {}\n", text); }

  [[noreturn]] void refuse(std::string_view what, std::string_view remedy) const {
    throw input_error(
        fmt::format("--export megatron: Megatron-LM has no {}; give {}", what, remedy));
  }

  void check() const {
    if (model_.architecture == Architecture::mlp) refuse("such blocks", "a gpt or llama");
    const bool is_llama = model_.architecture == Architecture::llama;
    const Biases& biases = model_.biases;
    const BlockKind& first = *std::ranges::max_element(model_.kinds, {}, &BlockKind::window);
    const auto differs = [&](const BlockKind& kind) {
      return kind.chunk || (kind.window && kind.window != first.window);
    };
    const std::pair<bool, const char*> lacks[] = {
        {std::ranges::any_of(model_.kinds, differs), "windows or chunks"},
        {model_.norms != 2 || model_.is_parallel || model_.has_embedding_norm, "norms"},
        {model_.norm_kind == NormKind::layer_unbiased, "norms"},
        {model_.qk_norm == QkNorm::whole || (model_.qk_norm != QkNorm::none && model_.latent),
         "norms of queries and keys"},
        {is_llama && !model_.is_gated, "MLP"},
        {model_.prediction_depths > 0 && model_.has_positions(), "predictions"},
        {biases.mlp != biases.attention_output || (biases.mlp && model_.shared_size > 0) ||
             biases.head || biases.router != (biases.mlp && model_.has_experts()) ||
             (biases.mlp && !biases.qkv && !model_.latent),
         "biases"}};
    for (const auto& [is_so, what] : lacks) {
      if (is_so) refuse(fmt::format("{} like this model's", what), "another model");
    }
    if (training_.precision == Precision::tf32) refuse("tf32 of its own", "--precision bf16");
  }

  void add_model() {
    add("--num-layers", model_.blocks);
    add("--hidden-size", model_.hidden_size);
    add("--ffn-hidden-size", model_.mlp_size);
    add("--num-attention-heads", model_.heads);
    add_attention();
    if (model_.has_experts()) add_experts();
    add_pattern("--moe-layer-freq", [](const BlockKind& kind) { return kind.has_experts; });
    if (model_.prediction_depths > 0) add("--mtp-num-layers", model_.prediction_depths);
    add("--seq-length", training_.sequence_length);
    add("--max-position-embeddings",
        std::max(model_.max_sequence_length, training_.sequence_length));
    if (model_.positions == Positions::rotary) {
      add("--position-embedding-type", "rope");
      add("--rotary-base", model_.rotary_base);
    } else if (model_.positions == Positions::none) {
      add("--position-embedding-type", "none");
    }
    if (model_.norm_kind == NormKind::rms) add("--normalization", "RMSNorm");
    if (model_.is_gated) {
      add(model_.architecture == Architecture::llama ? "--swiglu" : "--quick-geglu");
    }
    if (!model_.biases.mlp) add("--disable-bias-linear");
    if (!model_.biases.mlp && model_.biases.qkv) add("--add-qkv-bias");
    if (!model_.tied_head) add("--untie-embeddings-and-output-weights");
    const double dropout = static_cast<double>(model_.dropout_ppm) / 1e6;
    add("--hidden-dropout", fmt::format("{:g}", dropout));
    add("--attention-dropout", fmt::format("{:g}", dropout));
    add_vocabulary();
    add("--attention-backend", attention_name(training_.attention));
  }

  void add_attention() {
    if (model_.latent) {
      add("--multi-latent-attention");
      if (model_.latent->query_rank > 0) add("--q-lora-rank", model_.latent->query_rank);
      add("--kv-lora-rank", model_.latent->kv_rank);
      add("--qk-head-dim", model_.latent->plain_size);
      add("--qk-pos-emb-head-dim", model_.latent->rotary_size);
      add("--v-head-dim", model_.latent->value_size);
    } else if (model_.own_head_size) {
      add("--kv-channels", *model_.own_head_size);
    }
    if (model_.kv_heads != model_.heads && !model_.latent) {
      add("--group-query-attention");
      add("--num-query-groups", model_.kv_heads);
    }
    if (model_.latent || model_.qk_norm != QkNorm::none) add("--qk-layernorm");
    if (model_.has_sinks) add("--softmax-type", "learnable");
    for (const BlockKind& kind : model_.kinds) {
      if (!kind.window) continue;
      add("--window-size", fmt::format("'({},0)'", *kind.window - 1));
      add_pattern("--window-attn-skip-freq", [](const BlockKind& one) { return !!one.window; });
      return;
    }
  }

  void add_experts() {
    add("--num-experts", model_.experts);
    add("--moe-router-topk", model_.experts_per_token);
    add("--moe-ffn-hidden-size", model_.expert_size);
    if (model_.shared_size > 0) add("--moe-shared-expert-intermediate-size", model_.shared_size);
    if (model_.has_shared_gate) add("--moe-shared-expert-gate");
    if (model_.groups_per_token > 0) {
      add("--moe-router-num-groups", model_.expert_groups);
      add("--moe-router-group-topk", model_.groups_per_token);
    }
  }

  // Which blocks are so, unless all are alike.
  void add_pattern(std::string_view name, bool (*is_so)(const BlockKind&)) {
    std::vector<int> blocks;
    for (int block = 1; block <= model_.blocks; ++block) {
      blocks.push_back(is_so(model_.kind_of(block)) ? 1 : 0);
    }
    const auto alike = std::ranges::count(blocks, blocks.front());
    if (alike < std::ssize(blocks)) add(name, fmt::format("'{}'", number_list_text(blocks)));
  }

  // How ranks share sequences and experts.
  void add_spread() {
    if (training_.context_parallel > 1) {
      constexpr const char* types[] = {"p2p", "all_gather", "a2a"};
      add("--context-parallel-size", training_.context_parallel);
      add("--cp-comm-type", types[static_cast<int>(training_.context_exchange)]);
    }
    if (!model_.has_experts()) return;
    constexpr const char* dispatchers[] = {"alltoall", "allgather", "flex"};
    add("--moe-token-dispatcher-type", dispatchers[static_cast<int>(training_.dispatch)]);
    if (training_.dispatch == Dispatch::deduplicated) {
      add("--moe-flex-dispatcher-backend", "deepep");
    }
    if (training_.expert_parallel > 1) {
      add("--expert-model-parallel-size", training_.expert_parallel);
    }
    if (training_.split_experts() != training_.tensor_parallel) {
      add("--expert-tensor-parallel-size", training_.split_experts());
    }
    if (training_.expert_capacity) {
      add("--moe-expert-capacity-factor", fmt::format("{:g}", *training_.expert_capacity));
    }
    if (training_.tensor_parallel > 1 && !training_.sequence_parallel) {
      refuse("experts on tensor-parallel ranks without sequence parallelism",
             "--sequence-parallel on");
    }
  }

  // Padded so that ranks share it evenly.
  void add_vocabulary() {
    constexpr std::int64_t usual = 128;
    std::int64_t divisor = usual;
    while (divisor > 1 && model_.vocabulary_size % (divisor * point_.tensor_parallel) != 0) {
      divisor /= 2;
    }
    note("the tokenizer is to have as many words, or fewer that are filled up to them");
    add("--vocab-size", model_.vocabulary_size);
    add("--make-vocab-size-divisible-by", divisor);
  }

  void add_batch() {
    add("--micro-batch-size", point_.micro_batch_size);
    add("--global-batch-size", space_.question().global_batch);
  }

  void add_split() {
    add("--tensor-model-parallel-size", point_.tensor_parallel);
    if (point_.sequence_parallel) add("--sequence-parallel");
    add_tensor_overlap();
    add_spread();
    add("--pipeline-model-parallel-size", point_.stages);
    if (point_.stages == 1) return;
    const int stages = point_.stages * point_.schedule.chunks;
    if (model_.blocks % stages == 0 && point_.schedule.chunks > 1) {
      note(fmt::format("where it has no layouts: --num-layers-per-virtual-pipeline-stage {}",
                       model_.blocks / stages));
    }
    const Schedule schedule = choose_schedule(space_.schedule(point_)).schedule;
    const CostModel costs = request_.with_ranks(point_.stages);
    const std::vector<int> layers = costs.layout({schedule.placement, false, layers_});
    add("--pipeline-model-parallel-layout", fmt::format("'{}'", letters_of(layers)));
  }

  // With predictions, which are last but the loss, in full.
  std::string letters_of(const std::vector<int>& layers) const {
    if (model_.prediction_depths == 0) return to_megatron_layout(layers);
    std::string letters;
    int layer = 0;
    for (const int count : layers) {
      if (layer > 0) letters += '|';
      for (const int end = layer + count; layer < end; ++layer) {
        letters += model_.is_embedding(layer)    ? 'E'
                   : model_.is_head(layer)       ? 'L'
                   : model_.is_prediction(layer) ? 'm'
                                                 : 't';
      }
    }
    return letters;
  }

  void add_tensor_overlap() {
    if (point_.tensor_parallel == 1) return;
    if (!training_.asynchronous_reduction) {
      add("--no-async-tensor-model-parallel-allreduce");
    } else if (point_.sequence_parallel && training_.hidden_exchange != 0.0) {
      if (training_.hidden_exchange) {
        note(fmt::format("assumed to hide {:g} of the exchanges", *training_.hidden_exchange));
      }
      add("--tp-comm-overlap");
    }
  }

  void add_optimizer() {
    if (training_.fused_loss) add("--cross-entropy-loss-fusion");
    if (!training_.fused_sums) add("--no-gradient-accumulation-fusion");
    if (!training_.optimizer_bytes) return;
    const SoftwareSpec& software = request_.cluster.device.software;
    const std::int64_t saved =
        usual_optimizer_bytes(training_, software) - *training_.optimizer_bytes;
    if (saved == 0) return;
    const int zero = point_.replicas.zero;
    if (zero == 0 && space_.data_parallel(point_) > 1) {
      refuse("narrow states without the distributed optimizer", "--zero 1");
    }
    // With weights in bf16, which have the other bits, a fp32 master needs 2 bytes.
    const bool is_bf16 = training_.precision == Precision::bf16;
    const std::pair<int, const char*> weights[] = {{is_bf16 ? 2 : 4, "fp32"}, {2, "fp16"}};
    constexpr std::pair<int, const char*> moments[] = {{4, "fp32"}, {2, "bf16"}, {1, "fp8"}};
    for (const auto& [main, main_type] : weights) {
      for (const auto& [first, first_type] : moments) {
        for (const auto& [second, second_type] : moments) {
          if (main + first + second != *training_.optimizer_bytes) continue;
          if (zero == 0) add("--use-distributed-optimizer");
          add("--use-precision-aware-optimizer");
          if (main_type != weights[0].second) add("--main-params-dtype", main_type);
          if (first != 4) add("--exp-avg-dtype", first_type);
          if (second != 4) add("--exp-avg-sq-dtype", second_type);
          return;
        }
      }
    }
    refuse(fmt::format("optimizer with {} bytes", *training_.optimizer_bytes),
           "--optimizer-bytes 12, 10, 8 or 6");
  }

  void add_precision() {
    const bool has_long = training_.gradient_bytes == 4;
    switch (training_.precision) {
      case Precision::fp16:
        add("--fp16");
        if (has_long) add("--accumulate-allreduce-grads-in-fp32");
        break;
      case Precision::bf16:
      case Precision::fp8:
        add("--bf16");
        if (!has_long) add("--grad-reduce-in-bf16");
        if (training_.precision == Precision::fp8) add("--fp8-format", "hybrid");
        break;
      case Precision::tf32:
      case Precision::fp32: break;
    }
  }

  void add_recomputation() {
    const Recompute& recompute = point_.recompute;
    if (!recompute.exists()) return;
    if (recompute.full) {
      add("--recompute-granularity", "full");
      const bool is_whole = recompute.blocks == 0;
      add("--recompute-method", is_whole ? "uniform" : "block");
      add("--recompute-num-layers", is_whole ? 1 : recompute.blocks);
      return;
    }
    add("--recompute-granularity", "selective");
    std::vector<std::string_view> modules;
    constexpr std::pair<Recompute::Part, std::string_view> names[] = {
        {&Recompute::attention, "core_attn"},
        {&Recompute::norms, "layernorm"},
        {&Recompute::activation, "moe_act"},
        {&Recompute::latent, "mla_up_proj"},
        {&Recompute::mlp, "mlp"},
        {&Recompute::shared, "shared_experts"},
        {&Recompute::experts, "moe"}};
    for (const auto& [part, name] : names) {
      if (recompute.*part) modules.push_back(name);
    }
    if (modules.size() > 1 || !recompute.attention) {
      add("--recompute-modules", fmt::format("{}", fmt::join(modules, " ")));
    }
  }

  void add_replicas() {
    if (space_.data_parallel(point_) == 1) return;
    const PlanReplicas& replicas = point_.replicas;
    const bool reduces_early = replicas.bucket_bytes.has_value();
    if (replicas.zero == 1) add("--use-distributed-optimizer");
    if (replicas.zero > 1) {
      add("--use-megatron-fsdp");
      add("--ckpt-format", "fsdp_dtensor");
      add("--use-distributed-optimizer");
      add("--data-parallel-sharding-strategy",
          replicas.zero == 2 ? "optim_grads" : "optim_grads_params");
      note("Megatron-FSDP gathers and reduces unit by unit, in an order of its own; it refuses");
      note("CUDA_DEVICE_MAX_CONNECTIONS=1");
    }
    if (const auto over = space_.shard_over(point_)) {
      add("--num-distributed-optimizer-instances", space_.data_parallel(point_) / *over);
    }
    if (reduces_early) {
      add("--overlap-grad-reduce");
      add("--ddp-bucket-size", *replicas.bucket_bytes / training_.gradient_bytes);
    }
    if (!replicas.gathers_ahead) return;
    if (!reduces_early) add("--overlap-grad-reduce");
    add("--overlap-param-gather");
  }

  const PlanSpace& space_;
  const PlanPoint& point_;
  const LayersOfStages& layers_;
  TrainingRequest request_;
  const Model& model_;
  const Training& training_;
  std::string lines_;
};

}  // namespace

std::string megatron_arguments(const PlanSpace& space, const PlanPoint& point,
                               const LayersOfStages& layers) {
  return MegatronExport(space, point, layers).text();
}

}  // namespace pipesim::cli
