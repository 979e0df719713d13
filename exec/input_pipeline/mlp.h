// Consecutive layers of the dense part: y = relu(x W + b), W as [inputs x outputs].
//
// It owns nothing: parameters and gradients are in flat arrays of the caller, layer by
// layer W, then b. Immutable; any thread, with its own device.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

class Mlp {
 public:
  // A linear last layer has no relu.
  Mlp(std::int64_t inputs, const std::vector<std::int64_t>& widths, bool last_is_linear);

  std::int64_t parameters() const { return parameters_; }
  std::int64_t outputs() const { return layers_.back().outputs; }
  // Normal: W with a deviation of sqrt(2 / (inputs + outputs)), b of sqrt(1 / outputs), by key,
  // whose `layer` counts up.
  void initialize(Device& device, RandomKey key, float* parameters) const;

  // Sets `outputs` to those of each layer.
  void forward(Device& device, std::int64_t rows, const float* parameters, const float* x,
               std::vector<std::vector<float>>& outputs) const;
  // Adds to `gradients`. `dy`, with respect to the last output, is overwritten; `dx` may be null.
  void backward(Device& device, std::int64_t rows, const float* parameters, const float* x,
                const std::vector<std::vector<float>>& outputs, std::vector<float> dy,
                float* gradients, float* dx) const;

 private:
  struct Layer {
    std::int64_t inputs = 0;
    std::int64_t outputs = 0;
    std::int64_t weight = 0;  // index in the parameters
    std::int64_t bias = 0;
    bool has_relu = true;
  };

  std::vector<Layer> layers_;
  std::int64_t parameters_ = 0;
};

}  // namespace pipesim::exec
