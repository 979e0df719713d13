// Layers and their parameters.
#include "sim/cost/model.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

// A product from `inputs` to `outputs` numbers.
std::int64_t linear(std::int64_t inputs, std::int64_t outputs, bool has_bias) {
  return inputs * outputs + (has_bias ? outputs : 0);
}

std::int64_t latent_parameters(const Model& model, const LatentAttention& latent) {
  const std::int64_t h = model.hidden_size;
  const auto through = [&](std::int64_t rank) { return model.norm_parameters(rank); };
  const std::int64_t queries = latent.query_rank > 0
                                   ? h * latent.query_rank + through(latent.query_rank) +
                                         latent.query_rank * model.attention_size()
                                   : h * model.attention_size();
  return queries + h * (latent.kv_rank + latent.rotary_size) + through(latent.kv_rank) +
         latent.kv_rank * model.heads * (latent.plain_size + latent.value_size);
}

std::int64_t attention_parameters(const Model& model) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t heads = model.attention_size();
  const std::int64_t kv = model.kv_size();
  std::int64_t sum = model.latent ? latent_parameters(model, *model.latent)
                                  : linear(h, heads + 2 * kv, model.biases.qkv);
  sum += linear(model.output_size(), h, model.biases.attention_output);
  sum += model.qk_norm_parameters(heads, kv);
  if (model.has_inner_norms) sum += model.norm_parameters(model.output_size());
  if (model.has_attention_gate) sum += h * model.output_size();
  return sum + (model.has_sinks ? model.heads : 0);
}

std::int64_t mlp_parameters(const Model& model, std::int64_t width) {
  const std::int64_t h = model.hidden_size;
  return linear(h, (model.is_gated ? 2 : 1) * width, model.biases.mlp) +
         linear(width, h, model.biases.mlp);
}

// With so many of its experts, if it has some.
std::int64_t block_parameters(const Model& model, const BlockKind& kind, std::int64_t experts) {
  const std::int64_t h = model.hidden_size;
  if (model.architecture == Architecture::mlp) return h * h + h;
  const std::int64_t common = model.norms * model.norm_parameters(h) + attention_parameters(model);
  if (!kind.has_experts) {
    return common + mlp_parameters(model, model.mlp_size) +
           (model.has_inner_norms ? model.norm_parameters(model.mlp_size) : 0);
  }
  const std::int64_t shared = model.shared_size > 0 ? mlp_parameters(model, model.shared_size) +
                                                          (model.has_shared_gate ? h : 0)
                                                    : 0;
  return common + linear(h, model.experts, model.biases.router) + shared +
         experts * mlp_parameters(model, model.expert_size);
}

// A block that reads both what the blocks made and the embedding of the next token, and a norm
// before the head, which is the model's (DeepSeek-AI, arXiv 2412.19437, section 2.2).
std::int64_t prediction_parameters_of(const Model& model, std::int64_t experts) {
  const std::int64_t h = model.hidden_size;
  return 2 * h * h + 3 * model.norm_parameters(h) +
         block_parameters(model, model.kind_of(static_cast<int>(model.blocks)), experts);
}

// All layers with so many experts in each block that has some, the tied matrix once.
std::int64_t parameters_with(const Model& model, std::int64_t experts) {
  std::int64_t sum = model.tied_head ? -model.vocabulary_size * model.hidden_size : 0;
  for (const int layer : {0, model.layers() - 1}) sum += model.layer_parameters(layer);
  const std::int64_t kinds = std::ssize(model.kinds);
  for (std::int64_t k = 0; k < std::min(kinds, model.blocks); ++k) {
    const std::int64_t count = (model.blocks - k + kinds - 1) / kinds;
    sum += count * block_parameters(model, model.kinds[static_cast<std::size_t>(k)], experts);
  }
  return sum;
}

}  // namespace

double BlockKind::pairs(std::int64_t length) const {
  const auto triangle = [](std::int64_t n) {
    return static_cast<double>(n) * static_cast<double>(n + 1) / 2;
  };
  if (chunk && *chunk < length) {
    return static_cast<double>(length / *chunk) * triangle(*chunk) + triangle(length % *chunk);
  }
  if (!window || *window >= length) return triangle(length);
  return triangle(*window) + static_cast<double>(length - *window) * static_cast<double>(*window);
}

void Model::shape_as(Architecture given) {
  architecture = given;
  const bool is_llama = given == Architecture::llama;
  is_gated = is_llama;
  positions = is_llama ? Positions::rotary : Positions::table;
  norm_kind = is_llama ? NormKind::rms : NormKind::layer;
  biases = {!is_llama, !is_llama, !is_llama, false, false};
  norms = 2;
  is_parallel = has_embedding_norm = has_inner_norms = has_sinks = has_attention_gate = false;
  qk_norm = QkNorm::none;
}

std::int64_t Model::norm_parameters(std::int64_t width) const {
  switch (norm_kind) {
    case NormKind::layer: return 2 * width;
    case NormKind::layer_unbiased:
    case NormKind::rms: return width;
    case NormKind::unscaled: break;
  }
  return 0;
}

std::int64_t Model::qk_norm_parameters(std::int64_t queries, std::int64_t keys) const {
  switch (qk_norm) {
    case QkNorm::heads: return 2 * head_size();
    case QkNorm::layer: return 4 * head_size();
    case QkNorm::whole: return queries + keys;
    case QkNorm::none:
    case QkNorm::unscaled: break;
  }
  return 0;
}

std::int64_t Model::blocks_with_experts() const {
  std::int64_t sum = 0;
  const std::int64_t count = std::ssize(kinds);
  for (std::int64_t k = 0; k < std::min(count, blocks); ++k) {
    if (kinds[static_cast<std::size_t>(k)].has_experts) sum += (blocks - k + count - 1) / count;
  }
  return sum;
}

std::string Model::layer_name(int layer) const {
  if (is_embedding(layer)) return "embedding";
  if (is_head(layer)) return "head";
  if (is_listed()) return list[static_cast<std::size_t>(layer)].name;
  if (is_prediction(layer)) return fmt::format("prediction {}", layer - 1 - blocks);
  return fmt::format("block {}", layer - 1);
}

std::int64_t Model::layer_parameters(int layer) const {
  if (is_listed()) return list[static_cast<std::size_t>(layer)].parameters;
  const std::int64_t words = vocabulary_size * hidden_size;
  if (is_embedding(layer)) {
    return words + (has_positions() ? (max_sequence_length + extra_positions) * hidden_size : 0) +
           (has_embedding_norm ? norm_parameters(hidden_size) : 0);
  }
  if (is_block(layer)) return block_parameters(*this, kind_of(layer), experts);
  if (is_prediction(layer)) return prediction_parameters_of(*this, experts);
  if (architecture == Architecture::mlp) return words;
  // A last norm.
  return words + norm_parameters(hidden_size) + (biases.head ? vocabulary_size : 0);
}

std::int64_t Model::parameters() const {
  if (!is_listed()) return parameters_with(*this, experts);
  std::int64_t sum = 0;
  for (const ListedLayer& layer : list) sum += layer.parameters;
  return sum;
}

std::int64_t Model::prediction_parameters() const {
  return prediction_depths > 0 ? prediction_depths * prediction_parameters_of(*this, experts) : 0;
}

std::int64_t Model::active_parameters() const {
  return is_listed() ? parameters() : parameters_with(*this, experts_per_token);
}

}  // namespace pipesim
