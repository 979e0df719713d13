// The interaction: joins the bottom MLP's output with pooled rows, before the top MLP.
//
// A sample's features have equal width: the bottom's output, then the pooled row of each table.
// Parameters and gradients are in flat arrays of the caller. Immutable; any thread, with its own
// device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/device/device.h"
#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim::exec {

class InteractionLayers {
 public:
  virtual ~InteractionLayers() = default;
  // Outputs per sample.
  virtual std::int64_t outputs() const = 0;
  virtual std::int64_t parameters() const = 0;
  virtual void initialize(Device& device, const RandomKey& key, float* parameters) const = 0;

  // y[rows x outputs] of x[rows x features x width]; `saved` is for the backward.
  virtual void forward(Device& device, std::int64_t rows, const float* parameters,
                       const std::vector<float>& x, std::vector<std::vector<float>>& saved,
                       std::vector<float>& y) const = 0;
  // Adds to `gradients`; `dx` is overwritten.
  virtual void backward(Device& device, std::int64_t rows, const float* parameters,
                        const std::vector<float>& x, const std::vector<std::vector<float>>& saved,
                        const std::vector<float>& dy, float* gradients,
                        std::vector<float>& dx) const = 0;
};

// `dot`: the bottom's output, then the product of each feature with each earlier one, by feature.
// `cross`: x_0 is the concatenation of all features; x_(l+1) = x_0 * (x_l V_l W_l + b_l) + x_l,
// number by number, V_l as [numbers x rank]; parameters are V, W, b, layer by layer.
std::unique_ptr<InteractionLayers> make_interaction(const RecommendationModel& model);

}  // namespace pipesim::exec
