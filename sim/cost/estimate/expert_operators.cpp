// Operators of a block's experts: the router, the exchanges of tokens, grouped products, and the
// shared experts that every token goes through.
#include <algorithm>

#include "sim/cost/estimate/operators_builder.h"

namespace pipesim {

void OperatorsBuilder::experts() {
  within(&Recompute::experts, [&] { route(); });
  const std::size_t at = operators_.size();
  if (model_.shared_size > 0) within(&Recompute::shared, [&] { share(); });
  within(&Recompute::experts, [&] {
    dispatch();
    compute_experts();
    combine();
  });
  // The gradients of what comes back are sent first.
  for (std::size_t i = at; i < operators_.size(); ++i) {
    Operator& one = operators_[i];
    if (one.of != OperatorClass::expert_parallel) {
      one.phase = ExpertPhase::experts;
    } else {
      const bool is_dispatch = one.name.find("dispatch") != std::string::npos;
      one.phase = is_dispatch ? ExpertPhase::dispatch : ExpertPhase::combine;
    }
  }
  if (!rows_.is_spread) leave_split("mlp");
}

// In fp32: scores and logits, and which expert is chosen (Megatron-Core, moe_utils.py).
void OperatorsBuilder::route() {
  const std::int64_t tokens = rows_.tokens;
  Operator& router = products("router", 1, tokens, model_.experts, hidden_, split_input);
  router.parameters = weights(hidden_, model_.experts, model_.biases.router);
  router.is_entrance = true;
  const double scores = static_cast<double>(tokens * model_.experts);
  Operator& chosen = elementwise("choice of experts", Pass::forward, 9 * scores, 4);
  chosen.saved_bytes = 9 * scores + 4 * rows_.rows;
  chosen.is_optional = true;
  elementwise("choice of experts", Pass::backward_input, 12 * scores, 4).is_optional = true;
}

// A dense MLP beside the routed ones, split by tensor parallelism.
void OperatorsBuilder::share() {
  const std::int64_t width = model_.shared_size / split_;
  const std::int64_t up = model_.is_gated ? 2 * width : width;
  product("shared gate and up", up, hidden_, kept_input).parameters =
      weights(hidden_, up, model_.biases.mlp) +
      (model_.has_shared_gate ? static_cast<double>(hidden_) : 0);
  const double values = static_cast<double>(tokens_ * width);
  activation(model_.is_gated ? "shared silu" : "shared gelu", values);
  Operator& down = product("shared down", hidden_, width, split_input);
  down.parameters = weights(width, hidden_, model_.biases.mlp);
  down.saved_bytes = input_value_ * values;
  if (rows_.is_spread) leave_split("shared experts");
}

void OperatorsBuilder::dispatch() {
  exchange_copies("dispatch", Pass::forward, true);
  exchange_copies("gradients of combine", Pass::backward_input, true);
}

// An expert's rows at once. What a product reads is a copy that is kept once.
void OperatorsBuilder::compute_experts() {
  const std::int64_t width = model_.expert_size / training_.split_experts();
  const std::int64_t up = model_.is_gated ? 2 * width : width;
  const auto held = static_cast<double>(rows_.experts);
  permute();
  Operator& first = products(model_.is_gated ? "experts' gate and up" : "experts' up",
                             rows_.experts, rows_.rows_each, up, hidden_, copied_input);
  first.parameters = first.expert_parameters = held * weights(hidden_, up, model_.biases.mlp);
  const double values = rows_.rows * static_cast<double>(width);
  if (model_.is_gated) {
    first.part = &Recompute::products;
    first.part_share = 0.5;
    first.remade_bytes = value_ * values;
  }
  const std::size_t at = operators_.size();
  activation(model_.is_gated ? "experts' silu" : "experts' gelu", values);
  Operator& down =
      products("experts' down", rows_.experts, rows_.rows_each, hidden_, width, split_input);
  down.parameters = down.expert_parameters = held * weights(width, hidden_, model_.biases.mlp);
  down.saved_bytes = input_value_ * values;
  down.ends_block = true;
  operators_[at].part = &Recompute::activation;
  operators_[at].remade_bytes = input_value_ * values;
  end_with(values);
}

// Tokens are copied for their experts, and sorted by expert after the exchange: what is read and
// written both ways. Deduplicated ones arrive once, are copied at once in the order of experts,
// and go back summed.
void OperatorsBuilder::permute() {
  const double bytes = value_ * static_cast<double>(hidden_);
  const auto tokens = static_cast<double>(rows_.tokens);
  const bool arrives_once = training_.dispatch == Dispatch::deduplicated && rows_.is_spread;
  const double arrived =
      tokens * rows_.imbalance *
      distinct_groups(model_.experts, model_.experts_per_token, training_.expert_parallel);
  const double sorted = rows_.experts > 1 ? 4 * rows_.rows : 0;
  const double each_way = 2 * (tokens + rows_.copies) + sorted;
  const double moved =
      bytes * (arrives_once ? std::min(each_way, 2 * (arrived + rows_.rows)) : each_way);
  const int kernels = rows_.experts > 1 && !arrives_once ? 4 : 2;
  Operator& there = elementwise("permute", Pass::forward, moved, kernels);
  there.saved_bytes = input_value_ * static_cast<double>(hidden_) * rows_.rows;
  // Outputs are kept for the gradients of weights that multiply them.
  if (software_.weighs_outputs) there.saved_bytes += bytes * rows_.rows;
  there.is_optional = true;
  elementwise("permute", Pass::backward_input, moved, kernels).is_optional = true;
}

void OperatorsBuilder::combine() {
  exchange_copies("combine", Pass::forward, false);
  exchange_copies("gradients of dispatch", Pass::backward_input, false);
}

// Rows go through the experts' ranks and, with split experts, to all ranks of one; on the way back
// those sum them.
void OperatorsBuilder::exchange_copies(const std::string& name, Pass pass,
                                       bool is_towards_experts) {
  if (!rows_.is_spread) return;
  const double row = value_ * static_cast<double>(hidden_);
  if (training_.dispatch == Dispatch::all_gather) {
    const double of_group = row * static_cast<double>(rows_.tokens) * training_.expert_parallel;
    const double of_all = of_group * training_.split_experts();
    if (is_towards_experts) {
      exchange(name, CollectiveKind::all_gather, Across::experts, pass, of_group);
      exchange(name + " to parts", CollectiveKind::all_gather, Across::expert_parts, pass, of_all);
    } else {
      exchange(name + " of parts", CollectiveKind::reduce_scatter, Across::expert_parts, pass,
               of_all);
      exchange(name, CollectiveKind::reduce_scatter, Across::experts, pass, of_group);
    }
    return;
  }
  const double copies = row * rows_.copies * rows_.imbalance;
  const auto all_to_all = [&] {
    Operator* one = exchange(name, CollectiveKind::all_to_all, Across::experts, pass, copies);
    if (one == nullptr) return;
    one->is_deduplicated = training_.dispatch == Dispatch::deduplicated;
    // A weight in fp32 travels with each copy, and its gradient.
    if (is_towards_experts) one->bytes += 4 * rows_.copies;
  };
  const double whole = copies * training_.split_experts();
  if (is_towards_experts) {
    all_to_all();
    exchange(name + " to parts", CollectiveKind::all_gather, Across::expert_parts, pass, whole);
  } else {
    exchange(name + " of parts", CollectiveKind::reduce_scatter, Across::expert_parts, pass, whole);
    all_to_all();
  }
}

}  // namespace pipesim
