#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/import/megatron_reader.h"
#include "sim/import/number_list.h"
#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

class MegatronModel : private MegatronReader {
 public:
  MegatronModel(Arguments& arguments, const ImportQuestion& question, std::int64_t tensor,
                Imported& imported)
      : MegatronReader(arguments, imported), question_(question), tensor_(tensor) {}

  void read() {
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
    model.shape_as(arguments_.is_set("--swiglu") ? Architecture::llama : Architecture::gpt);
    model.blocks = arguments_.integer_or("--num-layers", 1);
    model.hidden_size = arguments_.integer_or("--hidden-size", 1);
    read_heads(model);
    read_latent(model);
    read_mlp(model);
    read_experts(model);
    read_kinds(model);
    read_vocabulary(model);
    read_positions(model);
    read_parts(model);
    read_dropout(model);
    read_predictions(model);
    imported_.model = parse_model(to_json(model), "the model of the arguments");
  }

 private:
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

  void read_latent(Model& model) {
    if (!arguments_.is_set("--multi-latent-attention")) return;
    if (arguments_.has("--group-query-attention")) {
      arguments_.fail("--group-query-attention",
                      "Megatron-LM refuses it with --multi-latent-attention");
    }
    const auto size = [&](const char* name, std::int64_t usual) {
      return arguments_.integer_or(name, usual);
    };
    model.latent = LatentAttention{.query_rank = size("--q-lora-rank", 0),
                                   .kv_rank = size("--kv-lora-rank", 32),
                                   .plain_size = size("--qk-head-dim", 128),
                                   .rotary_size = size("--qk-pos-emb-head-dim", 64),
                                   .value_size = size("--v-head-dim", 128)};
    model.own_head_size.reset();
    if (!arguments_.has("--qk-layernorm")) {
      approximates_default("no --qk-layernorm", "what attention makes narrow is normed here");
    }
  }

  void read_mlp(Model& model) {
    // Two matrices instead of one, with the same number of parameters, rounded down to multiples
    // of 64.
    const std::int64_t gated = model.hidden_size * 8 / 3 / 64 * 64;
    model.mlp_size =
        arguments_.integer_or("--ffn-hidden-size", model.is_gated ? gated : 4 * model.hidden_size);
    if (!arguments_.is_set("--quick-geglu")) return;
    if (model.is_gated) arguments_.fail("--quick-geglu", "Megatron-LM refuses it with --swiglu");
    model.is_gated = true;
    approximates("--quick-geglu", "its GELU is taken for the usual one, which costs as much");
  }

  void read_experts(Model& model) {
    model.experts = arguments_.integer_or("--num-experts", 1, 0);
    if (model.experts <= 1) model.experts = 1;
    if (!model.has_experts()) return;
    model.experts_per_token = arguments_.integer_or("--moe-router-topk", 2);
    model.expert_size = arguments_.integer_or("--moe-ffn-hidden-size", model.mlp_size);
    constexpr const char* shared = "--moe-shared-expert-intermediate-size";
    model.shared_size = arguments_.integer_or(shared, 0, 0);
    model.has_shared_gate = model.shared_size > 0 && arguments_.is_set("--moe-shared-expert-gate");
    if (model.shared_size > 0 && !arguments_.has("--disable-bias-linear")) {
      arguments_.fail(shared, "Megatron-LM takes it with --disable-bias-linear alone");
    }
    if (const auto chosen = arguments_.integer("--moe-router-group-topk")) {
      model.groups_per_token = *chosen;
      model.expert_groups = arguments_.integer_or("--moe-router-num-groups", 1);
    }
  }

  // Of each block what a list or an interval says; nothing if it is missing.
  using OfBlocks = std::vector<int>;
  OfBlocks of_blocks(const char* name, std::int64_t blocks,
                     bool (*is_one)(std::int64_t, std::int64_t)) {
    const std::string text = arguments_.text(name).value_or("");
    if (text.find('[') == std::string::npos) {
      OfBlocks all;
      const auto every = arguments_.integer(name);
      for (std::int64_t i = 0; every && i < blocks; ++i) all.push_back(is_one(i, *every) ? 1 : 0);
      return all;
    }
    try {
      OfBlocks all = parse_number_list(text);
      if (std::ssize(all) == blocks) return all;
      throw input_error(fmt::format("has {} numbers for {} blocks", all.size(), blocks));
    } catch (const Error& error) {
      arguments_.fail(name, error.what());
    }
  }

