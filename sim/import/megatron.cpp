#include "sim/import/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "sim/cost/estimate/recompute.h"
#include "sim/cost/layout.h"
#include "sim/import/arguments.h"
#include "sim/import/megatron_reader.h"
#include "sim/import/megatron_remarks.h"
#include "sim/import/megatron_rules.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::array telling_arguments{"--num-layers",
                                       "--hidden-size",
                                       "--micro-batch-size",
                                       "--global-batch-size",
                                       "--tensor-model-parallel-size",
                                       "--pipeline-model-parallel-size"};

// Of --recompute-modules, and what they are called here.
struct MegatronModule {
  std::string_view name, part;
};
constexpr MegatronModule megatron_modules[] = {
    {"core_attn", "attention"},  {"layernorm", "norms"}, {"moe_act", "activation"},
    {"mla_up_proj", "latent"},   {"mlp", "mlp"},         {"moe", "experts"},
    {"shared_experts", "shared"}};

bool is_telling(const ShellWord& word) {
  const std::string_view text(word.text);
  const std::string_view name = text.substr(0, text.find('='));
  return std::ranges::find(telling_arguments, name) != telling_arguments.end();
}

ShellWords training_words(std::string_view text, const std::string& file) {
  ShellScript script = read_shell(text, file);
  // A list, with any line breaks.
  if (!script.commands.empty() && script.commands.front().front().text.starts_with('-')) {
    ShellWords words;
    for (const ShellWords& line : script.commands) {
      words.insert(words.end(), line.begin(), line.end());
    }
    return words;
  }
  std::vector<const ShellWords*> trainings;
  for (const ShellWords& words : script.commands) {
    if (std::ranges::any_of(words, is_telling)) trainings.push_back(&words);
  }
  if (trainings.size() > 1) {
    throw input_error(fmt::format(
        "{}: lines {} and {} are two commands that have Megatron-LM's arguments; keep one",
        printable(file), trainings[0]->front().line, trainings[1]->front().line));
  }
  if (!trainings.empty()) return *trainings.front();
  ShellWords words;
  for (const ShellWord& value : script.values) {
    // Splits a text, such as ARGS="--num-layers 24", as a shell does.
    for (const std::string_view line : split(value.text, '\n')) {
      for (const std::string_view part : split(line, ' ')) {
        if (strip(part).empty()) continue;
        ShellWord word;  // no copy: its text would keep the room of the whole value
        word.text = strip(part);
        word.line = value.line;
        if (word.text.find('$') != std::string::npos) word.unknown = value.unknown;
        words.push_back(std::move(word));
      }
    }
  }
  return words;
}

class Megatron : private MegatronReader {
 public:
  Megatron(Arguments& arguments, const ImportQuestion& question, Imported& imported)
      : MegatronReader(arguments, imported), question_(question) {}

  void read() {
    imported_.format = "Megatron-LM arguments";
    ranks_.tensor = count_of_ranks("--tensor-model-parallel-size");
    ranks_.stages = count_of_ranks("--pipeline-model-parallel-size");
    ranks_.contexts = count_of_ranks("--context-parallel-size");
    read_megatron_model(arguments_, question_, ranks_.tensor, imported_);
    read_devices();
    read_batch();
    read_pipeline();
    read_shards();
    read_megatron_spread(arguments_, imported_, ranks_);
    read_precision();
    read_recomputation();
    read_replicas();
    check_as_megatron_does(asked_);
    add_remarks();
  }

 private:
  // ---- The training

