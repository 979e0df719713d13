#include "sim/import/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/cost/layout.h"
#include "sim/import/arguments.h"
#include "sim/import/megatron_remarks.h"
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
        ShellWord word = value;
        word.text = strip(part);
        if (word.text.find('$') == std::string::npos) word.unknown.clear();
        words.push_back(std::move(word));
      }
    }
  }
  return words;
}

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

class Megatron {
 public:
  Megatron(Arguments arguments, const ImportQuestion& question)
      : arguments_(std::move(arguments)), question_(question) {}

  Imported read() {
    imported_.format = "Megatron-LM arguments";
    tensor_ = arguments_.integer_or("--tensor-model-parallel-size", 1);
    stages_ = arguments_.integer_or("--pipeline-model-parallel-size", 1);
    read_model();
    read_devices();
    read_batch();
    read_pipeline();
    read_shards();
    read_precision();
    read_recomputation();
    read_replicas();
    add_remarks();
    return std::move(imported_);
  }

 private:
  void lacks(const Arguments::Argument& argument, std::string why) {
    imported_.without_counterpart.push_back({Arguments::text_of(argument), std::move(why)});
  }
  // For a given argument.
  void lacks(std::string_view name, std::string why) {
    if (const auto* argument = arguments_.find(name)) lacks(*argument, std::move(why));
  }

  // ---- The model

  void read_model() {
    const char* sizes[] = {"--num-layers", "--hidden-size", "--num-attention-heads"};
    const auto is_given = [&](const char* name) { return arguments_.has(name); };
    if (std::ranges::none_of(sizes, is_given)) {
      imported_.missing.push_back({"--model", "no argument says what is trained"});
      return;
    }
    for (const char* name : sizes) {
      if (!is_given(name)) arguments_.fail(name, "is missing, but others say how large a model is");
    }
    Model model{.name = "megatron"};
    const bool is_gated = arguments_.is_set("--swiglu");
    model.architecture = is_gated ? Architecture::llama : Architecture::gpt;
    model.blocks = arguments_.integer_or("--num-layers", 1);
    model.hidden_size = arguments_.integer_or("--hidden-size", 1);
    read_heads(model);
    read_mlp(model, is_gated);
    read_vocabulary(model);
    read_positions(model);
    read_parts(model, is_gated);
    if (arguments_.is_set("--multi-latent-attention")) {
      arguments_.fail("--multi-latent-attention", "such attention is not modelled");
    }
    imported_.model = parse_model(to_json(model), "the model of the arguments");
  }

  void read_heads(Model& model) {
    model.heads = arguments_.integer_or("--num-attention-heads", 1);
    model.kv_heads = model.heads;
    const bool is_grouped = arguments_.is_set("--group-query-attention");
    const std::int64_t groups = arguments_.integer_or("--num-query-groups", 1);
    if (is_grouped) model.kv_heads = groups;
    if (const auto size = arguments_.integer("--kv-channels")) model.own_head_size = *size;
    const bool divides = model.hidden_size % model.heads == 0;
    if (!divides && !model.own_head_size) {
      arguments_.fail("--num-attention-heads", fmt::format("{} do not divide --hidden-size {}",
                                                           model.heads, model.hidden_size));
    }
    if (divides && model.own_head_size == model.hidden_size / model.heads) {
      model.own_head_size.reset();
    }
  }

  void read_mlp(Model& model, bool is_gated) {
    // Two matrices instead of one, with the same number of parameters, rounded down to multiples
    // of 64.
    const std::int64_t gated = model.hidden_size * 8 / 3 / 64 * 64;
    model.mlp_size =
        arguments_.integer_or("--ffn-hidden-size", is_gated ? gated : 4 * model.hidden_size);
    model.experts = arguments_.integer_or("--num-experts", 1);
    if (model.experts == 1) return;
    model.experts_per_token = arguments_.integer_or("--moe-router-topk", 2);
    model.mlp_size = arguments_.integer_or("--moe-ffn-hidden-size", model.mlp_size);
  }

  void read_vocabulary(Model& model) {
    if (const auto padded = arguments_.integer("--padded-vocab-size")) {
      model.vocabulary_size = *padded;
      return;
    }
    std::optional<std::int64_t> words = question_.vocabulary;
    const std::string tokenizer = arguments_.text("--tokenizer-type").value_or("");
    if (const auto given = arguments_.integer("--vocab-size"); given && !words) words = *given;
    // The size of GPT-2's tokenizer, from its paper.
    if (!words && tokenizer == "GPT2BPETokenizer") words = 50257;
    if (!words) {
      throw input_error(
          "no argument says how large the vocabulary is, which the tokenizer has; give "
          "--vocabulary "
          "N");
    }
    const std::int64_t divisor = arguments_.integer_or("--make-vocab-size-divisible-by", 128);
    model.vocabulary_size = round_up(*words, divisor * tensor_);
  }

