#include "exec/input_pipeline/mlp.h"

#include <algorithm>
#include <cmath>

namespace pipesim::exec {

Mlp::Mlp(std::int64_t inputs, const std::vector<std::int64_t>& widths, bool last_is_linear) {
  for (const std::int64_t outputs : widths) {
    const std::int64_t bias = parameters_ + inputs * outputs;
    layers_.push_back({inputs, outputs, parameters_, bias, true});
    parameters_ = bias + outputs;
    inputs = outputs;
  }
  layers_.back().has_relu = !last_is_linear;
}

void Mlp::initialize(Device& device, RandomKey key, float* parameters) const {
  for (const Layer& layer : layers_) {
    const auto inputs = static_cast<float>(layer.inputs);
    const auto outputs = static_cast<float>(layer.outputs);
    device.fill_normal(layer.inputs * layer.outputs, parameters + layer.weight, key,
                       std::sqrt(2 / (inputs + outputs)));
    ++key.layer;
    device.fill_normal(layer.outputs, parameters + layer.bias, key, std::sqrt(1 / outputs));
    ++key.layer;
  }
}

void Mlp::forward(Device& device, std::int64_t rows, const float* parameters, const float* x,
                  std::vector<std::vector<float>>& outputs) const {
  outputs.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    std::vector<float>& y = outputs[i];
    y.resize(static_cast<std::size_t>(rows * layer.outputs));
    device.matrix_product(Transpose::none, rows, layer.outputs, layer.inputs, x,
                          parameters + layer.weight, y.data(), false);
    device.add_bias(rows, layer.outputs, parameters + layer.bias, y.data());
    if (layer.has_relu) {
      for (float& value : y) value = std::max(value, 0.0F);
    }
    x = y.data();
  }
}

void Mlp::backward(Device& device, std::int64_t rows, const float* parameters, const float* x,
                   const std::vector<std::vector<float>>& outputs, std::vector<float> dy,
                   float* gradients, float* dx) const {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const std::vector<float>& y = outputs[i];
    if (layer.has_relu) {
      for (std::size_t j = 0; j < y.size(); ++j) dy[j] = y[j] > 0 ? dy[j] : 0;
    }
    const float* input = i == 0 ? x : outputs[i - 1].data();
    device.matrix_product(Transpose::a, layer.inputs, layer.outputs, rows, input, dy.data(),
                          gradients + layer.weight, true);
    device.add_column_sums(rows, layer.outputs, dy.data(), gradients + layer.bias);
    if (i == 0 && dx == nullptr) return;
    std::vector<float> below(i == 0 ? 0 : static_cast<std::size_t>(rows * layer.inputs));
    float* to = i == 0 ? dx : below.data();
    device.matrix_product(Transpose::b, rows, layer.inputs, layer.outputs, dy.data(),
                          parameters + layer.weight, to, false);
    dy = std::move(below);
  }
}

}  // namespace pipesim::exec
