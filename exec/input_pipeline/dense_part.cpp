#include "exec/input_pipeline/dense_part.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipesim::exec {
namespace {

// Sites of random numbers; tables have 0 (sharded_tables.cpp).
constexpr std::uint32_t bottom_site = 1;
constexpr std::uint32_t interaction_site = 2;
constexpr std::uint32_t top_site = 3;

std::int64_t numbers_in(const std::vector<std::vector<float>>& arrays) {
  std::size_t numbers = 0;
  for (const std::vector<float>& array : arrays) numbers += array.size();
  return static_cast<std::int64_t>(numbers);
}

}  // namespace

std::int64_t DenseActivations::bytes() const {
  const auto numbers = static_cast<std::int64_t>(features.size() + interacted.size() +
                                                 by_bottom.size() + by_pooled.size());
  return 4 * (numbers + numbers_in(bottom) + numbers_in(interaction) + numbers_in(top));
}

void DenseActivations::drop_saved() {
  for (auto* arrays : {&bottom, &interaction, &top}) *arrays = {};
  for (auto* numbers : {&features, &interacted, &by_bottom}) *numbers = {};
}

DensePart::DensePart(const RecommendationModel& model)
    : dense_features_(model.dense_features),
      tables_(static_cast<std::int64_t>(model.tables.size())),
      width_(model.width()),
      bottom_(model.dense_features, model.bottom, false),
      interaction_(make_interaction(model)),
      top_(interaction_->outputs(), model.top, true) {}

DenseNumbers DensePart::zeros() const {
  const auto numbers = [](std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count));
  };
  return {numbers(bottom_.parameters()), numbers(interaction_->parameters() + top_.parameters())};
}

DenseNumbers DensePart::initial(Device& device, std::uint64_t seed) const {
  DenseNumbers numbers = zeros();
  const auto key = [&](std::uint32_t site) {
    return RandomKey{.seed = seed, .purpose = Purpose::initial_weights, .site = site};
  };
  bottom_.initialize(device, key(bottom_site), numbers.bottom.data());
  interaction_->initialize(device, key(interaction_site), numbers.top.data());
  top_.initialize(device, key(top_site), numbers.top.data() + interaction_->parameters());
  return numbers;
}

void DensePart::bottom_forward(Device& device, const std::vector<float>& dense,
                               const std::vector<float>& parameters,
                               DenseActivations& activations) const {
  bottom_.forward(device, static_cast<std::int64_t>(dense.size()) / dense_features_,
                  parameters.data(), dense.data(), activations.bottom);
}

void DensePart::top_forward(Device& device, const std::vector<float>& pooled,
                            const std::vector<float>& labels, const std::vector<float>& parameters,
                            DenseActivations& activations) const {
  const auto samples = static_cast<std::int64_t>(labels.size());
  activations.features.resize(static_cast<std::size_t>(samples * (1 + tables_) * width_));
  const float* below = activations.bottom.back().data();
  const float* rows = pooled.data();
  float* to = activations.features.data();
  for (std::int64_t s = 0; s < samples; ++s, below += width_, rows += tables_ * width_) {
    to = std::copy_n(below, width_, to);
    to = std::copy_n(rows, tables_ * width_, to);
  }
  interaction_->forward(device, samples, parameters.data(), activations.features,
                        activations.interaction, activations.interacted);
  top_.forward(device, samples, parameters.data() + interaction_->parameters(),
               activations.interacted.data(), activations.top);

  const std::vector<float>& logits = activations.top.back();
  double sum = 0;
  for (std::size_t s = 0; s < labels.size(); ++s) {
    // Avoids the overflow of e^z for large z.
    const double z = logits[s];
    sum += std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))) - labels[s] * z;
  }
  activations.loss = sum / static_cast<double>(samples);
}

void DensePart::top_backward(Device& device, const std::vector<float>& labels, float scale,
                             const std::vector<float>& parameters, DenseActivations& activations,
                             std::vector<float>& gradients) const {
  const auto samples = static_cast<std::int64_t>(labels.size());
  const std::vector<float>& logits = activations.top.back();
  std::vector<float> by_logit(labels.size());
  for (std::size_t s = 0; s < labels.size(); ++s) {
    by_logit[s] = (1 / (1 + std::exp(-logits[s])) - labels[s]) * scale;
  }
  std::vector<float> by_interacted(activations.interacted.size());
  const std::int64_t of_interaction = interaction_->parameters();
  top_.backward(device, samples, parameters.data() + of_interaction, activations.interacted.data(),
                activations.top, std::move(by_logit), gradients.data() + of_interaction,
                by_interacted.data());
  std::vector<float> by_features;
  interaction_->backward(device, samples, parameters.data(), activations.features,
                         activations.interaction, by_interacted, gradients.data(), by_features);

  activations.by_bottom.resize(static_cast<std::size_t>(samples * width_));
  activations.by_pooled.resize(static_cast<std::size_t>(samples * tables_ * width_));
  const float* from = by_features.data();
  for (std::int64_t s = 0; s < samples; ++s, from += (1 + tables_) * width_) {
    std::copy_n(from, width_, activations.by_bottom.data() + s * width_);
    std::copy_n(from + width_, tables_ * width_,
                activations.by_pooled.data() + s * tables_ * width_);
  }
}

void DensePart::bottom_backward(Device& device, const std::vector<float>& dense,
                                const std::vector<float>& parameters, DenseActivations& activations,
                                std::vector<float>& gradients) const {
  bottom_.backward(device, static_cast<std::int64_t>(dense.size()) / dense_features_,
                   parameters.data(), dense.data(), activations.bottom,
                   std::move(activations.by_bottom), gradients.data(), nullptr);
}

void step_by_sgd(float rate, const std::vector<float>& gradients, std::vector<float>& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * gradients[i];
}

}  // namespace pipesim::exec