  void read_positions(Model& model) {
    std::string type = arguments_.text("--position-embedding-type").value_or("learned_absolute");
    if (arguments_.is_set("--use-rotary-position-embeddings")) type = "rope";
    sequence_ = arguments_.integer("--seq-length");
    const auto positions = arguments_.integer("--max-position-embeddings");
    if (!positions && !sequence_) {
      arguments_.fail("--seq-length", "is missing, as is --max-position-embeddings");
    }
    model.max_sequence_length = positions.value_or(sequence_.value_or(1));
    const bool is_rotary = type == "rope" || type == "yarn";
    model.rotary_gpt = is_rotary && model.architecture == Architecture::gpt;
    if (is_rotary) model.rotary_base = arguments_.integer_or("--rotary-base", 10'000);
    const bool fits = is_rotary || (type == "learned_absolute" && model.has_positions());
    if (!fits) {
      lacks("--position-embedding-type", model.has_positions()
                                             ? "a gpt has a table of positions or rotary ones"
                                             : "a llama's positions are rotary");
    }
    if (!fits && !arguments_.has("--position-embedding-type")) {
      imported_.without_counterpart.push_back({"--position-embedding-type learned_absolute",
                                               "the default; a llama's positions are rotary"});
    }
  }

  // Properties of the two architectures, and those of neither.
  void read_parts(Model& model, bool is_gated) {
    model.tied_head = !arguments_.is_set("--untie-embeddings-and-output-weights");
    const bool has_bias = !arguments_.is_set("--disable-bias-linear");
    const bool has_qkv_bias = arguments_.is_set("--add-qkv-bias");
    if (!is_gated && !has_bias) {
      lacks("--disable-bias-linear", "the products of a gpt have biases: its vectors are counted");
    }
    if (is_gated && has_bias) {
      imported_.without_counterpart.push_back(
          {"no --disable-bias-linear", "the products of a llama have no biases"});
    }
    model.qkv_bias = is_gated && (has_qkv_bias || has_bias);
    const std::string norm = arguments_.text("--normalization").value_or("LayerNorm");
    if ((norm == "RMSNorm") != is_gated) {
      const std::string why =
          is_gated ? "a llama's norms are RMS norms, without a bias" : "a gpt's norms have a bias";
      if (arguments_.has("--normalization")) {
        lacks("--normalization", why);
      } else {
        imported_.without_counterpart.push_back(
            {"--normalization LayerNorm", "the default; " + why});
      }
    }
    const bool has_head_norms = arguments_.is_set("--qk-layernorm");
    model.qk_norm = is_gated && has_head_norms;
    if (has_head_norms && !is_gated) lacks("--qk-layernorm", "a gpt has none here");
    for (const char* name : {"--squared-relu", "--quick-geglu", "--openai-gelu"}) {
      if (arguments_.has(name)) lacks(name, "taken for GELU, which costs as much");
    }
    const double hidden = arguments_.number("--hidden-dropout").value_or(0.1);
    const double scores = arguments_.number("--attention-dropout").value_or(0.1);
    if (hidden >= 1) arguments_.fail("--hidden-dropout", "must be less than 1");
    model.dropout_ppm = static_cast<std::int64_t>(hidden * 1e6 + 0.5);
    if (hidden != scores) {
      const std::string why =
          fmt::format("a model has one dropout: {:g}, of --hidden-dropout", hidden);
      if (arguments_.has("--attention-dropout")) {
        lacks("--attention-dropout", why);
      } else {
        imported_.without_counterpart.push_back({"--attention-dropout 0.1", "the default; " + why});
      }
    }
  }

  // ---- The training

  void read_devices() {
    auto each = arguments_.integer("--nproc_per_node", 0);
    if (!each) each = arguments_.integer("--nproc-per-node", 0);
    std::optional<std::int64_t> nodes;
    // "1:4" is for an elastic job.
    if (const auto text = arguments_.text("--nnodes"); text && text->find(':') == text->npos) {
      nodes = arguments_.integer("--nnodes");
    }
    const std::int64_t parts = arguments_.integer_or("--context-parallel-size", 1);
    std::optional<std::int64_t> all = question_.devices;
    if (!all && each && *each > 0) all = *each * nodes.value_or(1);
    if (parts > 1) {
      lacks("--context-parallel-size",
            fmt::format("sequences are whole on each device here; of {} devices one is counted",
                        parts));
      if (all) all = *all / parts;
    }
    const std::int64_t pipeline = tensor_ * stages_;
    if (!all) {
      imported_.missing.push_back(
          {"--devices", "all there are, as WORLD_SIZE has them: replicas follow"});
      return;
    }
    if (*all % pipeline != 0) {
      throw input_error(fmt::format(
          "{} devices are not a multiple of {} tensor-parallel x {} pipeline ranks; give --devices "
          "that are",
          *all, tensor_, stages_));
    }
    imported_.devices = *all;
    replicas_ = *all / pipeline;
  }

  void read_batch() {
    const auto micro = arguments_.integer("--micro-batch-size");
    if (micro) imported_.add("--micro-batch-size", *micro);
    if (const auto global = arguments_.integer("--global-batch-size")) {
      imported_.add("--global-batch", *global);
    } else {
      // One microbatch for each replica.
      imported_.add("--microbatches", 1);
    }
    if (!sequence_) sequence_ = arguments_.integer("--seq-length");
    if (sequence_) imported_.add("--sequence-length", *sequence_);
  }

  std::int64_t blocks_or_fail(const char* name) const {
    if (imported_.model) return imported_.model->blocks;
    arguments_.fail(name, "takes --num-layers, which is missing");
  }

  void read_pipeline() {
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
      if (all % (stages_ * *per_chunk) != 0) {
        arguments_.fail("--num-layers-per-virtual-pipeline-stage",
                        fmt::format("{} layers on {} stages are not a multiple of {}", all, stages_,
                                    *per_chunk));
      }
      chunks = all / (stages_ * *per_chunk);
    }
    if (const auto text = arguments_.text("--pipeline-model-parallel-layout")) {
      chunks = read_layout(*text);
      layout = *text;
    } else if (counts_embedding || counts_head) {
      layout = layout_with_ends(chunks, counts_embedding, counts_head);
    } else if (arguments_.has("--decoder-first-pipeline-num-layers") ||
               arguments_.has("--decoder-last-pipeline-num-layers")) {
      layout = layout_of_ends(chunks);
    }
    imported_.add("--schedule", chunks > 1 ? "interleaved" : "1f1b");
    imported_.add("--stages", stages_);
    if (chunks > 1) imported_.add("--virtual-stages", chunks);
    const auto group = arguments_.integer("--microbatch-group-size-per-virtual-pipeline-stage");
    if (group && chunks > 1) imported_.add("--group", *group);
    if (arguments_.is_set("--overlap-moe-expert-parallel-comm")) {
      if (chunks > 1) {
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
    if (stages % stages_ != 0) {
      arguments_.fail(name, fmt::format("{} stages on {}", stages, plural(stages_, "rank")));
    }
    return stages / stages_;
  }

  std::string layout_with_ends(std::int64_t chunks, bool embedding, bool head) const {
    const char* name = embedding ? "--account-for-embedding-in-pipeline-split"
                                 : "--account-for-loss-in-pipeline-split";
    const std::int64_t all = blocks_or_fail(name) + (embedding ? 1 : 0) + (head ? 1 : 0);
    const std::int64_t count = stages_ * chunks;
    if (all % count != 0) {
      arguments_.fail(name, fmt::format("{} layers are not a multiple of {}", all,
                                        plural(count, "virtual stage")));
    }
    std::vector<std::int64_t> layers(static_cast<std::size_t>(count), all / count);
    if (!embedding) ++layers.front();
    if (!head) ++layers.back();
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
    const std::int64_t others = stages_ - ends;
    const std::int64_t of_other = others > 0 ? left / others : 0;
    const bool fits = others >= 0 && left == of_other * others;
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(stages_), of_other);
    if (first) of_rank.front() = *first;
    if (last) of_rank.back() = *last;
    std::vector<std::int64_t> layers;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (const std::int64_t blocks : of_rank) {
        if (!fits || blocks < 1 || blocks % chunks != 0) {
          arguments_.fail(name, fmt::format("{} blocks can't be divided like this among {} of {}",
                                            blocks_or_fail(name), plural(stages_, "rank"),
                                            plural(chunks, "chunk")));
        }
        layers.push_back(blocks / chunks);
      }
    }
    ++layers.front();
    ++layers.back();
    return layout_text(layers);
  }

