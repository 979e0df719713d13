#include "exec/input_pipeline/interaction.h"

#include <algorithm>
#include <cmath>

namespace pipesim::exec {
namespace {

class DotInteraction final : public InteractionLayers {
 public:
  DotInteraction(std::int64_t features, std::int64_t width) : features_(features), width_(width) {}

  std::int64_t outputs() const override { return width_ + features_ * (features_ - 1) / 2; }
  std::int64_t parameters() const override { return 0; }
  void initialize(Device& /*device*/, const RandomKey& /*key*/,
                  float* /*parameters*/) const override {}

  void forward(Device& device, std::int64_t rows, const float* /*parameters*/,
               const std::vector<float>& x, std::vector<std::vector<float>>& /*saved*/,
               std::vector<float>& y) const override {
    y.resize(static_cast<std::size_t>(rows * outputs()));
    std::vector<float> products(static_cast<std::size_t>(features_ * features_));
    float* to = y.data();
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* sample = x.data() + row * features_ * width_;
      device.matrix_product(Transpose::b, features_, features_, width_, sample, sample,
                            products.data(), false);
      to = std::copy_n(sample, width_, to);
      for (std::int64_t i = 1; i < features_; ++i) {
        to = std::copy_n(products.data() + i * features_, i, to);
      }
    }
  }

  void backward(Device& device, std::int64_t rows, const float* /*parameters*/,
                const std::vector<float>& x, const std::vector<std::vector<float>>& /*saved*/,
                const std::vector<float>& dy, float* /*gradients*/,
                std::vector<float>& dx) const override {
    dx.resize(x.size());
    // Gradients by product, as a symmetric matrix; a feature's product with itself is not used.
    std::vector<float> by_product(static_cast<std::size_t>(features_ * features_));
    const float* from = dy.data();
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* direct = from;
      from += width_;
      for (std::int64_t i = 1; i < features_; ++i) {
        for (std::int64_t j = 0; j < i; ++j, ++from) {
          by_product[static_cast<std::size_t>(i * features_ + j)] = *from;
          by_product[static_cast<std::size_t>(j * features_ + i)] = *from;
        }
      }
      const std::int64_t sample = row * features_ * width_;
      float* to = dx.data() + sample;
      device.matrix_product(Transpose::none, features_, width_, features_, by_product.data(),
                            x.data() + sample, to, false);
      for (std::int64_t c = 0; c < width_; ++c) to[c] += direct[c];
    }
  }

 private:
  std::int64_t features_;
  std::int64_t width_;
};

class CrossInteraction final : public InteractionLayers {
 public:
  CrossInteraction(std::int64_t numbers, int layers, std::int64_t rank)
      : numbers_(numbers), layers_(layers), rank_(rank) {}

  std::int64_t outputs() const override { return numbers_; }
  std::int64_t parameters() const override { return layers_ * of_layer(); }

  void initialize(Device& device, const RandomKey& key, float* parameters) const override {
    // Both matrices preserve the scale of activations (Glorot and Bengio, 2010); biases are 0.
    const float deviation = std::sqrt(2 / static_cast<float>(numbers_ + rank_));
    RandomKey next = key;
    for (int layer = 0; layer < layers_; ++layer) {
      float* v = parameters + layer * of_layer();
      for (float* matrix : {v, v + numbers_ * rank_}) {
        device.fill_normal(numbers_ * rank_, matrix, next, deviation);
        ++next.layer;
      }
      device.fill(numbers_, v + 2 * numbers_ * rank_, 0);
    }
  }

  // For each layer it saves x_l V, x_l V W + b and x_(l+1); the last one is y.
  void forward(Device& device, std::int64_t rows, const float* parameters,
               const std::vector<float>& x, std::vector<std::vector<float>>& saved,
               std::vector<float>& y) const override {
    saved.resize(slot(layers_));
    y = x;
    for (int layer = 0; layer < layers_; ++layer) {
      const Matrices of = matrices(parameters, layer);
      std::vector<float>& narrow = saved[slot(layer)];
      std::vector<float>& wide = saved[slot(layer) + 1];
      narrow.resize(static_cast<std::size_t>(rows * rank_));
      wide.resize(x.size());
      device.matrix_product(Transpose::none, rows, rank_, numbers_, y.data(), of.v, narrow.data(),
                            false);
      device.matrix_product(Transpose::none, rows, numbers_, rank_, narrow.data(), of.w,
                            wide.data(), false);
      device.add_bias(rows, numbers_, of.b, wide.data());
      saved[slot(layer) + 2] = y;
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i] * wide[i];
    }
  }

  void backward(Device& device, std::int64_t rows, const float* parameters,
                const std::vector<float>& x, const std::vector<std::vector<float>>& saved,
                const std::vector<float>& dy, float* gradients,
                std::vector<float>& dx) const override {
    std::vector<float> by_output = dy;  // of the loop's current layer
    std::vector<float> by_wide(x.size());
    std::vector<float> by_narrow(static_cast<std::size_t>(rows * rank_));
    dx.assign(x.size(), 0);
    for (int layer = layers_; layer-- > 0;) {
      const Matrices of = matrices(parameters, layer);
      float* to = gradients + layer * of_layer();
      const std::vector<float>& narrow = saved[slot(layer)];
      const std::vector<float>& wide = saved[slot(layer) + 1];
      const std::vector<float>& input = saved[slot(layer) + 2];
      for (std::size_t i = 0; i < x.size(); ++i) {
        by_wide[i] = by_output[i] * x[i];
        dx[i] += by_output[i] * wide[i];
      }
      device.matrix_product(Transpose::b, rows, rank_, numbers_, by_wide.data(), of.w,
                            by_narrow.data(), false);
      device.matrix_product(Transpose::a, numbers_, rank_, rows, input.data(), by_narrow.data(), to,
                            true);
      device.matrix_product(Transpose::a, rank_, numbers_, rows, narrow.data(), by_wide.data(),
                            to + numbers_ * rank_, true);
      device.add_column_sums(rows, numbers_, by_wide.data(), to + 2 * numbers_ * rank_);
      device.matrix_product(Transpose::b, rows, numbers_, rank_, by_narrow.data(), of.v,
                            by_output.data(), true);
    }
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += by_output[i];
  }

 private:
  struct Matrices {
    const float* v;
    const float* w;
    const float* b;
  };

  static std::size_t slot(int layer) { return 3 * static_cast<std::size_t>(layer); }
  std::int64_t of_layer() const { return numbers_ * (2 * rank_ + 1); }
  Matrices matrices(const float* parameters, int layer) const {
    const float* v = parameters + layer * of_layer();
    return {v, v + numbers_ * rank_, v + 2 * numbers_ * rank_};
  }

  std::int64_t numbers_;
  int layers_;
  std::int64_t rank_;
};

}  // namespace

std::unique_ptr<InteractionLayers> make_interaction(const RecommendationModel& model) {
  const auto features = static_cast<std::int64_t>(model.tables.size()) + 1;
  if (model.interaction == Interaction::dot) {
    return std::make_unique<DotInteraction>(features, model.width());
  }
  return std::make_unique<CrossInteraction>(features * model.width(), model.cross_layers,
                                            model.cross_rank);
}

}  // namespace pipesim::exec
