#include "sim/cost/model_flops.h"

namespace pipesim {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

// Weights of the products that a token goes through.
double attention_weights(const Model& model) {
  const double h = number(model.hidden_size);
  const double output = (model.has_attention_gate ? 2 : 1) * h * number(model.output_size());
  if (!model.latent) return output + h * number(model.attention_size() + 2 * model.kv_size());
  const LatentAttention& latent = *model.latent;
  const double queries = latent.query_rank > 0
                             ? number(latent.query_rank) * (h + number(model.attention_size()))
                             : h * number(model.attention_size());
  return output + queries + h * number(latent.kv_rank + latent.rotary_size) +
         number(latent.kv_rank * model.heads * (latent.plain_size + latent.value_size));
}

double mlp_weights(const Model& model, const BlockKind& kind, double routed) {
  const double h = number(model.hidden_size);
  const double matrices = model.is_gated ? 3 : 2;
  if (!kind.has_experts) return matrices * h * number(model.mlp_size);
  const double gate = model.has_shared_gate ? h : 0;
  return h * number(model.experts) + gate +
         matrices * h *
             (routed * number(model.experts_per_token * model.expert_size) +
              number(model.shared_size));
}

}  // namespace

double core_flops(const Model& model, const BlockKind& kind, std::int64_t length) {
  if (!model.is_decoder()) return 0;
  const double seen = 2 * kind.pairs(length) - number(length);
  return 2 * seen * number(model.attention_size() + model.output_size());
}

double layer_flops(const Model& model, int layer, std::int64_t length, double routed) {
  const double s = number(length);
  const double h = number(model.hidden_size);
  const double logits = 2 * s * h * number(model.vocabulary_size);
  if (model.is_embedding(layer)) return 0;
  if (model.is_head(layer)) return logits;
  if (model.architecture == Architecture::mlp) return 2 * s * h * h;
  const BlockKind& kind = model.kind_of(layer);
  const double block = 2 * s * (attention_weights(model) + mlp_weights(model, kind, routed)) +
                       core_flops(model, kind, length);
  return model.is_prediction(layer) ? block + 4 * s * h * h + logits : block;
}

}  // namespace pipesim
