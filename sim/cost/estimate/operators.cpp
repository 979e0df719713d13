#include "sim/cost/estimate/operators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "sim/cost/estimate/operators_builder.h"
#include "sim/cost/estimate/rounding.h"

namespace pipesim {

OperatorsBuilder::OperatorsBuilder(const Model& model, const Training& training,
                                   const SoftwareSpec& software, const BlockKind& kind)
    : model_(model),
      training_(training),
      software_(software),
      kind_(kind),
      split_(training.tensor_parallel),
      tokens_(training.tokens_per_rank()),
      hidden_(model.hidden_size),
      heads_(model.attention_size()),
      value_(static_cast<double>(bytes_of(training.precision))),
      whole_(static_cast<double>(tokens_ * hidden_) /
             (training.sequence_parallel ? static_cast<double>(split_) : 1.0)),
      input_value_(training.precision == Precision::fp8 ? 1 + 4.0 / 128 : value_),
      drops_(model.dropout_ppm > 0) {
  if (kind.has_experts) rows_ = expert_rows(model, training);
}

std::vector<Operator> OperatorsBuilder::listed(const ListedLayer& layer) {
  const auto sequences = static_cast<double>(training_.micro_batch_size);
  const auto add = [&](std::string name, Pass pass, double flops, double bytes,
                       std::optional<std::int64_t> time_ns) -> Operator& {
    Operator& one = append(std::move(name), OperatorClass::listed, pass);
    one.flops = flops * sequences;
    one.bytes = bytes * sequences;
    if (time_ns) one.time_ns = to_ns(static_cast<double>(*time_ns) * 1e-9 * sequences);
    return one;
  };
  Operator& forward =
      add("forward", Pass::forward, layer.forward_flops, layer.forward_bytes, layer.forward_ns);
  forward.saved_bytes = static_cast<double>(layer.saved_bytes) * sequences;
  forward.parameters = static_cast<double>(layer.parameters);
  // Half of the backward for each gradient, as for costs that give one time.
  for (const auto& [name, pass] : {std::pair("input gradient", Pass::backward_input),
                                   std::pair("weight gradient", Pass::backward_weight)}) {
    std::optional<std::int64_t> half;
    if (layer.backward_ns) {
      half = *layer.backward_ns / 2;
      if (pass == Pass::backward_weight) half = *layer.backward_ns - *half;
    }
    add(name, pass, layer.backward_flops / 2, layer.backward_bytes / 2, half);
  }
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::embedding() {
  const double values = static_cast<double>(tokens_ * hidden_);
  Operator& lookup =
      memory("lookup", OperatorClass::embedding, Pass::forward, 2 * value_ * values, 1);
  lookup.parameters = static_cast<double>(divide_up(model_.vocabulary_size, split_) * hidden_);
  reduce("sum over ranks", Pass::forward, false, value_);
  if (model_.has_positions()) {
    memory("positions", OperatorClass::embedding, Pass::forward, value_ * values, 1).parameters =
        static_cast<double>((model_.max_sequence_length + model_.extra_positions) * hidden_);
  }
  if (model_.has_embedding_norm) norm("embedding norm");
  if (drops_) {
    memory("dropout", OperatorClass::embedding, Pass::forward, (2 * value_ + 1) * values, 1)
        .saved_bytes = whole_;
    memory("dropout", OperatorClass::embedding, Pass::backward_input, (2 * value_ + 1) * values, 1);
  }
  memory("table", OperatorClass::embedding, Pass::backward_weight, 3 * value_ * values, 1);
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::head() {
  const std::int64_t vocabulary = divide_up(model_.vocabulary_size, split_);
  const double logits = static_cast<double>(tokens_ * vocabulary);
  if (model_.architecture != Architecture::mlp) norm("final norm");
  product("logits", vocabulary, hidden_).parameters =
      weights(hidden_, vocabulary, model_.biases.head);
  for (Operator& one : operators_) {
    if (one.product) one.product->is_padded = true;
  }
  gather_input("logits", value_);
  // The cross entropy in fp32: maxima, the target's logit, sums of exponentials.
  // Fused, it reads logits of 16 bits twice, and leaves gradients in their place, which the
  // backward scales (transformer_engine/pytorch/triton/cross_entropy.py).
  const bool is_fused = training_.fused_loss;
  const double bytes = (is_fused ? fused_loss_bytes : 20) * logits;
  Operator& loss =
      memory("cross entropy", OperatorClass::loss, Pass::forward, bytes, is_fused ? 1 : 6);
  const std::int64_t of_logit =
      software_.logit_bytes + (split_ > 1 ? software_.split_logit_bytes : 0);
  loss.saved_bytes = static_cast<double>(of_logit) * logits;
  for (const char* name : {"maxima", "targets", "sums"}) {
    collective(name, CollectiveKind::all_reduce, Pass::forward, 4 * static_cast<double>(tokens_));
  }
  Operator& gradient =
      memory("cross entropy", OperatorClass::loss, Pass::backward_input, bytes, is_fused ? 1 : 5);
  gradient.workspace_bytes = static_cast<double>(bytes_of(training_.precision)) * logits;
  reduce("logits' input", Pass::backward_input, false, value_);
  for (Operator& one : operators_) one.is_of_head = true;
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::prediction_entry() {
  norm("embedding norm");
  norm("hidden norm");
  product("both joined", hidden_, 2 * hidden_).parameters = weights(2 * hidden_, hidden_, false);
  gather_input("both joined", gathered_value());
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::prediction_head() {
  std::vector<Operator> all = head();
  for (Operator& one : all) {
    if (one.product) one.parameters = 0;
  }
  return all;
}

std::vector<Operator> OperatorsBuilder::linear_block() {
  product("linear", hidden_, hidden_).parameters = static_cast<double>(hidden_ * hidden_ + hidden_);
  activation("gelu", static_cast<double>(tokens_ * hidden_));
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::decoder_block() {
  norm("attention norm");
  if (model_.is_parallel && model_.norms > 1) norm("mlp norm");
  if (model_.latent) {
    project_latent(*model_.latent);
  } else {
    project();
  }
  attend();
  if (model_.has_attention_gate) gate_attention();
  const std::int64_t made = model_.output_size() / split_;
  if (model_.has_inner_norms) {
    inner_norm("attention inner norm", made, static_cast<double>(tokens_ * made));
  }
  Operator& result = product("attention output", hidden_, made, split_input);
  result.parameters = weights(made, hidden_, model_.biases.attention_output);
  result.part = &Recompute::products;
  // Both parts of a parallel block are summed together.
  if (!model_.is_parallel) {
    leave_split("attention");
    if (model_.norms == 4) norm("attention output norm");
    add_back("attention", model_.biases.attention_output);
    norm("mlp norm");
  }
  if (kind_.has_experts) {
    experts();
  } else {
    within(&Recompute::mlp, [&] { mlp("mlp", model_.mlp_size); });
    leave_split("mlp");
  }
  if (model_.norms == 4) norm("mlp output norm");
  add_back("mlp", model_.biases.mlp);
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::listed_kernels(std::vector<Operator> counted,
                                                       bool is_head) {
  const KernelList& list = *software_.kernels;
  operators_ = std::move(counted);
  double weights = 0;
  const bool says_kept = list.says_kept();
  for (Operator& one : operators_) {
    if (says_kept && !one.is_optional) {
      one.saved_bytes = one.remade_bytes = 0;
      if (one.of == OperatorClass::loss) one.workspace_bytes = 0;
    }
    if (one.product && one.of == OperatorClass::matmul) {
      one.product->accumulates = one.product->accumulates && list.sums_in_products;
      if (one.pass == Pass::forward) {
        weights +=
            static_cast<double>(one.product->batch * one.product->columns * one.product->inner);
      }
    } else if (!one.is_optional &&
               (one.of == OperatorClass::elementwise || one.of == OperatorClass::loss)) {
      one.bytes = 0;
      one.kernels = 0;
    }
  }
  if (list.splits_products && model_.is_gated) split_products();
  const auto tokens = static_cast<double>(tokens_);
  const auto of_rank = [&](std::int64_t width) {
    return tokens * static_cast<double>(width) / static_cast<double>(split_);
  };
  const KernelBytes sizes{whole_,
                          of_rank(heads_),
                          of_rank(model_.kv_size()),
                          mlp_values_,
                          of_rank(model_.vocabulary_size),
                          weights};
  bool has_loss[pass_count] = {};
  for (const KernelLine& line : is_head ? list.head : list.block) {
    if (line.only && *line.only != model_.architecture) continue;
    if (line.is_of_fp8 && training_.precision != Precision::fp8) continue;
    const auto bytes_of_all = [&](const KernelBytes& each) {
      return std::inner_product(each.begin(), each.end(), sizes.begin(), 0.0);
    };
    const bool is_loss = line.bytes[static_cast<std::size_t>(KernelSize::logits)] > 0;
    const bool is_fused = is_loss && training_.fused_loss;
    if (is_fused && std::exchange(has_loss[static_cast<std::size_t>(line.pass)], true)) continue;
    const double bytes =
        is_fused ? fused_loss_bytes * of_rank(model_.vocabulary_size) : bytes_of_all(line.bytes);
    Operator& one = memory(line.name, is_loss ? OperatorClass::loss : OperatorClass::elementwise,
                           static_cast<Pass>(line.pass), bytes, is_fused ? 1 : line.launches);
    one.saved_bytes = bytes_of_all(line.kept);
    one.workspace_bytes = bytes_of_all(line.workspace);
    one.traffic = line.traffic;
    one.ends_block = line.ends_block;
    if (line.part == KernelPart::none) continue;
    one.part = line.part == KernelPart::norms ? &Recompute::norms : &Recompute::activation;
    one.remade_bytes = one.saved_bytes;
  }
  return std::exchange(operators_, {});
}

std::vector<Operator> OperatorsBuilder::with_separate_sums(std::vector<Operator> fused) {
  operators_ = std::move(fused);
  double weights = 0;
  int products = 0;
  for (Operator& one : operators_) {
    if (!one.product || !std::exchange(one.product->accumulates, false)) continue;
    weights += static_cast<double>(one.product->batch * one.product->rows * one.product->columns);
    ++products;
  }
  const double bytes = value_ + 2 * static_cast<double>(training_.gradient_bytes);
  if (products > 0) {
    elementwise("gradients added", Pass::backward_weight, bytes * weights, products);
  }
  return std::exchange(operators_, {});
}

// Queries, keys and values, gates and ups are products of their own.
void OperatorsBuilder::split_products() {
  const std::size_t count = operators_.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> widths;
    if (operators_[i].name == "qkv") {
      const std::int64_t kv = split_kv_heads() * model_.head_size();
      widths = {heads_ / split_, kv, kv};
    } else if (operators_[i].name == "gate and up") {
      const std::int64_t both = operators_[i].pass == Pass::forward ? operators_[i].product->columns
                                : operators_[i].pass == Pass::backward_input
                                    ? operators_[i].product->inner
                                    : operators_[i].product->rows;
      widths = {both / 2, both / 2};
    }
    if (widths.empty() || !operators_[i].product) continue;
    const auto narrow = [&](MatrixProduct product, std::int64_t width) {
      (operators_[i].pass == Pass::forward          ? product.columns
       : operators_[i].pass == Pass::backward_input ? product.inner
                                                    : product.rows) = width;
      return product;
    };
    const MatrixProduct whole = *operators_[i].product;
    operators_[i].product = narrow(whole, widths.front());
    operators_[i].flops = operators_[i].product->flops();
    for (std::size_t part = 1; part < widths.size(); ++part) {
      const MatrixProduct product = narrow(whole, widths[part]);
      Operator& one = append(operators_[i].name, OperatorClass::matmul, operators_[i].pass);
      one.product = product;
      one.flops = product.flops();
    }
  }
}

Operator& OperatorsBuilder::append(std::string name, OperatorClass of, Pass pass) {
  Operator& one = operators_.emplace_back();
  one.name = std::move(name);
  one.of = of;
  one.pass = pass;
  return one;
}

Operator& OperatorsBuilder::memory(std::string name, OperatorClass of, Pass pass, double bytes,
                                   int kernels) {
  Operator& one = append(std::move(name), of, pass);
  one.bytes = bytes;
  one.kernels = kernels;
  return one;
}

Operator& OperatorsBuilder::products(const std::string& name, std::int64_t batch, std::int64_t rows,
                                     std::int64_t columns, std::int64_t inner, Options options) {
  const auto add = [&](Pass pass, const MatrixProduct& shape) -> Operator& {
    Operator& one = append(name, OperatorClass::matmul, pass);
    one.product = shape;
    one.flops = shape.flops();
    return one;
  };
  const std::size_t at = operators_.size();
  add(Pass::forward, {batch, rows, columns, inner});
  add(Pass::backward_input, {batch, rows, inner, columns});
  Operator& weight = add(Pass::backward_weight, {batch, columns, inner, rows, true});
  weight.hides_reduction = (options & hides_reduction) != 0;
  const bool whole = (options & split_input) == 0;
  const bool is_copied = (options & copied_input) != 0;
  const double parts = training_.sequence_parallel ? static_cast<double>(split_) : 1;
  const double inputs =
      static_cast<double>(batch * rows * inner) / (whole && !is_copied ? parts : 1);
  // Gradients of outputs are gathered for those of inputs, and stay gathered.
  const auto outputs = static_cast<double>(batch * rows * columns);
  weight.residue_bytes = value_ * (inputs + outputs);
  const bool stays = software_.keeps_gathered && whole && !is_copied;
  const bool is_kept = (options & (kept_input | copied_input)) != 0;
  operators_[at].saved_bytes = is_kept ? 0 : value_ * inputs * (stays ? parts : 1);
  return operators_[at];
}

// ---- Communication

Operator* OperatorsBuilder::exchange(std::string name, CollectiveKind kind, Across across,
                                     Pass pass, double bytes) {
  const std::int64_t ranks = across == Across::tensor    ? split_
                             : across == Across::context ? training_.context_parallel
                             : across == Across::experts ? training_.expert_parallel
                                                         : training_.split_experts();
  if (ranks == 1) return nullptr;
  const OperatorClass of = across == Across::tensor    ? OperatorClass::tensor_parallel
                           : across == Across::context ? OperatorClass::context_parallel
                                                       : OperatorClass::expert_parallel;
  Operator& one = append(std::move(name), of, pass);
  one.collective = kind;
  one.across = across;
  one.bytes = bytes;
  return &one;
}

double OperatorsBuilder::gathered_value() const {
  return software_.gathers_fp8 && training_.precision == Precision::fp8 ? 1 : value_;
}

void OperatorsBuilder::reduce(const std::string& name, Pass pass, bool is_hidden, double gathered) {
  const auto values = static_cast<double>(tokens_ * hidden_);
  const auto add = [&](CollectiveKind kind, double value) {
    if (Operator* one = collective(name, kind, pass, value * values)) one->is_hidden = is_hidden;
  };
  if (!training_.sequence_parallel) {
    add(CollectiveKind::all_reduce, value_);
    return;
  }
  add(CollectiveKind::all_gather, gathered);
  add(CollectiveKind::reduce_scatter, value_);
}

void OperatorsBuilder::leave_split(const std::string& name) {
  reduce(name + " sum", Pass::forward, false, gathered_value());
  reduce(name + " input", Pass::backward_input, true, gathered_value());
}

void OperatorsBuilder::gather_input(const std::string& name, double value) {
  if (!training_.sequence_parallel || split_ == 1 || !software_.gathers_again) return;
  if (Operator* again =
          collective(name + " input again", CollectiveKind::all_gather, Pass::backward_weight,
                     value * static_cast<double>(tokens_ * hidden_))) {
    again->is_hidden = true;
  }
}

// ---- MLP

void OperatorsBuilder::mlp(const std::string& name, std::int64_t size) {
  const std::int64_t width = size / split_;
  const std::int64_t up = model_.is_gated ? 2 * width : width;
  Operator& first = product(model_.is_gated ? "gate and up" : "up", up, hidden_,
                            model_.is_parallel && model_.norms == 1 ? kept_input : hides_reduction);
  first.parameters = weights(hidden_, up, model_.biases.mlp);
  first.is_entrance = true;
  if (model_.is_gated) {
    first.part = &Recompute::products;
    first.part_share = 0.5;
    first.remade_bytes = value_ * static_cast<double>(tokens_ * width);
  }
  gather_input(name, gathered_value());
  const double values = static_cast<double>(tokens_ * width);
  const std::size_t at = operators_.size();
  activation(model_.is_gated ? "silu" : "gelu", values);
  if (model_.has_inner_norms) inner_norm("mlp inner norm", width, values);
  Operator& down = product("down", hidden_, width, split_input);
  down.parameters = weights(width, hidden_, model_.biases.mlp);
  down.ends_block = true;
  operators_[at].part = &Recompute::activation;
  operators_[at].remade_bytes = down.saved_bytes;
  end_with(values);
}

void OperatorsBuilder::end_with(double values) {
  const auto gathered = static_cast<double>(training_.sequence_parallel ? tokens_ * hidden_ : 0);
  operators_.back().workspace_bytes = value_ * (whole_ + gathered + values);
}

void OperatorsBuilder::activation(const std::string& name, double values) {
  mlp_values_ += values;
  const double inputs = model_.is_gated ? 2 : 1;
  elementwise(name, Pass::forward, (inputs + 1) * value_ * values, 1).saved_bytes =
      inputs * value_ * values;
  elementwise(name, Pass::backward_input, (2 * inputs + 1) * value_ * values, 1);
  if (!model_.is_gated && model_.biases.mlp) {
    elementwise("biases", Pass::backward_weight, value_ * values, 2);
  }
}

// ---- Around both parts of a block

void OperatorsBuilder::norm(const std::string& name) {
  Operator& forward = elementwise(name, Pass::forward, 2 * value_ * whole_, 1);
  forward.saved_bytes = value_ * whole_;
  forward.part = &Recompute::norms;
  forward.remade_bytes = value_ * whole_;
  forward.parameters = static_cast<double>(model_.norm_parameters(hidden_));
  elementwise(name, Pass::backward_input, 3 * value_ * whole_, 1);
  elementwise(name, Pass::backward_weight, 2 * value_ * whole_, 1);
}

void OperatorsBuilder::inner_norm(const std::string& name, std::int64_t width, double values) {
  Operator& forward = elementwise(name, Pass::forward, 2 * value_ * values, 1);
  forward.saved_bytes = value_ * values;
  forward.parameters = static_cast<double>(model_.norm_parameters(width));
  forward.is_optional = true;
  elementwise(name, Pass::backward_input, 3 * value_ * values, 1).is_optional = true;
  elementwise(name, Pass::backward_weight, 2 * value_ * values, 1).is_optional = true;
}

void OperatorsBuilder::add_back(const std::string& name, bool has_bias) {
  const double mask = drops_ ? 1 : 0;
  elementwise(name + " added", Pass::forward, (3 * value_ + mask) * whole_, 1).saved_bytes =
      mask * whole_;
  elementwise(name + " added", Pass::backward_input, 3 * value_ * whole_, 1);
  if (drops_) {
    elementwise(name + " dropout", Pass::backward_input, (2 * value_ + 1) * whole_, 1);
  }
  if (has_bias) elementwise(name + " bias", Pass::backward_weight, value_ * whole_, 1);
}

std::string_view operator_class_name(OperatorClass of) {
  switch (of) {
    case OperatorClass::matmul: return "GEMMs";
    case OperatorClass::attention: return "attention";
    case OperatorClass::elementwise: return "element-wise";
    case OperatorClass::embedding: return "embedding";
    case OperatorClass::loss: return "loss";
    case OperatorClass::tensor_parallel: return "tensor parallel";
    case OperatorClass::context_parallel: return "context parallel";
    case OperatorClass::expert_parallel: return "expert exchange";
    case OperatorClass::listed: return "listed";
    case OperatorClass::host: return "launching";
  }
  return {};
}

std::int64_t rank_parameters(const Model& model, int layer, int tensor_parallel) {
  if (tensor_parallel == 1) return model.layer_parameters(layer);
  Training training;
  training.tensor_parallel = tensor_parallel;
  double sum = 0;
  for (const Operator& one : layer_operators(model, layer, training)) sum += one.parameters;
  return std::llround(sum);
}

std::vector<Operator> layer_operators(const Model& model, int layer, const Training& training,
                                      const SoftwareSpec& software) {
  const bool is_prediction = model.is_prediction(layer);
  const bool has_kind = model.is_block(layer) || is_prediction;
  const BlockKind none;
  const BlockKind& kind = has_kind ? model.kind_of(layer) : none;
  OperatorsBuilder builder(model, training, software, kind);
  if (model.is_listed()) return builder.listed(model.list[static_cast<std::size_t>(layer)]);
  if (model.is_embedding(layer)) return builder.embedding();
  if (has_kind && model.architecture == Architecture::mlp) return builder.linear_block();
  const auto as_listed = [&](std::vector<Operator> counted, bool is_head) {
    return software.kernels ? builder.listed_kernels(std::move(counted), is_head)
                            : std::move(counted);
  };
  std::vector<Operator> all;
  const auto add = [&](std::vector<Operator> more) {
    std::ranges::move(more, std::back_inserter(all));
  };
  if (is_prediction) add(builder.prediction_entry());
  if (has_kind) {
    add(builder.decoder_block());
    all = as_listed(std::move(all), false);
  }
  if (is_prediction) add(as_listed(builder.prediction_head(), true));
  if (model.is_head(layer)) add(as_listed(builder.head(), true));
  return training.fused_sums ? all : builder.with_separate_sums(std::move(all));
}

}  // namespace pipesim
