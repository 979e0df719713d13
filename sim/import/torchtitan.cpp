#include "sim/import/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/import/settings.h"
#include "sim/import/torchtitan_flavors.h"
#include "sim/schedule/family.h"
#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct TorchtitanReason {
  std::string_view path, why;
};

// Unless they are off, the default.
constexpr TorchtitanReason torchtitan_reasons[] = {
    {"training.dtype", "states have the software's bytes here"},
    {"training.enable_cpu_offload", "states stay on the device here"},
    {"parallelism.disable_loss_parallel", "the loss is split with the head here"},
    {"activation_checkpoint.memory_budget", "no such budget is known here; give --recompute"},
    {"parallelism.pipeline_parallel_split_points", "too old; give module_fqns_per_model_part"},
    {"fault_tolerance.enable", "failures are for pipesim goodput"},
    {"optimizer.early_step_in_backward", "the step comes after all backwards here"},
};

// Tables without effect on the time of an iteration.
constexpr std::string_view harmless_in_torchtitan =
    "job. profiling. metrics. optimizer. lr_scheduler. checkpoint. comm. validation. "
    "memory_estimation. experimental. debug. quantize. float8. mx. fault_tolerance. "
    "compile. training. activation_checkpoint. model. parallelism.context_parallel_ "
    "parallelism.pipeline_parallel_expert parallelism.expert_ "
    "parallelism.enable_compiled_autograd";

class Torchtitan {
 public:
  Torchtitan(const JsonCursor& root, const ImportQuestion& question)
      : root_(root), settings_(root), question_(question) {}

  Imported read() {
    imported_.format = "TOML of torchtitan";
    tensor_ = settings_.integer_or("parallelism.tensor_parallel_degree", 1);
    stages_ = settings_.integer_or("parallelism.pipeline_parallel_degree", 1);
    contexts_ = settings_.integer_or("parallelism.context_parallel_degree", 1, 1, 1 << 16);
    sequence_ = settings_.integer_or("training.seq_len", 2048, 1, 1 << 20);
    read_model();
    read_replicas();
    read_batch();
    read_pipeline();
    read_shards();
    read_contexts();
    read_experts();
    read_precision();
    read_recomputation();
    imported_.software = settings_.boolean_or("compile.enable", false) ||
                                 settings_.boolean_or("training.compile", false)
                             ? "torchtitan-compile"
                             : "torchtitan";
    add_remarks();
    return std::move(imported_);
  }

 private:
  void approximates(std::string_view path, std::string why) {
    imported_.approximated.push_back({settings_.text_of(path), std::move(why)});
  }
  void lacks(std::string_view path, std::string why) {
    imported_.without_counterpart.push_back({settings_.text_of(path), std::move(why)});
  }

  void read_model() {
    const std::string name = settings_.text_or("model.name", "llama3");
    const std::string flavor = settings_.text_or("model.flavor", "debugmodel");
    const Flavor* known = find_flavor(name, flavor);
    if (known != nullptr) imported_.model = model_of(*known, sequence_);
    if (known != nullptr && known->has_flex && contexts_ > 1) {
      throw input_error(
          fmt::format("parallelism.context_parallel_degree: torchtitan refuses it for {} {}, whose "
                      "attention is another; give 1",
                      name, flavor));
    }
    if (imported_.model) return;
    imported_.missing.push_back(
        {"--model", fmt::format("{} {} is not a decoder known here; describe it in a file "
                                "(traces/FORMAT.md)",
                                printable(name), printable(flavor))});
  }

  // ---- Replicas

