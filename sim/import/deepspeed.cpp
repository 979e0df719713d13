#include "sim/import/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/import/settings.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct DeepspeedReason {
  std::string_view path, why;
};

// Unless they are off.
constexpr DeepspeedReason reasons_of_deepspeed[] = {
    {"zero_optimization.zero_hpz_partition_size", "weights have one partition here"},
    {"zero_optimization.zero_quantized_weights", "weights are gathered in their precision here"},
    {"zero_optimization.zero_quantized_gradients", "gradients are reduced as they are here"},
    {"activation_checkpointing.partition_activations", "a block's input is kept whole here"},
    {"activation_checkpointing.cpu_checkpointing", "activations stay on the device here"},
    {"pipeline.seed_layers", ""},
    {"communication_data_type", "gradients are reduced as they are; give --gradient-bytes"},
    {"sparse_attention", "attention is causal and whole here"},
    {"compression_training", "not modelled"},
    {"prescale_gradients", ""},
};

constexpr std::string_view harmless_in_deepspeed =
    "optimizer. scheduler. fp16. bf16. amp. aio. wandb. tensorboard. csv_monitor. "
    "flops_profiler. comms_logger. comet. checkpoint. gradient_clipping "
    "gradient_predivide steps_per_print wall_clock_breakdown memory_breakdown "
    "dump_state zero_allow zero_force data_efficiency. autotuning. elasticity. nebula. "
    "compile. disable_allgather sparse_gradients zero_optimization.contiguous_gradients "
    "zero_optimization.allgather_partitions zero_optimization.allgather_bucket_size "
    "zero_optimization.reduce_scatter zero_optimization.round_robin "
    "zero_optimization.stage3_ zero_optimization.sub_group zero_optimization.load_from "
    "zero_optimization.ignore_unused zero_optimization.log_trace "
    "zero_optimization.elastic_checkpoint zero_optimization.memory_efficient "
    "zero_optimization.model_persistence activation_checkpointing. train_ data_types. "
    "tensor_parallel. hybrid_engine. seed pipeline. expert_parallel. use_data_before_expert";

class Deepspeed {
 public:
  Deepspeed(const JsonCursor& root, const ImportQuestion& question)
      : settings_(root), question_(question) {}

  Imported read() {
    imported_.format = "JSON of DeepSpeed";
    imported_.software = "deepspeed";
    imported_.missing.push_back({"--model", "the file does not say what is trained"});
    zero_ = read_zero();
    read_pipeline();
    read_precision();
    read_batch();
    read_replicas();
    read_recomputation();
    read_offload();
    add_remarks();
    return std::move(imported_);
  }

 private:
  // Values that the trainer fills in are "auto".
  std::optional<std::int64_t> number(std::string_view path) {
    const auto value = settings_.find(path);
    if (!value) return std::nullopt;
    const auto* text = value->value().get_if<std::string>();
    if (text != nullptr && *text == "auto") {
      open_.emplace_back(path);
      return std::nullopt;
    }
    return value->rounded(1, 1'000'000'000'000);
  }
  bool is_on(std::string_view path, bool usual = false) {
    const auto value = settings_.find(path);
    if (!value) return usual;
    const auto* text = value->value().get_if<std::string>();
    if (text != nullptr && *text == "auto") {
      open_.emplace_back(path);
      return usual;
    }
    return value->boolean();
  }
  void lacks(std::string_view path, std::string why) {
    imported_.without_counterpart.push_back({settings_.text_of(path), std::move(why)});
  }

  int read_zero() {
    const auto stage = settings_.find("zero_optimization.stage");
    return stage ? static_cast<int>(stage->integer(0, 3)) : 0;
  }

  void read_pipeline() {
    imported_.add("--schedule", "1f1b");
    const auto tensor = number("tensor_parallel.autotp_size");
    if (tensor && *tensor > 1) {
      tensor_ = *tensor;
      imported_.add("--tensor-parallel", *tensor);
    }
    contexts_ = number("sequence_parallel_size").value_or(1);
    if (contexts_ > 1) {
      imported_.add("--context-parallel", contexts_);
      imported_.add("--context-parallel-type", "a2a");
    }
    read_experts();
    if (const auto stages = number("pipeline.stages")) {
      stages_ = *stages;
    } else if (zero_ >= 2) {
      stages_ = 1;  // DeepSpeed refuses these with a pipeline
    } else {
      imported_.missing.push_back(
          {"--stages", "the pipeline's ranks, of PipelineModule(num_stages=...); else 1"});
    }
    if (stages_.value_or(1) > 1 && zero_ >= 2) {
      throw input_error(fmt::format(
          "zero_optimization.stage {}: DeepSpeed refuses it with a pipeline; give 0 or 1", zero_));
    }
    if (stages_) imported_.add("--stages", *stages_);
  }

