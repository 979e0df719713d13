#include "exec/model/layer.h"

#include <fmt/format.h>

#include "exec/model/layers.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

void Layer::backward_weight(const Microbatch& microbatch, Saved& saved) {
  if (is_fresh_) {
    for (const Parameter& parameter : parameters_) {
      device().fill(parameter.gradient.size(), parameter.gradient.data(), 0);
    }
    is_fresh_ = false;
  }
  add_weight_gradients(microbatch, saved);
  saved.clear();
}

int Layer::add_parameter(const std::string& name, std::int64_t size, Start start, bool decays,
                         int like_layer) {
  Parameter parameter;
  parameter.name = setup_.model.layer_name(index_) + " " + name;
  parameter.size = size;
  parameter.start = start;
  parameter.key = {.seed = setup_.seed, .purpose = Purpose::initial_weights};
  parameter.key.layer = static_cast<std::uint32_t>(like_layer);
  parameter.key.site = static_cast<std::uint32_t>(like_layer == index_ ? parameters_.size() : 0);
  parameter.decays = decays;
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

Linear Layer::add_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                         Start start, bool has_bias) {
  Linear linear{.inputs = inputs, .outputs = outputs};
  const std::string prefix = name.empty() ? "" : name + " ";
  linear.matrix = add_parameter(prefix + "matrix", inputs * outputs, start, true);
  if (has_bias) linear.bias = add_parameter(prefix + "bias", outputs, {}, false);
  return linear;
}

Norm Layer::add_norm(const std::string& name, bool has_beta) {
  const std::int64_t hidden = setup_.model.hidden_size;
  Norm norm{.gamma = add_parameter(name + " gamma", hidden, {.value = 1}, false)};
  if (has_beta) norm.beta = add_parameter(name + " beta", hidden, {}, false);
  return norm;
}

Dropout Layer::dropout(const Microbatch& microbatch, std::uint32_t site) const {
  Dropout dropout;
  dropout.key = {.seed = setup_.seed,
                 .purpose = Purpose::dropout,
                 .site = site,
                 .layer = static_cast<std::uint32_t>(index_),
                 .step = microbatch.step,
                 .first = microbatch.first_sequence * setup_.sequence * setup_.model.hidden_size};
  dropout.probability = static_cast<float>(setup_.model.dropout_ppm) / 1e6F;
  return dropout;
}

void Layer::multiply(const Tensor& x, const Linear& linear, const Tensor& y) const {
  device().matrix_product(Transpose::none, setup_.rows(), linear.outputs, linear.inputs, x.data(),
                          weight(linear.matrix), y.data(), false);
}

void Layer::multiply_backward(const Tensor& dy, const Linear& linear, const Tensor& dx) const {
  device().matrix_product(Transpose::b, setup_.rows(), linear.inputs, linear.outputs, dy.data(),
                          weight(linear.matrix), dx.data(), false);
}

void Layer::add_linear_gradients(const Tensor& x, const Tensor& dy, const Linear& linear) const {
  device().matrix_product(Transpose::a, linear.inputs, linear.outputs, setup_.rows(), x.data(),
                          dy.data(), gradient(linear.matrix), true);
  if (!linear.bias) return;
  device().add_column_sums(setup_.rows(), linear.outputs, dy.data(), gradient(*linear.bias));
}

// A layer norm's statistics are the rows' means and then their rstd.
Tensor Layer::normalise(const Tensor& x, const Norm& norm, Tensor& stats) const {
  const std::int64_t rows = setup_.rows();
  const std::int64_t hidden = setup_.model.hidden_size;
  Tensor y = take(x.size());
  stats = take_floats(norm.beta ? 2 * rows : rows);
  if (norm.beta) {
    device().layer_norm(rows, hidden, x.data(), weight(norm.gamma), weight(*norm.beta), y.data(),
                        stats.floats(), stats.floats() + rows);
  } else {
    device().rms_norm(rows, hidden, x.data(), weight(norm.gamma), y.data(), stats.floats());
  }
  return y;
}

Tensor Layer::norm_backward(const Tensor& dy, const Tensor& x, const Norm& norm,
                            const Tensor& stats, ConstArray residual, Tensor& gradients) const {
  const std::int64_t rows = setup_.rows();
  const std::int64_t hidden = setup_.model.hidden_size;
  Tensor dx = take(x.size());
  gradients = take_floats(norm.beta ? 2 * hidden : hidden);
  if (norm.beta) {
    device().layer_norm_backward(rows, hidden, dy.data(), x.data(), weight(norm.gamma),
                                 stats.floats(), stats.floats() + rows, residual, dx.data(),
                                 gradients.floats(), gradients.floats() + hidden);
  } else {
    device().rms_norm_backward(rows, hidden, dy.data(), x.data(), weight(norm.gamma),
                               stats.floats(), residual, dx.data(), gradients.floats());
  }
  return dx;
}

void Layer::add_norm_gradients(const Tensor& gradients, const Norm& norm) const {
  const std::int64_t size = setup_.model.hidden_size;
  const auto add = [&](int parameter, const float* from) {
    float* sum = gradient(parameter);
    device().add(size, sum, from, sum);
  };
  add(norm.gamma, gradients.floats());
  if (norm.beta) add(*norm.beta, gradients.floats() + size);
}

double kept_numbers(const Model& model, double batch, double sequence, int layer,
                    Attention attention) {
  const double rows = batch * sequence;
  const auto hidden = static_cast<double>(model.hidden_size);
  const bool is_mlp = model.architecture == Architecture::mlp;
  if (model.is_embedding(layer)) return rows * hidden;
  if (model.is_head(layer)) {
    return rows * ((is_mlp ? 1 : 2) * hidden + static_cast<double>(model.vocabulary_size));
  }
  if (is_mlp) return rows * 2 * hidden;
  const auto qkv = static_cast<double>(model.hidden_size + 2 * model.kv_size());
  const double inner = (model.is_gated() ? 3 : 2) * static_cast<double>(model.mlp_size);
  const double scores =
      static_cast<double>(model.heads) * (attention == Attention::fused ? 2 : sequence);
  return rows * (5 * hidden + qkv + inner + scores);
}

void check_trainable(const Model& model, std::string_view where) {
  if (model.architecture == Architecture::llama && model.head_size() % 2 != 0) {
    throw input_error(
        fmt::format("{}: pipeexec can't train {}: its heads have {} numbers, and rotary positions "
                    "turn pairs; give it heads of an even size",
                    where, quote(model.name), model.head_size()));
  }
  const char* reason = nullptr;
  if (model.is_listed()) {
    reason = "listed layers are numbers with nothing to compute";
  } else if (model.experts > 1) {
    reason = "it lacks experts";
  }
  if (reason == nullptr) return;
  throw input_error(
      fmt::format("{}: pipeexec can't train {}: {}; give a gpt or llama without experts, or an "
                  "mlp, or have pipesim predict this one",
                  where, quote(model.name), reason));
}

std::unique_ptr<Layer> make_layer(const LayerSetup& setup, int index) {
  if (setup.model.is_embedding(index)) return make_embedding(setup, index);
  if (setup.model.is_head(index)) return make_head(setup, index);
  if (setup.model.architecture == Architecture::mlp) return make_linear_block(setup, index);
  return make_decoder_block(setup, index);
}

std::vector<Layer*> plain(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::vector<Layer*> pointers;
  for (const auto& layer : layers) pointers.push_back(layer.get());
  return pointers;
}

}  // namespace pipesim::exec
