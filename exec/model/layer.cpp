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

void Layer::add_parameter(const std::string& name, std::int64_t size, Start start, bool decays,
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

void Layer::multiply(const Tensor& x, int weight_index, std::int64_t inputs, std::int64_t outputs,
                     const Tensor& y) const {
  device().matrix_product(Transpose::none, setup_.rows(), outputs, inputs, x.data(),
                          weight(weight_index), y.data(), false);
}

void Layer::multiply_backward(const Tensor& dy, int weight_index, std::int64_t inputs,
                              std::int64_t outputs, const Tensor& dx) const {
  device().matrix_product(Transpose::b, setup_.rows(), inputs, outputs, dy.data(),
                          weight(weight_index), dx.data(), false);
}

void Layer::add_linear_gradients(const Tensor& x, const Tensor& dy, int weight_index,
                                 std::int64_t inputs, std::int64_t outputs) const {
  device().matrix_product(Transpose::a, inputs, outputs, setup_.rows(), x.data(), dy.data(),
                          gradient(weight_index), true);
  device().add_column_sums(setup_.rows(), outputs, dy.data(), gradient(weight_index + 1));
}

void Layer::add_norm_gradients(const Tensor& both, int gamma_index) const {
  const std::int64_t size = both.size() / 2;
  for (const int i : {0, 1}) {
    float* sum = gradient(gamma_index + i);
    device().add(size, sum, both.floats() + i * size, sum);
  }
}

double kept_numbers(const Model& model, double batch, double sequence, int layer) {
  const double rows = batch * sequence;
  const auto hidden = static_cast<double>(model.hidden_size);
  const bool is_gpt = model.architecture == Architecture::gpt;
  if (model.is_embedding(layer)) return rows * hidden;
  if (model.is_head(layer)) {
    return rows * ((is_gpt ? 2 : 1) * hidden + static_cast<double>(model.vocabulary_size));
  }
  if (!is_gpt) return rows * 2 * hidden;
  return rows * (8 * hidden + 2 * static_cast<double>(model.mlp_size) +
                 static_cast<double>(model.heads) * sequence);
}

void check_trainable(const Model& model, std::string_view where) {
  const char* reason = nullptr;
  if (model.architecture == Architecture::llama) {
    reason = "it lacks RMS norms, rotary positions and gated MLPs";
  } else if (model.is_listed()) {
    reason = "listed layers are numbers with nothing to compute";
  } else if (model.experts > 1) {
    reason = "it lacks experts";
  } else if (model.kv_heads != model.heads) {
    reason = "it lacks keys and values that heads share";
  }
  if (reason == nullptr) return;
  throw input_error(
      fmt::format("{}: pipeexec can't train {}: {}; give a gpt without experts and shared keys, or "
                  "an mlp, or have pipesim predict this one",
                  where, quote(model.name), reason));
}

std::unique_ptr<Layer> make_layer(const LayerSetup& setup, int index) {
  if (setup.model.is_embedding(index)) return make_embedding(setup, index);
  if (setup.model.is_head(index)) return make_head(setup, index);
  if (setup.model.architecture == Architecture::gpt) return make_decoder_block(setup, index);
  return make_linear_block(setup, index);
}

std::vector<Layer*> plain(const std::vector<std::unique_ptr<Layer>>& layers) {
  std::vector<Layer*> pointers;
  for (const auto& layer : layers) pointers.push_back(layer.get());
  return pointers;
}

}  // namespace pipesim::exec