  void read_devices() {
    auto each = arguments_.integer("--nproc_per_node", 0);
    if (!each) each = arguments_.integer("--nproc-per-node", 0);
    std::optional<std::int64_t> nodes;
    // "1:4" is for an elastic job.
    if (const auto text = arguments_.text("--nnodes"); text && text->find(':') == text->npos) {
      nodes = arguments_.integer("--nnodes");
    }
    std::optional<std::int64_t> all = question_.devices;
    if (!all && each && *each > 0) all = *each * nodes.value_or(1);
    const std::int64_t pipeline = ranks_.tensor * ranks_.contexts * ranks_.stages;
    if (!all) {
      imported_.missing.push_back(
          {"--devices", "all there are, as WORLD_SIZE has them: replicas follow"});
      return;
    }
    if (*all % pipeline != 0) {
      throw input_error(fmt::format(
          "{} devices are not a multiple of {} tensor-parallel x {}{} pipeline ranks; give "
          "--devices that are",
          *all, ranks_.tensor,
          ranks_.contexts > 1 ? fmt::format("{} context-parallel x ", ranks_.contexts) : "",
          ranks_.stages));
    }
    imported_.devices = *all;
    ranks_.replicas = *all / pipeline;
    asked_.replicas = *ranks_.replicas;
  }

  void read_batch() {
    const auto micro = arguments_.integer("--micro-batch-size");
    if (micro) imported_.add("--micro-batch-size", *micro);
    asked_.micro_batch = micro.value_or(1);
    if (const auto global = arguments_.integer("--global-batch-size")) {
      imported_.add("--global-batch", *global);
      asked_.global_batch = *global;
    } else {
      // One microbatch for each replica.
      imported_.add("--microbatches", 1);
    }
    if (const auto sequence = arguments_.integer("--seq-length")) {
      imported_.add("--sequence-length", *sequence);
    }
  }

  std::int64_t blocks_or_fail(const char* name) const {
    if (imported_.model) return imported_.model->blocks;
    arguments_.fail(name, "takes --num-layers, which is missing");
  }

  // Megatron-LM takes one of them.
  void check_alone(std::initializer_list<const char*> names) {
    const char* given = nullptr;
    for (const char* name : names) {
      if (!arguments_.has(name)) continue;
      if (given != nullptr)
        arguments_.fail(name, fmt::format("Megatron-LM refuses it with {}", given));
      given = name;
    }
  }

  void read_pipeline() {
    check_alone({"--num-layers-per-virtual-pipeline-stage",
                 "--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout"});
    check_alone({"--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-layout"});
    check_alone({"--decoder-last-pipeline-num-layers", "--pipeline-model-parallel-layout"});
    std::int64_t chunks = 1;
    std::optional<std::string> layout;
    const auto per_chunk = arguments_.integer("--num-layers-per-virtual-pipeline-stage");
    if (const auto count = arguments_.integer("--num-virtual-stages-per-pipeline-rank")) {
      chunks = *count;
    }
    const bool counts_embedding = arguments_.is_set("--account-for-embedding-in-pipeline-split");
    const bool counts_head = arguments_.is_set("--account-for-loss-in-pipeline-split");
    if (per_chunk) {
      const std::int64_t all = blocks_or_fail("--num-layers-per-virtual-pipeline-stage") +
                               (counts_embedding ? 1 : 0) + (counts_head ? 1 : 0);
      if (all % (ranks_.stages * *per_chunk) != 0) {
        arguments_.fail("--num-layers-per-virtual-pipeline-stage",
                        fmt::format("{} layers on {} stages are not a multiple of {}", all,
                                    ranks_.stages, *per_chunk));
      }
      chunks = all / (ranks_.stages * *per_chunk);
    }
    if (const auto text = arguments_.text("--pipeline-model-parallel-layout")) {
      chunks = read_layout(*text);
      layout = *text;
    } else if (counts_embedding || counts_head) {
      layout = layout_with_ends(chunks, counts_embedding, counts_head);
    } else if (arguments_.has("--decoder-first-pipeline-num-layers") ||
               arguments_.has("--decoder-last-pipeline-num-layers")) {
      layout = layout_of_ends(chunks);
    } else if (imported_.model) {
      asked_.layers = imported_.model->blocks;
    }
    asked_.stages = ranks_.stages;
    asked_.chunks = chunks;
    imported_.add("--schedule", chunks > 1 ? "interleaved" : "1f1b");
    imported_.add("--stages", ranks_.stages);
    if (chunks > 1) imported_.add("--virtual-stages", chunks);
    const auto group = arguments_.integer("--microbatch-group-size-per-virtual-pipeline-stage");
    if (group && chunks > 1) imported_.add("--group", *group);
    asked_.group = group.value_or(ranks_.stages);
    if (arguments_.is_set("--overlap-moe-expert-parallel-comm")) {
      if (chunks > 1 || ranks_.stages == 1) {
        imported_.add("--overlap-experts");
      } else {
        lacks("--overlap-moe-expert-parallel-comm", "takes several chunks per rank here");
      }
    }
    if (layout) imported_.add("--layout", *layout);
  }