  void read_replicas() {
    const std::int64_t copies =
        settings_.integer_or("parallelism.data_parallel_replicate_degree", 1);
    const auto given = settings_.find("parallelism.data_parallel_shard_degree");
    std::int64_t shards = given ? given->integer(-1, 1'000'000'000) : -1;
    if (shards == 0) given->fail("0 shards are none; give -1 for all ranks that are left, or 1");
    const std::optional<std::int64_t> devices = question_.devices;
    const std::int64_t each = tensor_ * contexts_ * stages_ * copies;
    if (shards < 0 && devices) {
      if (*devices % each != 0 || *devices < each) {
        throw input_error(
            fmt::format("{} devices are not a multiple of {} tensor-parallel x {}{} pipeline ranks "
                        "x {} copies; give --devices that are",
                        *devices, tensor_,
                        contexts_ > 1 ? fmt::format("{} context-parallel x ", contexts_) : "",
                        stages_, copies));
      }
      shards = *devices / each;
    }
    if (shards > 0) {
      replicas_ = shards * copies;
      if (devices && *devices != each * shards) {
        throw input_error(fmt::format("--devices {}: the file says {}", *devices, each * shards));
      }
      imported_.devices = each * shards;
    } else {
      imported_.missing.push_back(
          {"--devices", "all there are: data_parallel_shard_degree takes those that are left"});
    }
    const std::string reshard =
        settings_.text_or("parallelism.fsdp_reshard_after_forward", "default");
    if (replicas_ == 1 && contexts_ == 1) return;
    // Ranks that share sequences shard weights, too.
    if (shards == 1 && contexts_ == 1) {
      imported_.add("--bucket-bytes", "100MB");  // as in models/llama3/infra/parallelize.py
      return;
    }
    imported_.add("--zero", 3);
    if (copies > 1 && shards > 0) imported_.add("--shard-over", shards * contexts_);
    if (copies > 1 && shards < 0) {
      imported_.missing.push_back({"--shard-over",
                                   "replicas x context-parallel ranks / "
                                   "parallelism.data_parallel_replicate_degree"});
    }
    const bool gathers_once = reshard == "never" || (reshard == "default" && stages_ > 1);
    imported_.add("--gather", gathers_once ? "once" : "pass");
  }

  void read_batch() {
    const std::int64_t local = settings_.integer_or("training.local_batch_size", 8);
    const auto global_given = settings_.find("training.global_batch_size");
    const std::int64_t global = global_given ? global_given->integer(-1, 1'000'000'000) : -1;
    std::int64_t micro = local;
    if (stages_ > 1) {
      micro = settings_.integer_or("parallelism.pipeline_parallel_microbatch_size", 1);
      if (local % micro != 0) {
        throw input_error(
            fmt::format("pipeline_parallel_microbatch_size {} does not divide "
                        "local_batch_size {}",
                        micro, local));
      }
    } else if (const auto unused =
                   settings_.find("parallelism.pipeline_parallel_microbatch_size")) {
      imported_.without_effect.push_back(
          settings_.text_of("parallelism.pipeline_parallel_microbatch_size"));
    }
    micro_ = micro;
    microbatches_ = local / micro;
    imported_.add("--micro-batch-size", micro);
    imported_.add("--sequence-length", sequence_);
    if (global <= 0) {
      imported_.add("--microbatches", local / micro);
      return;
    }
    if (!replicas_) {
      imported_.add("--microbatches", local / micro);
      imported_.missing.push_back(
          {"--devices", "of them follows how many batches training.global_batch_size is"});
      return;
    }
    const std::int64_t at_once = local * *replicas_;
    if (global % at_once != 0) {
      global_given->fail(fmt::format("is not a multiple of {} sequences on each of {}", local,
                                     plural(*replicas_, "replica")));
    }
    // With a pipeline, passes accumulate to a step; without one they are microbatches.
    const std::int64_t passes = global / at_once;
    imported_.add("--microbatches", stages_ == 1 ? passes : local / micro);
    if (stages_ > 1 && passes > 1) imported_.add("--accumulate", passes);
  }

  // ---- The pipeline

  void read_pipeline() {
    const std::string name = settings_.text_or("parallelism.pipeline_parallel_schedule", "1F1B");
    const std::string csv = settings_.text_or("parallelism.pipeline_parallel_schedule_csv", "");
    const auto per_stage = settings_.find("parallelism.pipeline_parallel_layers_per_stage");
    const std::int64_t first =
        settings_.integer_or("parallelism.pipeline_parallel_first_stage_less_layers", 1, 0);
    const std::int64_t last =
        settings_.integer_or("parallelism.pipeline_parallel_last_stage_less_layers", 1, 0);
    const auto parts = settings_.find("parallelism.module_fqns_per_model_part");
    if (stages_ == 1) {
      imported_.add("--schedule", "1f1b");
      imported_.add("--stages", 1);
      return;
    }
    const bool is_single = name == "1F1B" || name == "GPipe" || name == "PipelineScheduleSingle";
    std::int64_t chunks = is_single ? 1 : 2;
    if (per_stage && imported_.model) {
      const std::int64_t size = per_stage->integer(1, 1'000'000);
      const std::int64_t all = imported_.model->blocks + first + last;
      const std::int64_t stages = (all + size - 1) / size;
      if (stages % stages_ != 0) {
        per_stage->fail(
            fmt::format("makes {} virtual stages, which {} pipeline ranks do not share "
                        "alike",
                        stages, stages_));
      }
      chunks = stages / stages_;
    }
    std::vector<std::int64_t> layers;
    if (parts) {
      layers = layers_of(*parts);
      if (std::ssize(layers) % stages_ != 0) {
        parts->fail(fmt::format("{} parts on {}", layers.size(), plural(stages_, "rank")));
      }
      chunks = std::ssize(layers) / stages_;
    } else if (imported_.model) {
      layers = torchtitan_layout(imported_.model->blocks, stages_ * chunks, first, last);
    }
    if (csv.empty()) {
      add_schedule(name, chunks);
    } else {
      imported_.add("--schedule", csv);
    }
    if (!layers.empty()) imported_.add("--layout", layout_text(layers));
  }

  void add_schedule(const std::string& name, std::int64_t chunks) {
    const Family* found = nullptr;
    try {
      found = &family(name);
    } catch (const Error& error) {
      settings_.find("parallelism.pipeline_parallel_schedule")->fail(error.what());
    }
    imported_.add("--schedule", found->name);
    imported_.add("--stages", stages_);
    if (!found->many_chunks && chunks != found->default_chunks) {
      throw input_error(fmt::format(
          "parallelism.pipeline_parallel_schedule: PyTorch's {} takes {} per rank, not {}",
          printable(name), plural(found->default_chunks, "stage"), chunks));
    }
    ScheduleRequest request{.name = std::string(found->name),
                            .ranks = static_cast<int>(stages_),
                            .microbatches = static_cast<int>(microbatches_)};
    if (found->many_chunks) request.chunks = static_cast<int>(chunks);
    // PipelineScheduleSingle, in torch/distributed/pipelining/schedules.py.
    if (microbatches_ < stages_ && !found->many_chunks && found->default_chunks == 1) {
      throw input_error(fmt::format(
          "training.local_batch_size: {} for {}: PyTorch's {} takes at least as many; nearest that "
          "works: {}",
          plural(microbatches_, "microbatch"), plural(stages_, "pipeline rank"), printable(name),
          stages_ * micro_));
    }
    resolve_shape(*found, request);
    if (found->many_chunks) imported_.add("--virtual-stages", chunks);
  }

  // The layers of each part: the embedding, blocks, and the last norm and the head as one.
  std::vector<std::int64_t> layers_of(const JsonCursor& parts) const {
    std::vector<std::int64_t> layers;
    std::int64_t next = 0;
    for (const JsonCursor& part : parts.array()) {
      std::int64_t count = 0;
      for (const JsonCursor& module : part.array()) {
        const std::string& name = module.string();
        if (name == "norm") continue;
        ++count;
        if (name == "tok_embeddings" || name == "output") continue;
        if (name != fmt::format("layers.{}", next)) {
          module.fail(fmt::format("{} where layers.{} follows", quote(name), next));
        }
        ++next;
      }
      if (count == 0) part.fail("holds no layer; every part needs one");
      layers.push_back(count);
    }
    return layers;
  }

  void read_shards() {
    const bool is_async = settings_.boolean_or("parallelism.enable_async_tensor_parallel", false);
    if (tensor_ == 1) return;
    imported_.add("--tensor-parallel", tensor_);
    imported_.add("--sequence-parallel");
    if (is_async) {
      imported_.add("--tensor-overlap", "0.8");
      approximates("parallelism.enable_async_tensor_parallel",
                   "products are assumed to hide 0.8 of the exchanges");
    }
  }

  void read_contexts() {
    const std::string method =
        settings_.text_or("parallelism.context_parallel_rotate_method", "allgather");
    const std::string balancer =
        settings_.text_or("parallelism.context_parallel_load_balancer", "headtail");
    if (contexts_ == 1) return;
    imported_.add("--context-parallel", contexts_);
    if (method != "allgather" && method != "alltoall") {
      settings_.find("parallelism.context_parallel_rotate_method")
          ->fail(unknown_name("method", method, {"allgather", "alltoall"}));
    }
    imported_.add("--context-parallel-type", method == "allgather" ? "gather" : "ring");
    if (balancer != "headtail") {
      approximates("parallelism.context_parallel_load_balancer",
                   "ranks have a part of the beginning and one of the end here");
    }
  }

  void read_experts() {
    const std::int64_t ranks =
        settings_.integer_or("parallelism.expert_parallel_degree", 1, 1, 1 << 16);
    if (ranks == 1 || (imported_.model && !imported_.model->has_experts())) return;
    const std::int64_t split = settings_.integer_or("parallelism.expert_tensor_parallel_degree", 1);
    if (split != 1 && split != tensor_) {
      settings_.find("parallelism.expert_tensor_parallel_degree")
          ->fail("torchtitan takes 1, or parallelism.tensor_parallel_degree");
    }
    imported_.add("--expert-parallel", ranks);
    if (split != tensor_) imported_.add("--expert-tensor-parallel", split);
    const std::string backend =
        settings_.text_or("parallelism.expert_parallel_comm_backend", "standard");
    imported_.add("--expert-dispatch", backend == "deepep" ? "deduplicated" : "alltoall");
  }

  void read_precision() {
    std::string precision =
        settings_.text_or("training.mixed_precision_param", "bfloat16") == "float32" ? "fp32"
                                                                                     : "bf16";
    const bool is_plain = precision == "fp32";
    if (const auto converters = settings_.find("model.converters")) {
      for (const JsonCursor& one : converters->array()) {
        const std::string& name = one.string();
        if (name == "float8" || name.starts_with("quantize.linear.float8")) {
          precision = "fp8";
        } else {
          imported_.without_counterpart.push_back(
              {"model.converters: " + printable(name), "not known here"});
        }
      }
    }
    imported_.add("--precision", precision);
    if (!is_plain) imported_.add("--gradient-bytes", 4);
  }

  void read_recomputation() {
    const std::string mode = settings_.text_or("activation_checkpoint.mode", "selective");
    const std::string option = settings_.text_or("activation_checkpoint.selective_ac_option", "2");
    if (mode == "none") return;
    if (mode == "full") {
      imported_.add("--recompute", "full");
      return;
    }
    if (mode == "selective" && option == "op") {
      imported_.add("--recompute", "norms,activation,products");
      return;
    }
    // Every so many blocks; without a pipeline it does not matter which.
    const auto every = whole_number(option);
    if (mode == "selective" && every == 1) {
      imported_.add("--recompute", "full");
      return;
    }
    if (mode == "selective" && every && *every > 0 && stages_ == 1 && imported_.model) {
      const std::int64_t again = imported_.model->blocks / *every;
      if (again > 0) imported_.add("--recompute", fmt::format("full:{}", again));
      return;
    }
    if (mode == "selective" && !imported_.model) {
      imported_.missing.push_back({"--recompute", "every second block, without the model"});
      return;
    }
    if (mode == "selective") {
      imported_.without_counterpart.push_back(
          {fmt::format("activation_checkpoint.selective_ac_option = {}", printable(option)),
           "which blocks it means is not known here; give --recompute"});
      return;
    }
    lacks("activation_checkpoint.mode", "not known here; give --recompute");
  }

  void add_remarks() {
    for (const Settings::Leaf& leaf : settings_.all()) imported_.settings.push_back(leaf.path);
    for (const Settings::Leaf& leaf : settings_.rest()) {
      const std::string text = Settings::text_of(leaf.path, *leaf.value);
      const auto* reason =
          std::ranges::find(torchtitan_reasons, leaf.path, &TorchtitanReason::path);
      const auto* number = leaf.value->get_if<std::int64_t>();
      const auto* flag = leaf.value->get_if<bool>();
      const auto* word = leaf.value->get_if<std::string>();
      const bool is_off = (number != nullptr && *number <= 1) || (flag != nullptr && !*flag) ||
                          (word != nullptr && *word == "float32");
      const bool is_harmless = starts_with_any(leaf.path, harmless_in_torchtitan);
      if (reason != std::end(torchtitan_reasons) && !is_off) {
        imported_.without_counterpart.push_back({text, std::string(reason->why)});
      } else if (reason != std::end(torchtitan_reasons) || is_harmless) {
        imported_.without_effect.push_back(text);
      } else {
        imported_.without_counterpart.push_back({text, "not known here"});
      }
    }
  }

  JsonCursor root_;
  Settings settings_;
  ImportQuestion question_;
  Imported imported_;
  std::int64_t tensor_ = 1;
  std::int64_t stages_ = 1;
  std::int64_t contexts_ = 1;  // ranks that share a sequence
  std::int64_t sequence_ = 1;
  std::int64_t micro_ = 1;                // sequences of a microbatch
  std::int64_t microbatches_ = 1;         // of a pass
  std::optional<std::int64_t> replicas_;  // if the number of devices is known
};

}  // namespace

std::vector<std::int64_t> torchtitan_layout(std::int64_t blocks, std::int64_t stages,
                                            std::int64_t first, std::int64_t last) {
  const std::int64_t all = blocks + first + last;
  const std::int64_t each = all / stages;
  if (each < 1 || each < first || each < last || blocks < 1) {
    throw input_error(fmt::format(
        "{} on {}: torchtitan has no such split, of at least {} per stage", plural(blocks, "block"),
        plural(stages, "virtual stage"), std::max({first, last, std::int64_t{1}})));
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), each);
  for (std::int64_t i = 0; i < all % stages; ++i) ++layers[static_cast<std::size_t>(i)];
  // One layer each, regardless of their weight.
  layers.front() += 1 - first;
  layers.back() += 1 - last;
  return layers;
}

Imported read_torchtitan(const JsonCursor& root, const ImportQuestion& question) {
  try {
    return Torchtitan(root, question).read();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with(printable(root.file()))) throw;
    throw Error(error.cause(), fmt::format("{}: {}", printable(root.file()), what));
  }
}

}  // namespace pipesim
