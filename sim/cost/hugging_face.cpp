// Names and defaults are those of transformers, src/transformers/models/*/configuration_*.py, at
// commit 008e574; parameters are those of modeling_*.py next to them.
#include "sim/cost/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t largest_of_config = 1 << 20;  // as in pipesim's own files
constexpr std::int64_t largest_mlp_of_config = 1 << 22;
constexpr std::int64_t max_experts_of_config = 1 << 16;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> config_kinds{{
    {"gpt2", "GPT2LMHeadModel"},
    {"gpt_neox", "GPTNeoXForCausalLM"},
    {"llama", "LlamaForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"gemma", "GemmaForCausalLM"},
    {"mixtral", "MixtralForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
}};

// Keys that change neither a layer's shape nor its cost: texts, ids, initializers and scaling,
// generation and outputs, storage of weights.
constexpr std::string_view meaningless_keys[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_softmax_in_fp32",
    "attn_implementation",
    "auto_map",
    "bos_token_id",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "is_decoder",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "norm_topk_prob",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "partial_rotary_factor",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "rms_norm_eps",
    "rope_scaling",
    "rotary_pct",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "sep_token_id",
    "suppress_tokens",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};

const JsonValue* config_member(const JsonValue& value, std::string_view key) {
  const auto* object = value.get_if<JsonValue::Object>();
  if (object == nullptr) return nullptr;
  const auto found = std::ranges::find(*object, key, &JsonValue::Member::first);
  return found == object->end() ? nullptr : &found->second;
}

class ConfigReader {
 public:
  ConfigReader(const JsonCursor& root, std::vector<std::string>* notes)
      : root_(root), members_(root), notes_(notes), unread_(keys_of(root.value())) {}

  Model read() {
    const std::string type = this->type();
    model_.name = root_.file();
    optional("_name_or_path", [&](const JsonCursor& value) {
      if (!value.string().empty()) model_.name = value.string();
    });
    if (type == "gpt2") {
      gpt2();
    } else {
      others(type);
    }
    dropout(type);
    refuse("add_cross_attention", false, true, "cross attention is not modelled");
    refuse("is_encoder_decoder", false, true, "encoders are not modelled");
    finish();
    return std::move(model_);
  }

 private:
  static std::set<std::string, std::less<>> keys_of(const JsonValue& value) {
    std::set<std::string, std::less<>> keys;
    for (const auto& [key, member] : *value.get_if<JsonValue::Object>()) {
      if (!member.is_null()) keys.insert(key);
    }
    return keys;
  }

  // ---- Members

  // Null counts as absent.
  template <typename Use>
  bool optional(std::string_view key, Use use) {
    take(key);
    bool is_there = false;
    members_.optional(key, [&](const JsonCursor& value) {
      if (value.is_null()) return;
      is_there = true;
      use(value);
    });
    return is_there;
  }
  std::int64_t required(std::string_view key, std::int64_t most = largest_of_config) {
    take(key);
    return members_.required(key).integer(1, most);
  }
  std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                          std::int64_t most = largest_of_config) {
    optional(key, [&](const JsonCursor& value) { fallback = value.integer(1, most); });
    return fallback;
  }
  bool boolean_or(std::string_view key, bool fallback) {
    optional(key, [&](const JsonCursor& value) { fallback = value.boolean(); });
    return fallback;
  }
  void take(std::string_view key) {
    if (const auto at = unread_.find(key); at != unread_.end()) unread_.erase(at);
  }
  void note(const std::string& text) {
    if (notes_ != nullptr) notes_->push_back(fmt::format("{}: {}", printable(root_.file()), text));
  }

  // Refuses a switch that is on, or off, as `bad` says.
  void refuse(std::string_view key, bool usual, bool bad, std::string_view why) {
    bool is_bad = usual == bad;
    std::optional<JsonCursor> at;
    optional(key, [&](const JsonCursor& value) {
      is_bad = value.boolean() == bad;
      at = value;
    });
    if (is_bad) (at ? *at : root_).fail(why);
  }

  // ---- Which model it is

  std::string type() {
    std::vector<std::string> known;
    for (const auto& [type, architecture] : config_kinds) known.emplace_back(type);
    std::string type;
    const JsonValue* list = config_member(root_.value(), "architectures");
    if (list != nullptr && list->is_null()) list = nullptr;
    std::vector<std::string> architectures;
    if (list != nullptr) {
      for (const JsonCursor& one : JsonCursor(*list, root_.file(), "architectures").array()) {
        architectures.push_back(one.string());
      }
    }
    optional("model_type", [&](const JsonCursor& value) {
      type = value.string();
      if (std::ranges::find(known, type) != known.end()) return;
      value.fail(fmt::format("{}; or describe it as a pipesim-model (traces/FORMAT.md)",
                             unknown_name("model type", type, known)));
    });
    for (const auto& [name, architecture] : config_kinds) {
      const bool is_named = std::ranges::find(architectures, architecture) != architectures.end();
      if (type.empty() && is_named) type = name;
      if (type == name && !is_named && !architectures.empty()) {
        note(fmt::format("architectures: {} is taken for {}, with its head",
                         printable(architectures.front()), architecture));
      }
    }
    if (!type.empty()) return type;
    root_.fail(
        fmt::format("neither model_type nor architectures names a model that is read here; known: "
                    "{}",
                    fmt::join(known, ", ")));
  }

  void gpt2() {
    model_.shape_as(Architecture::gpt);
    model_.blocks = required("n_layer");
    model_.hidden_size = required("n_embd");
    heads("gpt2", "n_head");
    model_.mlp_size = integer_or("n_inner", 4 * model_.hidden_size, largest_mlp_of_config);
    model_.vocabulary_size = required("vocab_size");
    model_.max_sequence_length = required("n_positions");
    take("n_ctx");  // the same, in older files
    activation("activation_function", "gelu_new", "gelu");
    model_.tied_head = boolean_or("tie_word_embeddings", true);
  }

  void others(const std::string& type) {
    const bool is_neox = type == "gpt_neox";
    const bool has_experts = type == "mixtral" || type == "qwen3_moe";
    model_.shape_as(is_neox ? Architecture::gpt : Architecture::llama);
    if (is_neox) model_.positions = Positions::rotary;
    model_.blocks = required("num_hidden_layers");
    model_.hidden_size = required("hidden_size");
    heads(type, "num_attention_heads");
    model_.vocabulary_size = required("vocab_size");
    model_.max_sequence_length = required("max_position_embeddings");
    if (has_experts) {
      experts(type);
    } else {
      model_.mlp_size = required("intermediate_size", largest_mlp_of_config);
    }
    if (type == "gemma") {
      // If both are there the older name counts.
      take("hidden_act");
      const bool has_older = root_has("hidden_activation");
      activation(has_older ? "hidden_activation" : "hidden_act", "gelu_pytorch_tanh", "silu");
      refuse("use_bidirectional_attention", false, true, "only causal attention is modelled");
    } else {
      activation("hidden_act", is_neox ? "gelu" : "silu", is_neox ? "gelu" : "silu");
    }
    model_.tied_head = boolean_or("tie_word_embeddings", type == "gemma");
    model_.biases.qkv = type == "qwen2";
    if (type == "qwen3" || type == "qwen3_moe") model_.qk_norm = QkNorm::heads;
    rotary_base(type);
    window(type);
    if (is_neox) {
      refuse("attention_bias", true, false, "attention without biases is not modelled in a gpt");
      if (boolean_or("use_parallel_residual", true)) {
        note(
            "use_parallel_residual: attention and MLP are taken one after the other; with tensor "
            "parallelism that is one more sum over ranks per pass of a block");
      }
    } else {
      refuse("attention_bias", false, true,
             "a bias of the attention's output is not modelled in a llama");
      refuse("mlp_bias", false, true, "biases of the MLP are not modelled in a llama");
    }
  }

  bool root_has(std::string_view key) const {
    const JsonValue* found = config_member(root_.value(), key);
    return found != nullptr && !found->is_null();
  }

  // ---- Parts

  void heads(std::string_view type, std::string_view key) {
    model_.heads = required(key);
    model_.kv_heads = model_.heads;
    if (!type.starts_with("gpt")) {
      optional("num_key_value_heads", [&](const JsonCursor& value) {
        model_.kv_heads = value.integer(1, largest_of_config);
        if (model_.heads % model_.kv_heads == 0) return;
        value.fail(fmt::format("{} do not divide {}", model_.kv_heads,
                               plural(model_.heads, "attention head")));
      });
      optional("head_dim", [&](const JsonCursor& value) {
        model_.own_head_size = value.integer(1, largest_of_config);
      });
    }
    // Implicit properties of these models.
    if (!model_.own_head_size && type == "gemma") model_.own_head_size = 256;
    if (!model_.own_head_size && type == "qwen3") model_.own_head_size = 128;
    const bool divides = model_.hidden_size % model_.heads == 0;
    if (divides && model_.own_head_size == model_.hidden_size / model_.heads) {
      model_.own_head_size.reset();
    }
    if (!model_.own_head_size && !divides) {
      root_.fail(fmt::format("{}: {} do not divide a width of {}", key,
                             plural(model_.heads, "head"), model_.hidden_size));
    }
    if (model_.attention_size() > 4 * largest_of_config) {
      root_.fail(fmt::format("{}: {} of {} numbers are more than {}", key,
                             plural(model_.heads, "head"), model_.head_size(),
                             4 * largest_of_config));
    }
    if (type != "gpt2" && model_.head_size() % 2 != 0) {
      root_.fail(fmt::format("{}: heads of {} numbers, but rotary positions turn pairs", key,
                             model_.head_size()));
    }
  }

  void experts(const std::string& type) {
    const bool is_mixtral = type == "mixtral";
    const std::string_view own = is_mixtral ? "num_local_experts" : "num_experts";
    const std::string_view other = is_mixtral ? "num_experts" : "num_local_experts";
    const std::string_view count = root_has(own) || !root_has(other) ? own : other;
    model_.experts = required(count, max_experts_of_config);
    model_.experts_per_token = required("num_experts_per_tok", max_experts_of_config);
    if (model_.experts_per_token > model_.experts) {
      root_.fail(fmt::format("num_experts_per_tok: {} of {}", model_.experts_per_token,
                             plural(model_.experts, "expert")));
    }
    if (is_mixtral) {
      model_.mlp_size = required("intermediate_size", largest_mlp_of_config);
      model_.expert_size = model_.mlp_size;
      model_.kinds = {BlockKind{.has_experts = true}};
      return;
    }
    model_.expert_size = required("moe_intermediate_size", largest_mlp_of_config);
    model_.mlp_size = model_.expert_size;
    model_.kinds = {BlockKind{.has_experts = true}};
    take("intermediate_size");  // for blocks without experts
    optional("decoder_sparse_step", [](const JsonCursor& value) {
      if (value.integer(1, largest_of_config) > 1) {
        value.fail("a mix of blocks with and without experts is not modelled");
      }
    });
    optional("mlp_only_layers", [](const JsonCursor& value) {
      if (!value.array().empty()) {
        value.fail("a mix of blocks with and without experts is not modelled");
      }
    });
  }

  // `modelled` is the architecture's; another function has the same cost.
  void activation(std::string_view key, std::string_view usual, std::string_view modelled) {
    std::string name(usual);
    optional(key, [&](const JsonCursor& value) { name = value.string(); });
    const bool is_gelu = name.find("gelu") != std::string::npos;
    if (modelled == "gelu" ? is_gelu : name == "silu" || name == "swish") return;
    note(
        fmt::format("{}: {} is taken for {}, which costs as much", key, printable(name), modelled));
  }

  void rotary_base(const std::string& type) {
    model_.rotary_base = type == "mixtral" ? 1'000'000 : 10'000;
    const auto read = [&](const JsonCursor& value) {
      model_.rotary_base = value.rounded(1, 1'000'000'000);
    };
    optional("rope_theta", read);
    if (type == "gpt_neox") optional("rotary_emb_base", read);
    optional("rope_parameters", [&](const JsonCursor& value) {
      const JsonValue* theta = config_member(value.value(), "rope_theta");
      if (theta != nullptr) read({*theta, root_.file(), "rope_parameters.rope_theta"});
    });
  }

  void window(const std::string& type) {
    const bool is_qwen = type.starts_with("qwen");
    if (type != "mistral" && type != "mixtral" && !is_qwen) return;
    std::optional<std::int64_t> window;
    if (type == "mistral" && config_member(root_.value(), "sliding_window") == nullptr)
      window = 4096;
    if (is_qwen && type != "qwen3_moe") window = 4096;
    optional("sliding_window",
             [&](const JsonCursor& value) { window = value.integer(1, 1'000'000'000); });
    if (is_qwen) {
      if (!boolean_or("use_sliding_window", false)) window.reset();
      // Blocks from this one on have it.
      std::int64_t first = 28;
      optional("max_window_layers",
               [&](const JsonCursor& value) { first = value.integer(0, largest_of_config); });
      bool any = type == "qwen3_moe" || first < model_.blocks;
      optional("layer_types", [&](const JsonCursor& value) {
        any = false;
        for (const JsonCursor& one : value.array()) {
          if (one.string() == "sliding_attention") any = true;
          if (one.string() != "sliding_attention" && one.string() != "full_attention") {
            one.fail("only full_attention and sliding_attention are read");
          }
        }
      });
      if (!any) window.reset();
    }
    if (!window || *window >= model_.max_sequence_length) return;
    for (BlockKind& kind : model_.kinds) kind.window = window;
  }

  // One fraction represents all.
  void dropout(const std::string& type) {
    const auto fraction = [&](std::string_view key, std::int64_t usual) {
      optional(key, [&](const JsonCursor& value) {
        usual = value.millionths(1);
        if (usual == 1'000'000) value.fail("must be less than 1");
      });
      return usual;
    };
    std::vector<std::pair<std::string_view, std::int64_t>> all;
    if (type == "gpt2") {
      constexpr std::int64_t usual = 100'000;
      for (const std::string_view key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
        all.emplace_back(key, fraction(key, usual));
      }
    } else if (type == "gpt_neox") {
      for (const std::string_view key : {"hidden_dropout", "attention_dropout"}) {
        all.emplace_back(key, fraction(key, 0));
      }
    } else {
      const std::int64_t of_scores = fraction("attention_dropout", 0);
      if (of_scores > 0) {
        note("attention_dropout: dropout of scores alone is not modelled, and taken for none");
      }
      model_.dropout_ppm = 0;
      return;
    }
    model_.dropout_ppm = all.front().second;
    for (const auto& [key, value] : all) {
      if (value == model_.dropout_ppm) continue;
      note(fmt::format("{}: {:g} is taken for {:g}, {}'s; a model has one dropout", key,
                       static_cast<double>(value) / 1e6,
                       static_cast<double>(model_.dropout_ppm) / 1e6, all.front().first));
    }
  }

  void finish() {
    for (const std::string_view key : meaningless_keys) take(key);
    if (unread_.empty()) return;
    std::vector<std::string> names;
    for (const std::string& key : unread_) names.push_back(printable(key));
    note(fmt::format("{} not known here, and assumed to have no effect: {}",
                     names.size() == 1 ? "a key" : "keys", fmt::join(names, ", ")));
  }

  JsonCursor root_;
  JsonMembers members_;
  std::vector<std::string>* notes_;
  std::set<std::string, std::less<>> unread_;
  Model model_{.name = {}};
};

}  // namespace

bool is_hugging_face(const JsonValue& document) {
  return config_member(document, "format") == nullptr &&
         (config_member(document, "model_type") != nullptr ||
          config_member(document, "architectures") != nullptr);
}

Model read_hugging_face(const JsonCursor& root, std::vector<std::string>* notes) {
  return ConfigReader(root, notes).read();
}

}  // namespace pipesim