  // Of layers that it replaces itself; those of deepspeed.moe.layer.MoE say it in Python.
  void read_experts() {
    const auto ranks = number("expert_parallel.autoep_size");
    const auto split = number("expert_parallel.expert_tensor_parallel_size");
    if (!is_on("expert_parallel.enabled")) return;
    if (ranks && *ranks > 1) imported_.add("--expert-parallel", *ranks);
    if (split.value_or(1) != tensor_) imported_.add("--expert-tensor-parallel", split.value_or(1));
  }

  void read_precision() {
    std::string precision = "fp32";
    if (is_on("fp16.enabled")) precision = "fp16";
    if (is_on("bf16.enabled") || is_on("bfloat16.enabled")) {
      if (precision == "fp16") throw input_error("fp16 and bf16 are enabled both; keep one");
      precision = "bf16";
    }
    if (!open_.empty()) {
      for (const std::string& path : std::exchange(open_, {})) {
        imported_.missing.push_back({"--precision", path + " is auto; fp32 if it is off"});
      }
    }
    imported_.add("--precision", precision);
    const std::string type = settings_.text_or("data_types.grad_accum_dtype", "");
    if (precision == "fp32") return;
    const std::string optimizer = settings_.text_or("optimizer.type", "AdamW");
    if (optimizer != "Adam" && optimizer != "AdamW") {
      lacks("optimizer.type", "states are those of Adam here");
    }
    gradient_bytes_ = type == "fp32" ? 4 : 2;
    imported_.add("--gradient-bytes", gradient_bytes_);
  }

  void read_batch() {
    auto all = number("train_batch_size");
    auto micro = number("train_micro_batch_size_per_gpu");
    auto passes = number("gradient_accumulation_steps");
    std::optional<std::int64_t> replicas;
    if (question_.devices && stages_) {
      const std::int64_t each = *stages_ * tensor_ * contexts_;
      if (*question_.devices % each != 0) {
        throw input_error(
            fmt::format("{} devices are not a multiple of {} stages x {} tensor-parallel{}; give "
                        "--devices that are",
                        *question_.devices, *stages_, tensor_,
                        contexts_ > 1 ? fmt::format(" x {} context-parallel", contexts_) : ""));
      }
      replicas = *question_.devices / each;
    }
    // Any two determine the third: all = micro x passes x replicas.
    const auto quotient = [&](std::int64_t whole, std::int64_t by) {
      if (whole % by == 0) return whole / by;
      throw input_error(fmt::format(
          "train_batch_size {} is not a multiple of {}, of train_micro_batch_size_per_gpu, "
          "gradient_accumulation_steps and replicas",
          whole, by));
    };
    if (all && micro && passes) {
      const std::int64_t said = quotient(*all, *micro * *passes);
      if (replicas && *replicas != said) {
        throw input_error(fmt::format("--devices {}: its batches imply {}", *question_.devices,
                                      plural(said, "replica")));
      }
      replicas = said;
    } else if (all && replicas && micro) {
      passes = quotient(*all, *micro * *replicas);
    } else if (all && replicas && passes) {
      micro = quotient(*all, *passes * *replicas);
    } else if (all && replicas && open_.empty()) {
      micro = quotient(*all, *replicas);
      passes = 1;
    } else if (all && micro) {
      quotient(*all, *micro);
    } else if (micro && !all && !passes && open_.empty()) {
      passes = 1;
    }
    if (micro) {
      imported_.add("--micro-batch-size", *micro);
    } else {
      imported_.missing.push_back(
          {"--micro-batch-size", why_open("train_micro_batch_size_per_gpu")});
    }
    if (passes) {
      imported_.add("--microbatches", *passes);
    } else if (all) {
      imported_.add("--global-batch", *all);
    } else {
      imported_.missing.push_back({"--microbatches", why_open("gradient_accumulation_steps")});
    }
    replicas_ = replicas;
    if (replicas && stages_) {
      imported_.devices = *replicas * *stages_ * tensor_ * contexts_;
    } else if (replicas) {
      imported_.add("--data-parallel", *replicas);
    } else {
      imported_.missing.push_back({"--devices", "all there are: replicas follow"});
    }
    imported_.missing.push_back(
        {"--sequence-length", "tokens, where they are not the model's longest"});
  }

  std::string why_open(const std::string& path) const {
    const bool is_auto = std::ranges::find(open_, path) != open_.end();
    return fmt::format("{} {}", path, is_auto ? "is auto, which the trainer sets" : "is missing");
  }