  void read_kinds(Model& model) {
    OfBlocks experts, windowed;
    if (model.has_experts()) {
      experts = of_blocks("--moe-layer-freq", model.blocks,
                          [](std::int64_t i, std::int64_t every) { return i % every == 0; });
    }
    std::optional<std::int64_t> window;
    if (auto text = arguments_.text("--window-size")) {
      std::erase_if(*text, [](char one) { return one == '(' || one == ')' || one == ' '; });
      // Of tokens before its own; those after it are masked, and -1 is all.
      const std::string_view given = std::string_view(*text).substr(0, text->find(','));
      const auto before = whole_number(given);
      if (given != "-1" && (!before || *before > 1'000'000'000)) {
        arguments_.fail("--window-size",
                        fmt::format("{} are no numbers of tokens such as (127,0)", quote(*text)));
      }
      if (before) window = *before + 1;
      windowed = of_blocks("--window-attn-skip-freq", model.blocks,
                           [](std::int64_t i, std::int64_t every) { return (i + 1) % every != 0; });
    }
    model.kinds.clear();
    for (std::size_t i = 0; i < static_cast<std::size_t>(model.blocks); ++i) {
      BlockKind& kind = model.kinds.emplace_back();
      kind.has_experts = model.has_experts() && (experts.empty() || experts[i] != 0);
      if (windowed.empty() || windowed[i] != 0) kind.window = window;
    }
    model.kinds = shortest_kinds(model);
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
    const auto sequence = arguments_.integer("--seq-length");
    const auto positions = arguments_.integer("--max-position-embeddings");
    if (!positions && !sequence) {
      arguments_.fail("--seq-length", "is missing, as is --max-position-embeddings");
    }
    if (positions && sequence && *positions < *sequence) {
      arguments_.fail("--max-position-embeddings",
                      fmt::format("Megatron-LM refuses fewer than --seq-length {}", *sequence));
    }
    model.max_sequence_length = positions.value_or(sequence.value_or(1));
    constexpr std::pair<std::string_view, Positions> types[] = {
        {"learned_absolute", Positions::table},
        {"rope", Positions::rotary},
        {"yarn", Positions::rotary},
        {"mrope", Positions::rotary},
        {"none", Positions::none},
        {"relative", Positions::none}};
    constexpr const char* name = "--position-embedding-type";
    const auto* found = std::ranges::find(types, type, [](const auto& one) { return one.first; });
    if (found == std::end(types)) {
      arguments_.fail(name,
                      unknown_name("type", type, {"learned_absolute", "rope", "yarn", "none"}));
    }
    model.positions = found->second;
    if (type == "mrope") approximates(name, "taken for rope, which costs as much");
    if (type == "relative") approximates(name, "its table of distances is not counted");
    const std::int64_t base = arguments_.integer_or("--rotary-base", 10'000);
    if (model.positions == Positions::rotary) model.rotary_base = base;
  }

  void read_parts(Model& model) {
    model.tied_head = !arguments_.is_set("--untie-embeddings-and-output-weights");
    const bool has_bias = !arguments_.is_set("--disable-bias-linear");
    const bool has_qkv_bias = arguments_.is_set("--add-qkv-bias") || has_bias;
    model.biases = {.qkv = has_qkv_bias && !model.latent,
                    .attention_output = has_bias,
                    .mlp = has_bias,
                    .router = has_bias && model.has_experts(),
                    .head = false};
    const std::string norm = arguments_.text("--normalization").value_or("LayerNorm");
    if (norm != "RMSNorm" && norm != "LayerNorm") {
      arguments_.fail("--normalization", unknown_name("norm", norm, {"LayerNorm", "RMSNorm"}));
    }
    model.norm_kind = norm == "RMSNorm" ? NormKind::rms : NormKind::layer;
    if (arguments_.is_set("--qk-layernorm") && !model.latent) {
      model.qk_norm = QkNorm::heads;
      if (norm != "RMSNorm") {
        approximates("--qk-layernorm", "norms of queries and keys are RMS norms here");
      }
    }
    const std::string softmax = arguments_.text("--softmax-type").value_or("vanilla");
    model.has_sinks = softmax == "learnable";
    for (const char* name : {"--squared-relu", "--openai-gelu"}) {
      approximates(name, "taken for GELU, which costs as much");
    }
  }

  void read_dropout(Model& model) {
    const double hidden = arguments_.number("--hidden-dropout").value_or(0.1);
    const double scores = arguments_.number("--attention-dropout").value_or(0.1);
    if (hidden >= 1) arguments_.fail("--hidden-dropout", "must be less than 1");
    model.dropout_ppm = static_cast<std::int64_t>(hidden * 1e6 + 0.5);
    if (hidden == scores) return;
    const std::string why =
        fmt::format("a model has one dropout: {:g}, of --hidden-dropout", hidden);
    if (arguments_.has("--attention-dropout")) {
      approximates("--attention-dropout", why);
    } else {
      approximates_default("--attention-dropout 0.1", "the default; " + why);
    }
  }

  void read_predictions(Model& model) {
    model.prediction_depths = arguments_.integer_or("--mtp-num-layers", 0, 0);
    if (model.prediction_depths > 0 && model.has_positions()) {
      arguments_.fail("--mtp-num-layers",
                      "Megatron-LM takes it with --position-embedding-type rope or none alone");
    }
  }

  const ImportQuestion& question_;
  std::int64_t tensor_;
};

}  // namespace

void read_megatron_model(Arguments& arguments, const ImportQuestion& question, std::int64_t tensor,
                         Imported& imported) {
  MegatronModel(arguments, question, tensor, imported).read();
}

}  // namespace pipesim
