// Layers and their parameters.
#include "sim/cost/model.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

// Of a block with so many of its experts.
std::int64_t block_parameters(const Model& model, std::int64_t experts) {
  const std::int64_t h = model.hidden_size;
  if (model.architecture == Architecture::mlp) return h * h + h;
  const bool has_biases = model.has_biases();
  const std::int64_t heads = model.attention_size();
  const std::int64_t qkv = heads + 2 * model.kv_size();
  const std::int64_t norms = (has_biases ? 4 : 2) * h + (model.qk_norm ? 2 * model.head_size() : 0);
  const std::int64_t attention =
      h * qkv + heads * h + (has_biases || model.qkv_bias ? qkv : 0) + (has_biases ? h : 0);
  const std::int64_t mlp =
      (model.is_gated() ? 3 : 2) * h * model.mlp_size + (has_biases ? model.mlp_size + h : 0);
  const std::int64_t router = model.experts > 1 ? h * model.experts : 0;
  return norms + attention + router + experts * mlp;
}

}  // namespace

std::string Model::layer_name(int layer) const {
  if (is_embedding(layer)) return "embedding";
  if (is_head(layer)) return "head";
  if (is_listed()) return list[static_cast<std::size_t>(layer)].name;
  return fmt::format("block {}", layer - 1);
}

std::int64_t Model::layer_parameters(int layer) const {
  if (is_listed()) return list[static_cast<std::size_t>(layer)].parameters;
  const std::int64_t words = vocabulary_size * hidden_size;
  if (is_embedding(layer)) return words + (has_positions() ? max_sequence_length * hidden_size : 0);
  if (!is_head(layer)) return block_parameters(*this, experts);
  if (architecture == Architecture::mlp) return words;
  return words + (has_biases() ? 2 : 1) * hidden_size;  // a last norm
}

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  if (is_listed()) {
    for (const ListedLayer& layer : list) sum += layer.parameters;
    return sum;
  }
  if (tied_head) sum -= vocabulary_size * hidden_size;
  for (const int layer : {0, layers() - 1}) sum += layer_parameters(layer);
  return sum + blocks * layer_parameters(1);
}

std::int64_t Model::active_parameters() const {
  if (is_listed()) return parameters();
  const std::int64_t idle =
      block_parameters(*this, experts) - block_parameters(*this, experts_per_token);
  return parameters() - blocks * idle;
}

}  // namespace pipesim
