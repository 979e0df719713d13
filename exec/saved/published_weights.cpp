#include "exec/saved/published_weights.h"

#include <fmt/format.h>

#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr double norm_epsilon = 1e-5;  // exec/device/device.h

class Tensors {
 public:
  explicit Tensors(const Model& model) : model_(model) {}

  void add_vector(const std::string& name, const std::string& key, std::int64_t size,
                  Range columns) {
    all_.push_back({name, {columns.size()}, key, 1, size, columns});
  }
  void add_vector(const std::string& name, const std::string& key, std::int64_t size) {
    add_vector(name, key, size, {0, size});
  }
  void add_matrix(const std::string& name, const std::string& key, std::int64_t rows,
                  std::int64_t width) {
    all_.push_back({name, {rows, width}, key, rows, width, {0, width}});
  }
  void add_turned(const std::string& name, const std::string& key, std::int64_t rows,
                  std::int64_t width, Range columns) {
    all_.push_back({name, {columns.size(), rows}, key, rows, width, columns, true});
  }
  void add_turned(const std::string& name, const std::string& key, std::int64_t rows,
                  std::int64_t width) {
    add_turned(name, key, rows, width, {0, width});
  }

  void add_gpt();
  void add_llama();
  std::vector<PublishedTensor> take() { return std::move(all_); }

 private:
  void add_gpt_block(std::int64_t block);
  void add_llama_block(std::int64_t block);
  void add_qkv(const std::string& name, const std::string& key, Range columns);
  void add_head() {
    if (model_.tied_head) return;
    add_matrix(std::string(published_head), head("matrix"), model_.vocabulary_size, hidden());
  }
  std::string head(std::string_view name) const {
    return fmt::format("layers.{}.{}", model_.layers() - 1, name);
  }
  std::int64_t hidden() const { return model_.hidden_size; }
  std::int64_t heads() const { return model_.attention_size(); }
  std::int64_t qkv_size() const { return heads() + 2 * model_.kv_size(); }

  const Model& model_;
  std::vector<PublishedTensor> all_;
};

void Tensors::add_gpt_block(std::int64_t block) {
  const std::string name = fmt::format("transformer.h.{}.", block);
  const std::string key = fmt::format("layers.{}.", block + 1);
  const auto norm = [&](const std::string& theirs, const std::string& own) {
    add_vector(name + theirs + ".weight", key + own + ".gamma", hidden());
    add_vector(name + theirs + ".bias", key + own + ".beta", hidden());
  };
  const auto linear = [&](const std::string& theirs, const std::string& own, std::int64_t inputs,
                          std::int64_t outputs) {
    add_matrix(name + theirs + ".weight", key + own + ".matrix", inputs, outputs);
    add_vector(name + theirs + ".bias", key + own + ".bias", outputs);
  };
  norm("ln_1", "norm1");
  linear("attn.c_attn", "qkv", hidden(), qkv_size());
  linear("attn.c_proj", "out", heads(), hidden());
  norm("ln_2", "norm2");
  linear("mlp.c_fc", "up", hidden(), model_.mlp_size);
  linear("mlp.c_proj", "down", model_.mlp_size, hidden());
}

void Tensors::add_gpt() {
  add_matrix("transformer.wte.weight", "layers.0.table", model_.vocabulary_size, hidden());
  add_matrix("transformer.wpe.weight", "layers.0.positions", model_.max_sequence_length, hidden());
  for (std::int64_t block = 0; block < model_.blocks; ++block) add_gpt_block(block);
  add_vector("transformer.ln_f.weight", head("norm.gamma"), hidden());
  add_vector("transformer.ln_f.bias", head("norm.beta"), hidden());
  add_head();
}

void Tensors::add_qkv(const std::string& name, const std::string& key, Range columns) {
  add_turned(name + ".weight", key + "qkv.matrix", hidden(), qkv_size(), columns);
  if (model_.biases.qkv) add_vector(name + ".bias", key + "qkv.bias", qkv_size(), columns);
}

void Tensors::add_llama_block(std::int64_t block) {
  const std::string name = fmt::format("model.layers.{}.", block);
  const std::string key = fmt::format("layers.{}.", block + 1);
  const std::int64_t inner = model_.mlp_size;
  const std::int64_t keys_end = heads() + model_.kv_size();
  add_vector(name + "input_layernorm.weight", key + "norm1.gamma", hidden());
  add_qkv(name + "self_attn.q_proj", key, {0, heads()});
  add_qkv(name + "self_attn.k_proj", key, {heads(), keys_end});
  add_qkv(name + "self_attn.v_proj", key, {keys_end, qkv_size()});
  add_turned(name + "self_attn.o_proj.weight", key + "out.matrix", heads(), hidden());
  add_vector(name + "post_attention_layernorm.weight", key + "norm2.gamma", hidden());
  add_turned(name + "mlp.gate_proj.weight", key + "up.matrix", hidden(), 2 * inner, {0, inner});
  add_turned(name + "mlp.up_proj.weight", key + "up.matrix", hidden(), 2 * inner,
             {inner, 2 * inner});
  add_turned(name + "mlp.down_proj.weight", key + "down.matrix", inner, hidden());
}

