#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/import/megatron_reader.h"
#include "traces/base/error.h"

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
    const bool is_gated = arguments_.is_set("--swiglu");
    model.shape_as(is_gated ? Architecture::llama : Architecture::gpt);
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

  void read_mlp(Model& model, bool is_gated) {
    // Two matrices instead of one, with the same number of parameters, rounded down to multiples
    // of 64.
    const std::int64_t gated = model.hidden_size * 8 / 3 / 64 * 64;
    model.mlp_size =
        arguments_.integer_or("--ffn-hidden-size", is_gated ? gated : 4 * model.hidden_size);
    model.experts = arguments_.integer_or("--num-experts", 1);
    if (model.experts == 1) return;
    model.experts_per_token = arguments_.integer_or("--moe-router-topk", 2);
    model.expert_size = arguments_.integer_or("--moe-ffn-hidden-size", model.mlp_size);
    model.kinds = {BlockKind{.has_experts = true}};
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
    const bool is_rotary = type == "rope" || type == "yarn";
    if (is_rotary) model.positions = Positions::rotary;
    if (is_rotary) model.rotary_base = arguments_.integer_or("--rotary-base", 10'000);
    const bool fits = is_rotary || (type == "learned_absolute" && model.has_positions());
    if (!fits) {
      approximates("--position-embedding-type",
                   model.has_positions() ? "a gpt has a table of positions or rotary ones"
                                         : "a llama's positions are rotary");
    }
    if (!fits && !arguments_.has("--position-embedding-type")) {
      approximates_default("--position-embedding-type learned_absolute",
                           "the default; a llama's positions are rotary");
    }
  }

  // Properties of the two architectures, and those of neither.
  void read_parts(Model& model, bool is_gated) {
    model.tied_head = !arguments_.is_set("--untie-embeddings-and-output-weights");
    const bool has_bias = !arguments_.is_set("--disable-bias-linear");
    const bool has_qkv_bias = arguments_.is_set("--add-qkv-bias");
    if (!is_gated && !has_bias) {
      approximates("--disable-bias-linear",
                   "the products of a gpt have biases: its vectors are counted");
    }
    if (is_gated && has_bias) {
      approximates_default("no --disable-bias-linear", "the products of a llama have no biases");
    }
    if (is_gated) model.biases.qkv = has_qkv_bias || has_bias;
    const std::string norm = arguments_.text("--normalization").value_or("LayerNorm");
    if ((norm == "RMSNorm") != is_gated) {
      const std::string why =
          is_gated ? "a llama's norms are RMS norms, without a bias" : "a gpt's norms have a bias";
      if (arguments_.has("--normalization")) {
        approximates("--normalization", why);
      } else {
        approximates_default("--normalization LayerNorm", "the default; " + why);
      }
    }
    const bool has_head_norms = arguments_.is_set("--qk-layernorm");
    if (is_gated && has_head_norms) model.qk_norm = QkNorm::heads;
    if (has_head_norms && !is_gated) lacks("--qk-layernorm", "a gpt has none here");
    for (const char* name : {"--squared-relu", "--openai-gelu"}) {
      approximates(name, "taken for GELU, which costs as much");
    }
    lacks("--quick-geglu", "such a gated MLP is not modelled");
    const double hidden = arguments_.number("--hidden-dropout").value_or(0.1);
    const double scores = arguments_.number("--attention-dropout").value_or(0.1);
    if (hidden >= 1) arguments_.fail("--hidden-dropout", "must be less than 1");
    model.dropout_ppm = static_cast<std::int64_t>(hidden * 1e6 + 0.5);
    if (hidden != scores) {
      const std::string why =
          fmt::format("a model has one dropout: {:g}, of --hidden-dropout", hidden);
      if (arguments_.has("--attention-dropout")) {
        approximates("--attention-dropout", why);
      } else {
        approximates_default("--attention-dropout 0.1", "the default; " + why);
      }
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
