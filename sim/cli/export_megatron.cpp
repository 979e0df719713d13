// The inverse of sim/import/megatron.cpp, which cites the source of the arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/cli/export.h"
#include "sim/cost/layout.h"
#include "sim/flags/schedule_choice.h"
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
    const BlockKind& first = model_.kinds.front();
    if (first.window || first.chunk) refuse("window like this model's", "another model");
    if (training_.precision == Precision::tf32) refuse("tf32 of its own", "--precision bf16");
  }

  void add_model() {
    add("--num-layers", model_.blocks);
    add("--hidden-size", model_.hidden_size);
    add("--ffn-hidden-size", model_.mlp_size);
    add("--num-attention-heads", model_.heads);
    if (model_.own_head_size) add("--kv-channels", *model_.own_head_size);
    if (model_.kv_heads != model_.heads) {
      add("--group-query-attention");
      add("--num-query-groups", model_.kv_heads);
    }
    if (model_.has_experts()) {
      add("--num-experts", model_.experts);
      add("--moe-router-topk", model_.experts_per_token);
      add("--moe-ffn-hidden-size", model_.expert_size);
    }
    add("--seq-length", training_.sequence_length);
    add("--max-position-embeddings",
        std::max(model_.max_sequence_length, training_.sequence_length));
    if (!model_.has_positions()) {
      add("--position-embedding-type", "rope");
      add("--rotary-base", model_.rotary_base);
    }
    if (model_.architecture == Architecture::llama) {
      add("--normalization", "RMSNorm");
      add("--swiglu");
      add("--disable-bias-linear");
      if (model_.biases.qkv) add("--add-qkv-bias");
      if (model_.qk_norm != QkNorm::none) add("--qk-layernorm");
    }
    if (!model_.tied_head) add("--untie-embeddings-and-output-weights");
    const double dropout = static_cast<double>(model_.dropout_ppm) / 1e6;
    add("--hidden-dropout", fmt::format("{:g}", dropout));
    add("--attention-dropout", fmt::format("{:g}", dropout));
    add_vocabulary();
    add("--attention-backend", attention_name(training_.attention));
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
    add("--pipeline-model-parallel-layout", fmt::format("'{}'", to_megatron_layout(layers)));
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
    constexpr std::pair<int, const char*> weights[] = {{4, "fp32"}, {2, "fp16"}};
    constexpr std::pair<int, const char*> moments[] = {{4, "fp32"}, {2, "bf16"}, {1, "fp8"}};
    for (const auto& [main, main_type] : weights) {
      for (const auto& [first, first_type] : moments) {
        for (const auto& [second, second_type] : moments) {
          if (main + first + second != *training_.optimizer_bytes) continue;
          if (zero == 0) add("--use-distributed-optimizer");
          add("--use-precision-aware-optimizer");
          if (main != 4) add("--main-params-dtype", main_type);
          if (first != 4) add("--exp-avg-dtype", first_type);
          if (second != 4) add("--exp-avg-sq-dtype", second_type);
          return;
        }
      }
    }
    refuse(fmt::format("optimizer with {} bytes", *training_.optimizer_bytes),
           "--optimizer-bytes 12, 10 or 8");
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
    if (recompute.attention) modules.emplace_back("core_attn");
    if (recompute.norms) modules.emplace_back("layernorm");
    if (recompute.activation) modules.emplace_back("moe_act");
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