void Tensors::add_llama() {
  add_matrix("model.embed_tokens.weight", "layers.0.table", model_.vocabulary_size, hidden());
  for (std::int64_t block = 0; block < model_.blocks; ++block) add_llama_block(block);
  add_vector("model.norm.weight", head("norm.gamma"), hidden());
  add_head();
}

// Calls visit(index among its numbers, index in our array).
template <typename Visit>
void for_each_number(const PublishedTensor& tensor, const Visit& visit) {
  const std::int64_t columns = tensor.columns.size();
  for (std::int64_t row = 0; row < tensor.rows; ++row) {
    const std::int64_t own = row * tensor.width + tensor.columns.begin;
    for (std::int64_t i = 0; i < columns; ++i) {
      visit(tensor.is_turned ? i * tensor.rows + row : row * columns + i, own + i);
    }
  }
}

}  // namespace

void check_publishable(const Model& model, std::string_view where) {
  const char* reason = nullptr;
  if (model.architecture == Architecture::mlp) {
    reason = "it is an mlp, which transformers does not have";
  } else if (model.architecture == Architecture::gpt && model.kv_heads != model.heads) {
    reason = "its heads share keys and values, and those of transformers' GPT-2 do not";
  } else if (model.architecture == Architecture::gpt && model.own_head_size) {
    reason = "its heads have a size of their own, and those of transformers' GPT-2 do not";
  }
  if (reason == nullptr) return;
  throw input_error(
      fmt::format("{}: {} has no form in Hugging Face's names: {}; give a gpt or "
                  "a llama",
                  where, quote(model.name), reason));
}

std::vector<PublishedTensor> published_tensors(const Model& model) {
  Tensors tensors(model);
  if (model.architecture == Architecture::llama) {
    tensors.add_llama();
  } else {
    tensors.add_gpt();
  }
  return tensors.take();
}

void take_published(const PublishedTensor& tensor, const float* array, float* numbers) {
  for_each_number(tensor,
                  [&](std::int64_t theirs, std::int64_t own) { numbers[theirs] = array[own]; });
}

void put_published(const PublishedTensor& tensor, const float* numbers, float* array) {
  for_each_number(tensor,
                  [&](std::int64_t theirs, std::int64_t own) { array[own] = numbers[theirs]; });
}

std::string published_config(const Model& model) {
  Json json;
  if (model.architecture == Architecture::llama) {
    json["architectures"] =
        std::vector<std::string>{model.biases.qkv ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
    json["model_type"] = model.biases.qkv ? "qwen2" : "llama";
    json["vocab_size"] = model.vocabulary_size;
    json["hidden_size"] = model.hidden_size;
    json["intermediate_size"] = model.mlp_size;
    json["num_hidden_layers"] = model.blocks;
    json["num_attention_heads"] = model.heads;
    json["num_key_value_heads"] = model.kv_heads;
    if (model.own_head_size) json["head_dim"] = *model.own_head_size;
    json["hidden_act"] = "silu";
    json["max_position_embeddings"] = model.max_sequence_length;
    json["rms_norm_eps"] = norm_epsilon;
    json["rope_theta"] = static_cast<double>(model.rotary_base);
    if (model.biases.qkv) {
      json["use_sliding_window"] = false;
    } else {
      json["attention_bias"] = false;
      json["mlp_bias"] = false;
    }
  } else {
    const double dropout = static_cast<double>(model.dropout_ppm) / 1e6;
    json["architectures"] = std::vector<std::string>{"GPT2LMHeadModel"};
    json["model_type"] = "gpt2";
    json["vocab_size"] = model.vocabulary_size;
    json["n_embd"] = model.hidden_size;
    json["n_inner"] = model.mlp_size;
    json["n_layer"] = model.blocks;
    json["n_head"] = model.heads;
    json["n_positions"] = model.max_sequence_length;
    json["activation_function"] = "gelu_new";
    json["layer_norm_epsilon"] = norm_epsilon;
    json["embd_pdrop"] = dropout;
    json["resid_pdrop"] = dropout;
    json["attn_pdrop"] = 0;
  }
  json["tie_word_embeddings"] = model.tied_head;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

bool is_published_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::string_view published_prefix(const Model& model) {
  return model.architecture == Architecture::llama ? "model." : "transformer.";
}

}  // namespace pipesim::exec