  // How many chunks a rank has.
  std::int64_t read_layout(const std::string& text) {
    constexpr const char* name = "--pipeline-model-parallel-layout";
    std::int64_t stages = 0;
    try {
      if (text.find('|') == std::string::npos && text.find('E') == std::string::npos) {
        throw input_error("letters E, t, m and L with bars between stages are expected");
      }
      const Layout layout = parse_layout(text);
      if (imported_.model) {
        check_letters(layout, *imported_.model);
        resolve_layout(layout.layers, imported_.model->layers(),
                       static_cast<int>(layout.layers.size()), "the model");
      }
      stages = static_cast<std::int64_t>(layout.layers.size());
    } catch (const Error& error) {
      arguments_.fail(name, error.what());
    }
    if (stages % ranks_.stages != 0) {
      arguments_.fail(name, fmt::format("{} stages on {}", stages, plural(ranks_.stages, "rank")));
    }
    return stages / ranks_.stages;
  }

  std::string layout_with_ends(std::int64_t chunks, bool embedding, bool head) const {
    const char* name = embedding ? "--account-for-embedding-in-pipeline-split"
                                 : "--account-for-loss-in-pipeline-split";
    const std::int64_t all = blocks_or_fail(name) + (embedding ? 1 : 0) + (head ? 1 : 0);
    const std::int64_t count = ranks_.stages * chunks;
    if (all % count != 0) {
      arguments_.fail(name, fmt::format("{} layers are not a multiple of {}", all,
                                        plural(count, "virtual stage")));
    }
    std::vector<std::int64_t> layers(static_cast<std::size_t>(count), all / count);
    if (!embedding) ++layers.front();
    if (!head) ++layers.back();
    layers.back() += imported_.model->prediction_depths;
    return layout_text(layers);
  }