  void read_shards() {
    if (tensor_ > 1) imported_.add("--tensor-parallel", tensor_);
    const bool by_tokens = arguments_.is_set("--sequence-parallel");
    if (by_tokens && tensor_ > 1) imported_.add("--sequence-parallel");
    if (by_tokens && tensor_ == 1) imported_.without_effect.emplace_back("--sequence-parallel");
    const bool is_synchronous = arguments_.is_set("--no-async-tensor-model-parallel-allreduce");
    if (is_synchronous && tensor_ > 1) imported_.add("--tensor-overlap", "off");
    if (arguments_.is_set("--tp-comm-overlap")) {
      lacks("--tp-comm-overlap",
            "how much it hides it does not say; give --tensor-overlap PART, such as 0.8");
    }
  }

  void read_precision() {
    std::string precision = "fp32";
    if (arguments_.is_set("--fp16")) precision = "fp16";
    if (arguments_.is_set("--bf16")) precision = "bf16";
    const bool has_16_bits = precision != "fp32";
    bool has_long_gradients = arguments_.is_set("--accumulate-allreduce-grads-in-fp32");
    if (precision == "bf16") has_long_gradients = !arguments_.is_set("--grad-reduce-in-bf16");
    for (const char* name : {"--fp8-format", "--fp8-hybrid", "--fp8-e4m3"}) {
      if (arguments_.has(name)) precision = "fp8";
    }
    imported_.add("--precision", precision);
    if (has_16_bits) {
      gradient_bytes_ = has_long_gradients ? 4 : 2;
      imported_.add("--gradient-bytes", gradient_bytes_);
    }
    read_attention();
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
    if (granularity == "full") {
      if (method != "uniform" && method != "block") {
        arguments_.fail("--recompute-method",
                        fmt::format("{}; known: uniform, block", quote(method)));
      }
      // By the method "block" it is so many of each stage.
      imported_.add("--recompute", method == "block" ? fmt::format("full:{}", count) : "full");
      if (method != "block" && count > 1) {
        lacks("--recompute-num-layers", "each block's input is kept here, not each unit's");
      }
      return;
    }
    if (granularity.empty()) return;
    if (granularity != "selective") {
      arguments_.fail("--recompute-granularity",
                      fmt::format("{}; known: full, selective", quote(granularity)));
    }
    std::vector<std::string> parts;
    if (modules.empty()) parts.emplace_back("attention");
    for (const std::string& module : modules) {
      if (module == "core_attn") {
        parts.emplace_back("attention");
      } else if (module == "layernorm") {
        parts.emplace_back("norms");
      } else if (module == "moe_act") {
        parts.emplace_back("activation");
      } else {
        imported_.without_counterpart.push_back(
            {"--recompute-modules " + printable(module), "no such part is computed again here"});
      }
    }
    if (parts.empty()) return;
    std::string text = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) text += "," + parts[i];
    imported_.add("--recompute", text == "attention" ? "selective" : text);
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
    const auto bucket = arguments_.integer("--ddp-bucket-size");
    const std::int64_t instances =
        arguments_.integer_or("--num-distributed-optimizer-instances", 1);
    if (replicas_ == 1) {
      for (const char* name :
           {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"}) {
        if (arguments_.has(name)) {
          imported_.without_effect.push_back(std::string(name) + ", of one replica");
        }
      }
      return;
    }
    if (zero > 0) imported_.add("--zero", zero);
    if (is_torch) imported_.add("--gather", stays ? "once" : "pass");
    if (zero > 0 && instances > 1) {
      if (replicas_ && *replicas_ % instances == 0) {
        imported_.add("--shard-over", *replicas_ / instances);
      } else {
        lacks("--num-distributed-optimizer-instances",
              "give --devices, and --shard-over replicas / instances");
      }
    }
    if (zero <= 1) {
      if (!reduces_early) imported_.add("--bucket-bytes", "off");
      // The default is that of megatron/core/distributed/distributed_data_parallel.py.
      constexpr std::int64_t least = 40'000'000;
      constexpr std::int64_t of_replica = 1'000'000;
      const std::int64_t usual = std::max(least, of_replica * replicas_.value_or(1));
      if (reduces_early) {
        imported_.add("--bucket-bytes", bytes_flag(bucket.value_or(usual) * gradient_bytes_));
      }
    }
    if (zero == 1 || zero == 2) imported_.add("--overlap-gather", gathers_early ? "on" : "off");
  }

  // ---- The rest

  void add_remarks() {
    for (const Arguments::Argument& argument : arguments_.all()) {
      if (argument.is_used) continue;
      if (const std::string why = megatron_reason(argument); !why.empty()) {
        lacks(argument, why);
      } else {
        imported_.without_effect.push_back(Arguments::text_of(argument));
      }
    }
  }

  Arguments arguments_;
  ImportQuestion question_;
  Imported imported_;
  std::int64_t tensor_ = 1;
  std::int64_t stages_ = 1;
  std::int64_t gradient_bytes_ = 4;
  std::optional<std::int64_t> sequence_;
  std::optional<std::int64_t> replicas_;  // if the number of devices is known
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
    return Megatron(Arguments(words, file), question).read();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.starts_with(printable(file))) throw;
    throw Error(error.cause(), fmt::format("{}: {}", printable(file), what));
  }
}

}  // namespace pipesim
