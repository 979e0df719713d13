// Attention's operators: projections, plain and latent; exchanges of context-parallel ranks; the
// core, of which a token's window or chunk is the part it sees.
#include <algorithm>

#include "sim/cost/estimate/operators_builder.h"

namespace pipesim {

void OperatorsBuilder::project() {
  const std::int64_t kv = split_kv_heads() * model_.head_size();
  const std::int64_t qkv = heads_ / split_ + 2 * kv;
  Operator& forward = product("qkv", qkv, hidden_, hides_reduction);
  forward.parameters = weights(hidden_, qkv, model_.biases.qkv);
  if (model_.has_sinks) forward.parameters += static_cast<double>(split_heads());
  forward.saved_bytes += value_ * static_cast<double>(tokens_ * qkv);
  forward.part = &Recompute::products;
  forward.part_share = static_cast<double>(kv) / static_cast<double>(qkv);
  forward.remade_bytes = value_ * static_cast<double>(tokens_ * kv);
  gather_input("qkv", gathered_value());
  if (model_.qk_norm != QkNorm::none) norm_heads();
  if (model_.positions == Positions::rotary) rotate(heads_ / split_ + kv);
}

// Down-projections are whole on each tensor-parallel rank, of its own tokens; what is gathered
// is the latent (Megatron-Core, multi_latent_attention.py).
void OperatorsBuilder::project_latent(const LatentAttention& latent) {
  const std::int64_t parts = training_.sequence_parallel ? split_ : 1;
  const std::int64_t own = tokens_ / parts;
  const std::int64_t heads = split_heads();
  const std::int64_t query = heads * model_.head_size();
  const std::int64_t made = heads * (latent.plain_size + latent.value_size);
  const std::int64_t narrow = latent.query_rank + latent.kv_rank;
  const std::int64_t kv = latent.kv_rank + latent.rotary_size;
  // The first of them keeps the norm's output, which all read.
  if (latent.query_rank > 0) {
    products("query latent", 1, own, latent.query_rank, hidden_, split_input).parameters =
        weights(hidden_, latent.query_rank, false);
  } else {
    product("queries", query, hidden_).parameters = weights(hidden_, query, false);
  }
  products("kv latent", 1, own, kv, hidden_, kept_input).parameters = weights(hidden_, kv, false);

  const double values = static_cast<double>(own * narrow);
  Operator& norms = elementwise("latent norms", Pass::forward, 2 * value_ * values, 2);
  norms.saved_bytes = value_ * values + value_ * static_cast<double>(own * latent.rotary_size);
  norms.parameters = static_cast<double>(model_.norm_parameters(narrow));
  norms.is_optional = true;
  elementwise("latent norms", Pass::backward_input, 3 * value_ * values, 2).is_optional = true;
  elementwise("latent norms", Pass::backward_weight, 2 * value_ * values, 2).is_optional = true;
  if (training_.sequence_parallel) {
    const double gathered = value_ * static_cast<double>(tokens_ * (narrow + latent.rotary_size));
    collective("latent", CollectiveKind::all_gather, Pass::forward, gathered);
    collective("latent", CollectiveKind::reduce_scatter, Pass::backward_input, gathered);
  }

  // What the up-projections make is kept, unless it is made again.
  const auto keep_made = [&](Operator& one, std::int64_t width) {
    const double bytes = value_ * static_cast<double>(tokens_ * width);
    one.saved_bytes += bytes;
    one.remade_bytes = bytes;
    one.is_optional = true;
    one.part = &Recompute::latent;
  };
  if (latent.query_rank > 0) {
    Operator& up = product("queries", query, latent.query_rank);
    up.parameters = weights(latent.query_rank, query, false);
    keep_made(up, query);
  } else {
    const double bytes = value_ * static_cast<double>(tokens_ * query);
    Operator& kept = elementwise("queries kept", Pass::forward, 0, 0);
    kept.saved_bytes = bytes;
    kept.is_optional = true;
  }
  Operator& up = product("keys and values", made, latent.kv_rank);
  up.parameters = weights(latent.kv_rank, made, false);
  keep_made(up, made + heads * latent.rotary_size);
  if (model_.positions == Positions::rotary) {
    const std::size_t at = operators_.size();
    rotate(heads * latent.rotary_size + latent.rotary_size);
    operators_[at].part = &Recompute::latent;
  }
}

// Queries and keys before the norm are kept, too.
void OperatorsBuilder::norm_heads() {
  const std::int64_t kv = split_kv_heads() * model_.head_size();
  const double values = static_cast<double>(tokens_ * (heads_ / split_ + kv));
  Operator& forward = elementwise("head norms", Pass::forward, 2 * value_ * values, 2);
  forward.saved_bytes = value_ * values;
  forward.parameters = static_cast<double>(model_.qk_norm_parameters(heads_ / split_, kv));
  forward.is_optional = true;
  elementwise("head norms", Pass::backward_input, 3 * value_ * values, 2).is_optional = true;
  elementwise("head norms", Pass::backward_weight, 2 * value_ * values, 2).is_optional = true;
}

void OperatorsBuilder::rotate(std::int64_t width) {
  const double values = static_cast<double>(tokens_ * width);
  elementwise("rotary", Pass::forward, 2 * value_ * values, 1);
  elementwise("rotary", Pass::backward_input, 2 * value_ * values, 1);
}

// Keys and values of latent attention travel as they are made, for all heads (Transformer Engine,
// context_parallel.py).
void OperatorsBuilder::exchange_context() {
  const auto tokens = static_cast<double>(tokens_);
  const auto width_of = [&](std::int64_t heads, std::int64_t size) {
    return static_cast<double>(heads * size);
  };
  const std::int64_t kv_heads = model_.latent ? split_heads() : split_kv_heads();
  const double kv = width_of(kv_heads, model_.head_size() + model_.value_size());
  const double ranks = training_.context_parallel;
  switch (training_.context_exchange) {
    case ContextExchange::ring:
      // Keys and values go around; in the backward once more, and their gradients.
      for (const Pass pass : {Pass::forward, Pass::backward_input}) {
        const double times = pass == Pass::forward ? 1 : 2;
        Operator* one = exchange("keys and values", CollectiveKind::ring, Across::context, pass,
                                 times * value_ * tokens * kv * ranks);
        if (one == nullptr) return;
        one->hides_behind_attention = true;
      }
      operators_.back().workspace_bytes = value_ * tokens * kv * (ranks - 1);
      return;
    case ContextExchange::gather: {
      const double bytes = value_ * tokens * kv * ranks;
      if (exchange("keys and values", CollectiveKind::all_gather, Across::context, Pass::forward,
                   bytes) == nullptr) {
        return;
      }
      exchange("keys and values again", CollectiveKind::all_gather, Across::context,
               Pass::backward_input, bytes);
      exchange("their gradients", CollectiveKind::reduce_scatter, Across::context,
               Pass::backward_input, bytes)
          ->workspace_bytes = bytes;
      return;
    }
    case ContextExchange::all_to_all: {
      const double queries = width_of(split_heads(), model_.head_size() + model_.value_size());
      const double bytes = value_ * tokens * (queries + kv);
      exchange("heads", CollectiveKind::all_to_all, Across::context, Pass::forward, bytes);
      exchange("heads", CollectiveKind::all_to_all, Across::context, Pass::backward_input, bytes);
      return;
    }
  }
}

void OperatorsBuilder::gate_attention() {
  const std::int64_t made = model_.output_size() / split_;
  const double values = static_cast<double>(tokens_ * made);
  product("attention gate", made, hidden_, kept_input).parameters = weights(hidden_, made, false);
  Operator& gated = elementwise("attention gate", Pass::forward, 3 * value_ * values, 1);
  gated.saved_bytes = value_ * values;
  gated.is_optional = true;
  elementwise("attention gate", Pass::backward_input, 5 * value_ * values, 1).is_optional = true;
}

double OperatorsBuilder::pairs() const {
  const std::int64_t length = training_.sequence_length;
  const double sequences = static_cast<double>(training_.micro_batch_size);
  const bool sees_all =
      (!kind_.window || *kind_.window >= length) && (!kind_.chunk || *kind_.chunk >= length);
  const double ranks = training_.context_parallel;
  const auto square = static_cast<double>(length) * static_cast<double>(length);
  if (sees_all) return sequences * square / 2 / ranks;
  if (training_.context_parallel == 1 ||
      training_.context_exchange == ContextExchange::all_to_all) {
    return sequences * kind_.pairs(length) / ranks;
  }
  return sequences * most_pairs_of_rank(kind_, length, training_.context_parallel);
}

void OperatorsBuilder::attend() {
  const std::size_t at = operators_.size();
  exchange_context();
  if (training_.attention == Attention::fused) {
    attend_fused();
  } else {
    attend_unfused();
  }
  for (std::size_t i = at; i < operators_.size(); ++i) {
    if (operators_[i].pass == Pass::forward) operators_[i].part = &Recompute::attention;
  }
}

// Causal: the half that no token sees is skipped. The backward computes the scores again.
void OperatorsBuilder::attend_fused() {
  const double queries = static_cast<double>(tokens_ * split_heads() * model_.head_size());
  const double made = static_cast<double>(tokens_ * split_heads() * model_.value_size());
  const std::int64_t kv_heads = model_.latent ? split_heads() : split_kv_heads();
  const double kv_values =
      static_cast<double>(tokens_ * kv_heads * (model_.head_size() + model_.value_size()));
  const double bytes = value_ * (queries + made + kv_values);
  const double of_pair = pairs() * static_cast<double>(split_heads());
  const auto keys = static_cast<double>(model_.head_size());
  const auto values = static_cast<double>(model_.value_size());
  Operator& fused = memory("fused attention", OperatorClass::attention, Pass::forward, bytes, 1);
  fused.flops = 2 * of_pair * (keys + values);
  // The logarithm of each row's sum; the result is kept as the input of the output projection.
  fused.saved_bytes = fused.remade_bytes = 4 * static_cast<double>(tokens_ * split_heads());
  // Scores and their gradients' products with keys, queries: 3; with values: 2.
  memory("fused attention", OperatorClass::attention, Pass::backward_input, 2 * bytes, 1).flops =
      2 * of_pair * (3 * keys + 2 * values);
}

// Whatever tokens see, all pairs go through memory.
void OperatorsBuilder::attend_unfused() {
  const std::int64_t length = training_.sequence_length;
  const std::int64_t matrices = split_heads() * training_.micro_batch_size;
  const double scores = static_cast<double>(matrices * length * length);
  const double values = static_cast<double>(tokens_ * split_heads() * model_.value_size());
  const auto keep = [&](Operator& one, double bytes) {
    one.saved_bytes = one.remade_bytes = bytes;
    one.is_score_traffic = true;
  };
  const auto add_product = [&](const char* name, Pass pass, const MatrixProduct& shape) {
    Operator& one = append(name, OperatorClass::attention, pass);
    one.product = shape;
    one.flops = shape.flops();
  };
  const auto add_memory = [&](const char* name, Pass pass, double bytes, int kernels) -> Operator& {
    return memory(name, OperatorClass::attention, pass, bytes, kernels);
  };
  const MatrixProduct towards_scores{matrices, length, length, model_.head_size()};
  const MatrixProduct towards_queries{matrices, length, model_.head_size(), length};
  const MatrixProduct towards_values{matrices, length, model_.value_size(), length};
  const MatrixProduct from_values{matrices, length, length, model_.value_size()};

  add_product("scores", Pass::forward, towards_scores);
  keep(add_memory("softmax", Pass::forward, 2 * value_ * scores, 1), value_ * scores);
  if (drops_) {
    keep(add_memory("dropout", Pass::forward, (2 * value_ + 1) * scores, 1), (value_ + 1) * scores);
  }
  add_product("context", Pass::forward, towards_values);
  add_memory("layout", Pass::forward, 4 * value_ * values, 2);

  add_product("scores", Pass::backward_input, towards_queries);
  add_product("values", Pass::backward_input, towards_values);
  add_product("queries", Pass::backward_input, towards_queries);
  add_product("keys", Pass::backward_input, from_values);
  if (drops_) {
    add_memory("dropout", Pass::backward_input, (2 * value_ + 1) * scores, 1).is_score_traffic =
        true;
  }
  add_memory("softmax", Pass::backward_input, 3 * value_ * scores, 1).is_score_traffic = true;
  add_memory("layout", Pass::backward_input, 8 * value_ * values, 4);
}

}  // namespace pipesim