  // For first and last ranks with their own numbers of blocks.
  std::string layout_of_ends(std::int64_t chunks) {
    const auto first = arguments_.integer("--decoder-first-pipeline-num-layers");
    const auto last = arguments_.integer("--decoder-last-pipeline-num-layers");
    const char* name =
        first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers";
    const std::int64_t ends = (first ? 1 : 0) + (last ? 1 : 0);
    const std::int64_t left = blocks_or_fail(name) - first.value_or(0) - last.value_or(0);
    const std::int64_t others = ranks_.stages - ends;
    const std::int64_t of_other = others > 0 ? left / others : 0;
    const bool fits = others >= 0 && left == of_other * others;
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks_.stages), of_other);
    if (first) of_rank.front() = *first;
    if (last) of_rank.back() = *last;
    std::vector<std::int64_t> layers;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (const std::int64_t blocks : of_rank) {
        if (!fits || blocks < 1 || blocks % chunks != 0) {
          arguments_.fail(name, fmt::format("{} blocks can't be divided like this among {} of {}",
                                            blocks_or_fail(name), plural(ranks_.stages, "rank"),
                                            plural(chunks, "chunk")));
        }
        layers.push_back(blocks / chunks);
      }
    }
    ++layers.front();
    layers.back() += 1 + imported_.model->prediction_depths;
    return layout_text(layers);
  }

  void read_shards() {
    if (ranks_.tensor > 1) imported_.add("--tensor-parallel", ranks_.tensor);
    const bool by_tokens = arguments_.is_set("--sequence-parallel");
    if (by_tokens && ranks_.tensor > 1) imported_.add("--sequence-parallel");
    if (by_tokens && ranks_.tensor == 1)
      imported_.without_effect.emplace_back("--sequence-parallel");
    const char* overlap = tensor_overlap(by_tokens);
    if (ranks_.tensor > 1) imported_.add("--tensor-overlap", overlap);
    if (arguments_.is_set("--cross-entropy-loss-fusion")) imported_.add("--fused-loss");
    if (arguments_.is_set("--no-gradient-accumulation-fusion")) imported_.add("--separate-sums");
  }

  // User buffers split exchanges among the products beside them; without, a backward's reductions
  // run beside weight gradients.
  const char* tensor_overlap(bool by_tokens) {
    if (arguments_.is_set("--tp-comm-overlap")) {
      if (!by_tokens || ranks_.tensor == 1) {
        arguments_.fail("--tp-comm-overlap",
                        "Megatron-LM takes it with --sequence-parallel over "
                        "several tensor-parallel ranks alone");
      }
      return "on";
    }
    const bool is_off = arguments_.is_set("--no-async-tensor-model-parallel-allreduce");
    return is_off ? "off" : "reductions";
  }

  void read_precision() {
    std::string precision = "fp32";
    if (arguments_.is_set("--fp16")) precision = "fp16";
    if (arguments_.is_set("--bf16")) {
      if (precision == "fp16") arguments_.fail("--bf16", "Megatron-LM refuses it with --fp16");
      precision = "bf16";
    }
    const bool has_16_bits = precision != "fp32";
    bool has_long_gradients = arguments_.is_set("--accumulate-allreduce-grads-in-fp32");
    if (precision == "bf16") has_long_gradients = !arguments_.is_set("--grad-reduce-in-bf16");
    for (const char* name : {"--fp8-format", "--fp8-hybrid", "--fp8-e4m3"}) {
      if (arguments_.has(name)) precision = "fp8";
    }
    imported_.add("--precision", precision);
    const bool is_narrow = arguments_.is_set("--use-precision-aware-optimizer");
    if (bytes_of_type("--main-grads-dtype") == 2 && is_narrow) has_long_gradients = false;
    if (has_16_bits) {
      gradient_bytes_ = has_long_gradients ? 4 : 2;
      imported_.add("--gradient-bytes", gradient_bytes_);
    }
    read_optimizer(precision, is_narrow);
    read_attention();
  }

  // Of fp32, unless it is given.
  std::int64_t bytes_of_type(std::string_view name) {
    const std::string type = arguments_.text(name).value_or("fp32");
    if (type == "fp32") return 4;
    if (type == "bf16" || type == "fp16") return 2;
    if (type == "fp8") return 1;
    arguments_.fail(name, unknown_name("type", type, {"fp32", "bf16", "fp16", "fp8"}));
  }

  void read_optimizer(const std::string& precision, bool is_narrow) {
    const bool has_16_bits = precision != "fp32";
    const std::string name = arguments_.text("--optimizer").value_or("adam");
    std::int64_t master = bytes_of_type("--main-params-dtype");
    // Of 32 bits, those that the weights in bf16 have are not stored again
    // (megatron/core/optimizer/distrib_optimizer.py, store_param_remainders).
    if (precision == "bf16") master = std::min<std::int64_t>(master, 2);
    const std::int64_t moments =
        bytes_of_type("--exp-avg-dtype") + bytes_of_type("--exp-avg-sq-dtype");
    if (name == "sgd") {
      imported_.add("--optimizer-bytes", has_16_bits ? 8 : 4);  // a copy and a momentum
    } else if (name != "adam") {
      lacks("--optimizer", "states are those of Adam or SGD here");
    } else if (is_narrow && has_16_bits && master + moments < 12) {
      imported_.add("--optimizer-bytes", master + moments);
    }
  }

  void read_attention() {
    const std::string backend = arguments_.text("--attention-backend").value_or("auto");
    const bool is_flash = arguments_.is_set("--use-flash-attn") || backend == "flash";
    const bool is_local = arguments_.text("--transformer-impl") == "local";
    const bool is_unfused = !is_flash && (backend == "unfused" || backend == "local" ||
                                          (is_local && backend == "auto"));
    if (imported_.model) imported_.add("--attention", is_unfused ? "unfused" : "fused");
  }

  void read_recomputation() {
    std::string granularity = arguments_.text("--recompute-granularity").value_or("");
    if (arguments_.is_set("--recompute-activations")) granularity = "selective";
    const std::string method = arguments_.text("--recompute-method").value_or("uniform");
    const std::int64_t count = arguments_.integer_or("--recompute-num-layers", 1);
    const std::vector<std::string> modules = arguments_.texts("--recompute-modules");
    const bool has_method = arguments_.has("--recompute-method");
    if (!granularity.empty() && has_method != (granularity == "full")) {
      arguments_.fail("--recompute-method",
                      granularity == "full" ? "is missing: Megatron-LM takes uniform or block"
                                            : "Megatron-LM takes it with full granularity alone");
    }
    if (granularity == "full") {
      if (method != "uniform" && method != "block") {
        arguments_.fail("--recompute-method",
                        fmt::format("{}; known: uniform, block", quote(method)));
      }
      // By the method "block" it is so many of each stage.
      imported_.add("--recompute", method == "block" ? fmt::format("full:{}", count) : "full");
      if (method != "block" && count > 1) {
        approximates("--recompute-num-layers", "each block's input is kept here, not each unit's");
      }
      return;
    }
    if (granularity.empty()) return;
    if (granularity != "selective") {
      arguments_.fail("--recompute-granularity",
                      fmt::format("{}; known: full, selective", quote(granularity)));
    }
    std::string text = modules.empty() ? "attention" : "";
    for (const std::string& module : modules) {
      const auto* found = std::ranges::find(megatron_modules, module, &MegatronModule::name);
      if (found == std::end(megatron_modules)) {
        imported_.without_counterpart.push_back(
            {"--recompute-modules " + printable(module), "no such part is computed again here"});
      } else if (!has_module(found->part)) {
        imported_.without_effect.push_back("--recompute-modules " + module + ", of no block");
      } else {
        text += (text.empty() ? "" : ",") + std::string(found->part);
      }
      if (module == "moe_act" && imported_.model &&
          imported_.model->blocks_with_experts() < imported_.model->blocks) {
        approximates("--recompute-modules", "moe_act is of every MLP here");
      }
    }
    if (!text.empty()) imported_.add("--recompute", text == "attention" ? "selective" : text);
  }

  bool has_module(std::string_view part) const {
    try {
      if (imported_.model) check_recompute(parse_recompute(part), *imported_.model);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // ---- Replicas

  void read_replicas() {
    int zero = arguments_.is_set("--use-distributed-optimizer") ? 1 : 0;
    const bool is_fsdp =
        arguments_.is_set("--use-megatron-fsdp") || arguments_.is_set("--use-custom-fsdp");
    const std::string strategy =
        arguments_.text("--data-parallel-sharding-strategy").value_or("optim_grads_params");
    if (is_fsdp) {
      constexpr std::array names{"no_shard", "optim", "optim_grads", "optim_grads_params"};
      const auto* found = std::ranges::find(names, strategy);
      if (found == names.end()) {
        arguments_.fail("--data-parallel-sharding-strategy",
                        unknown_name("strategy", strategy, {names.begin(), names.end()}));
      }
      zero = static_cast<int>(found - names.begin());
    }
    const bool is_torch = arguments_.is_set("--use-torch-fsdp2");
    const bool stays = arguments_.is_set("--torch-fsdp2-no-reshard-after-forward");
    if (is_torch) zero = 3;
    const bool reduces_early = arguments_.is_set("--overlap-grad-reduce");
    const bool gathers_early = arguments_.is_set("--overlap-param-gather");
    if (arguments_.is_set("--use-precision-aware-optimizer") && zero == 0) {
      arguments_.fail("--use-precision-aware-optimizer",
                      "Megatron-LM takes it with --use-distributed-optimizer alone");
    }
    if (gathers_early && !(reduces_early && (zero > 0 || is_fsdp))) {
      arguments_.fail("--overlap-param-gather",
                      "Megatron-LM takes it with --overlap-grad-reduce and "
                      "--use-distributed-optimizer alone");
    }
    if (is_torch && ranks_.stages > 1) {
      arguments_.fail("--use-torch-fsdp2",
                      "Megatron-LM refuses it with a pipeline; give "
                      "--use-distributed-optimizer");
    }
    const auto bucket = arguments_.integer("--ddp-bucket-size");
    const std::int64_t instances =
        arguments_.integer_or("--num-distributed-optimizer-instances", 1);
    const std::optional<std::int64_t> holders = ranks_.holders();
    if (holders == 1 && ranks_.tensor == ranks_.split * ranks_.experts) {
      for (const char* name :
           {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"}) {
        if (arguments_.has(name)) {
          imported_.without_effect.push_back(std::string(name) + ", of one replica");
        }
      }
      return;
    }
    if (zero > 0) imported_.add("--zero", zero);
    if (zero == 3) imported_.add("--gather", stays ? "once" : "pass");
    if (zero > 0 && instances > 1) {
      if (holders && *holders % instances == 0) {
        imported_.add("--shard-over", *holders / instances);
      } else if (holders) {
        arguments_.fail("--num-distributed-optimizer-instances",
                        fmt::format("{} do not divide {}", instances, plural(*holders, "replica")));
      } else {
        imported_.missing.push_back(
            {"--shard-over", "replicas / --num-distributed-optimizer-instances"});
      }
    }
    if (zero <= 1) {
      if (!reduces_early) imported_.add("--bucket-bytes", "off");
      // The default is that of megatron/core/distributed/distributed_data_parallel.py.
      constexpr std::int64_t least = 40'000'000;
      constexpr std::int64_t of_replica = 1'000'000;
      const std::int64_t usual = std::max(least, of_replica * holders.value_or(1));
      if (reduces_early) {
        imported_.add("--bucket-bytes", bytes_flag(bucket.value_or(usual) * gradient_bytes_));
      }
    }
    if (zero == 1 || zero == 2) imported_.add("--overlap-gather", gathers_early ? "on" : "off");
  }

  // ---- The rest

  void add_remarks() {
    for (const Arguments::Argument& argument : arguments_.all()) {
      imported_.settings.push_back(argument.name);
      if (argument.is_used) continue;
      const MegatronRemark remark = megatron_remark(argument);
      if (remark.why.empty()) {
        imported_.without_effect.push_back(Arguments::text_of(argument));
      } else if (remark.is_near) {
        imported_.approximated.push_back({Arguments::text_of(argument), remark.why});
      } else {
        lacks(argument, remark.why);
      }
    }
  }

  ImportQuestion question_;
  MegatronShape asked_;
  MegatronRanks ranks_;
  std::int64_t gradient_bytes_ = 4;
};

}  // namespace

bool has_megatron_arguments(std::string_view text) {
  return std::ranges::any_of(telling_arguments, [&](const char* name) {
    return text.find(name) != std::string_view::npos;
  });
}

Imported read_megatron(std::string_view text, const std::string& file,
                       const ImportQuestion& question) {
  const ShellWords words = training_words(text, file);
  try {
    Arguments arguments(words, file);
    Imported imported;
    Megatron(arguments, question, imported).read();
    return imported;
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with(printable(file))) throw;
    throw Error(error.cause(), fmt::format("{}: {}", printable(file), what));
  }
}

}  // namespace pipesim
