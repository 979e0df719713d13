// The dense part of a recommendation model: bottom MLP, interaction, top MLP and loss, for one
// rank's batch.
//
// GEMMs are the device's, so the same shapes and values have the same bits. It
// owns no numbers: parameters and gradients are flat arrays, separate above and below the
// interaction, since they are reduced separately. Immutable; any thread, with its own device.
// Concurrent actions write separate data: forward and backward of different batches share only
// gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/input_pipeline/interaction.h"
#include "exec/input_pipeline/mlp.h"

namespace pipesim::exec {

// Parameters, or gradients.
struct DenseNumbers {
  std::vector<float> bottom;
  std::vector<float> top;  // those of the interaction first

  bool operator==(const DenseNumbers&) const = default;
};

// Tensors that a batch's forward leaves for its backward, and the backward for the exchange.
struct DenseActivations {
  std::vector<std::vector<float>> bottom;       // outputs of layers
  std::vector<float> features;                  // [samples x (1 + tables) x width]
  std::vector<std::vector<float>> interaction;  // its saved tensors
  std::vector<float> interacted;
  std::vector<std::vector<float>> top;  // outputs of layers; the last are logits
  double loss = 0;                      // the mean over samples
  std::vector<float> by_bottom;         // gradients with respect to the bottom's output
  std::vector<float> by_pooled;         // and to pooled rows, [samples x tables x width]

  std::int64_t bytes() const;
  // Keeps only by_pooled.
  void drop_saved();
};

class DensePart {
 public:
  explicit DensePart(const RecommendationModel& model);

  DenseNumbers zeros() const;
  DenseNumbers initial(Device& device, std::uint64_t seed) const;

  // `dense`[samples x dense features].
  void bottom_forward(Device& device, const std::vector<float>& dense,
                      const std::vector<float>& parameters, DenseActivations& activations) const;
  // Call after it; `pooled`[samples x tables x width]. The loss of a sample with logit z is
  // log(1 + e^z) - label z.
  void top_forward(Device& device, const std::vector<float>& pooled,
                   const std::vector<float>& labels, const std::vector<float>& parameters,
                   DenseActivations& activations) const;
  // Adds the gradients of the sum of losses times `scale` to `gradients`.
  void top_backward(Device& device, const std::vector<float>& labels, float scale,
                    const std::vector<float>& parameters, DenseActivations& activations,
                    std::vector<float>& gradients) const;
  void bottom_backward(Device& device, const std::vector<float>& dense,
                       const std::vector<float>& parameters, DenseActivations& activations,
                       std::vector<float>& gradients) const;

 private:
  std::int64_t dense_features_;
  std::int64_t tables_;
  std::int64_t width_;
  Mlp bottom_;
  std::unique_ptr<InteractionLayers> interaction_;
  Mlp top_;
};

// parameters -= rate * gradients.
void step_by_sgd(float rate, const std::vector<float>& gradients, std::vector<float>& parameters);

}  // namespace pipesim::exec