  void read_replicas() {
    const bool overlaps = is_on("zero_optimization.overlap_comm", zero_ == 3);
    const auto bucket = number("zero_optimization.reduce_bucket_size");
    if (replicas_ == 1 && contexts_ == 1) return;
    if (zero_ > 0) imported_.add("--zero", zero_);
    const std::int64_t shards = settings_.integer_or("zero_optimization.mics_shard_size", -1, -1);
    if (shards > 0 && zero_ == 3) imported_.add("--shard-over", shards);
    if (zero_ <= 1) {
      constexpr std::int64_t usual = 500'000'000;  // numbers
      imported_.add("--bucket-bytes", overlaps
                                          ? bytes_flag(bucket.value_or(usual) * gradient_bytes_)
                                          : std::string("off"));
    } else if (bucket) {
      imported_.without_effect.push_back(settings_.text_of("zero_optimization.reduce_bucket_size") +
                                         ": gradients are reduced layer by layer here");
    }
    if (zero_ == 1 || zero_ == 2) imported_.add("--overlap-gather", "off");
    if (zero_ == 3) imported_.add("--gather", "pass");
  }

  void read_offload() {
    for (const char* part : {"offload_optimizer", "offload_param"}) {
      const std::string base = fmt::format("zero_optimization.{}.", part);
      const std::string device = settings_.text_or(base + "device", "none");
      if (device != "none") lacks(base + "device", "states stay on the device here");
      for (const Settings::Leaf& leaf : settings_.rest()) {
        if (!leaf.path.starts_with(base)) continue;
        imported_.without_effect.push_back(settings_.text_of(leaf.path));
      }
    }
  }

  void ask_for(std::string_view path, const char* flag) {
    if (settings_.find(path)) imported_.missing.push_back({flag, settings_.text_of(path)});
  }

  void read_recomputation() {
    constexpr std::string_view every = "pipeline.activation_checkpoint_interval";
    const std::int64_t interval = settings_.integer_or(every, 0, 0);
    if (interval > 0) imported_.add("--recompute", "full");
    if (interval > 1) {
      imported_.approximated.push_back(
          {settings_.text_of(every), "each block's input is kept here, not each interval's"});
    }
    ask_for("activation_checkpointing.number_checkpoints", "--recompute");
    ask_for("pipeline.partition", "--layout");
  }

  void add_remarks() {
    for (const Settings::Leaf& leaf : settings_.rest()) {
      const std::string text = Settings::text_of(leaf.path, *leaf.value);
      const auto* reason =
          std::ranges::find(reasons_of_deepspeed, leaf.path, &DeepspeedReason::path);
      const auto* flag = leaf.value->get_if<bool>();
      const auto* number = leaf.value->get_if<std::int64_t>();
      const bool is_off = (flag != nullptr && !*flag) || (number != nullptr && *number <= 1);
      const bool is_harmless = starts_with_any(leaf.path, harmless_in_deepspeed);
      const bool is_known = reason != std::end(reasons_of_deepspeed);
      if (is_known && !reason->why.empty() && !is_off) {
        imported_.without_counterpart.push_back({text, std::string(reason->why)});
      } else if (is_known || is_harmless) {
        imported_.without_effect.push_back(text);
      } else {
        imported_.without_counterpart.push_back({text, "not known here"});
      }
    }
  }

  Settings settings_;
  ImportQuestion question_;
  Imported imported_;
  int zero_ = 0;
  std::int64_t tensor_ = 1;
  std::int64_t contexts_ = 1;  // ranks that share a sequence ("Ulysses")
  std::int64_t gradient_bytes_ = 4;
  std::optional<std::int64_t> stages_;
  std::optional<std::int64_t> replicas_;
  std::vector<std::string> open_;  // settings that are "auto"
};

}  // namespace

Imported read_deepspeed(const JsonCursor& root, const ImportQuestion& question) {
  JsonMembers members(root);
  bool is_one = false;
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
        "zero_optimization", "bf16", "fp16", "pipeline", "activation_checkpointing"}) {
    is_one = is_one || members.has(key);
  }
  if (!is_one) {
    root.fail(members.has("model_type")
                  ? "is a model's config.json; give it as --model"
                  : "is not a configuration of DeepSpeed, which has train_batch_size or "
                    "zero_optimization");
  }
  try {
    return Deepspeed(root, question).read();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with(printable(root.file()))) throw;
    throw Error(error.cause(), fmt::format("{}: {}", printable(root.file()), what));
  }
}

}  // namespace pipesim
