// Layers and their parameters.
#include "sim/cost/model.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

// Of a block that has so many of its experts.
std::int64_t block_parameters(const Model& model, std::int64_t experts) {
  const std::int64_t h = model.hidden_size;
  if (model.architecture == Architecture::mlp) return h * h + h;
  const bool is_gpt = model.architecture == Architecture::gpt;  // has biases, and its norms shifts
  const std::int64_t h_kv = model.kv_heads * model.head_size();
  const std::int64_t norms = (is_gpt ? 4 : 2) * h;
  const std::int64_t attention = 2 * h * h + 2 * h * h_kv + (is_gpt ? 2 * h + 2 * h_kv : 0);
  const std::int64_t mlp =
      (model.is_gated() ? 3 : 2) * h * model.mlp_size + (is_gpt ? model.mlp_size + h : 0);
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
  const bool is_llama = architecture == Architecture::llama;
  if (is_embedding(layer)) return words + (is_llama ? 0 : max_sequence_length * hidden_size);
  if (!is_head(layer)) return block_parameters(*this, experts);
  if (architecture == Architecture::mlp) return words;
  return words + (is_llama ? 1 : 2) * hidden_size;  // a last norm
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
