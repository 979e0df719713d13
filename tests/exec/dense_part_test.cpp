// Gradients of the dense part of a recommendation model, against differences of a slow model in
// double precision.
#include "exec/input_pipeline/dense_part.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "tests/devices.h"

namespace pipesim::exec {
namespace {

using pipesim::testing::bits;
using pipesim::testing::every_device;
using pipesim::testing::every_index;
using pipesim::testing::expect_close;
using pipesim::testing::normals;
using pipesim::testing::wide;

using Doubles = std::vector<double>;

RecommendationModel dense_model(Interaction interaction) {
  RecommendationModel model{.name = "dense", .title = "dense"};
  model.dense_features = 5;
  model.bottom = {7, 4};
  model.top = {6, 3, 1};
  model.interaction = interaction;
  model.cross_layers = 3;
  model.cross_rank = 2;
  model.tables.resize(3, {"t", 10, 4});
  return model;
}

// One sample at a time, number by number.
class SlowDensePart {
 public:
  explicit SlowDensePart(const RecommendationModel& model) : model_(model) {}

  Doubles mlp(Doubles x, const std::vector<std::int64_t>& widths, const double*& parameters,
              bool last_is_linear) const {
    for (std::size_t layer = 0; layer < widths.size(); ++layer) {
      const auto outputs = static_cast<std::size_t>(widths[layer]);
      Doubles y(outputs);
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t i = 0; i < x.size(); ++i) y[o] += x[i] * parameters[i * outputs + o];
        y[o] += parameters[x.size() * outputs + o];
        const bool is_linear = last_is_linear && layer + 1 == widths.size();
        if (!is_linear && y[o] < 0) y[o] = 0;
      }
      parameters += (x.size() + 1) * outputs;
      x = std::move(y);
    }
    return x;
  }

  Doubles dot(const Doubles& x) const {
    const auto width = static_cast<std::size_t>(model_.width());
    Doubles y(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(width));
    for (std::size_t i = 1; i < x.size() / width; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        double product = 0;
        for (std::size_t c = 0; c < width; ++c) product += x[i * width + c] * x[j * width + c];
        y.push_back(product);
      }
    }
    return y;
  }

  Doubles cross(const Doubles& x0, const double*& parameters) const {
    const std::size_t size = x0.size();
    const auto rank = static_cast<std::size_t>(model_.cross_rank);
    Doubles x = x0;
    for (int layer = 0; layer < model_.cross_layers; ++layer) {
      const double* v = parameters;
      const double* w = v + size * rank;
      const double* b = w + rank * size;
      parameters = b + size;
      Doubles narrow(rank), next = x;
      for (std::size_t k = 0; k < rank; ++k) {
        for (std::size_t i = 0; i < size; ++i) narrow[k] += x[i] * v[i * rank + k];
      }
      for (std::size_t i = 0; i < size; ++i) {
        double crossed = b[i];
        for (std::size_t k = 0; k < rank; ++k) crossed += narrow[k] * w[k * size + i];
        next[i] += x0[i] * crossed;
      }
      x = next;
    }
    return x;
  }

  // The sum of losses.
  double loss(const Doubles& dense, const Doubles& pooled, const std::vector<float>& labels,
              const Doubles& bottom, const Doubles& top) const {
    double sum = 0;
    const auto features = static_cast<std::size_t>(model_.dense_features);
    const std::size_t of_sample = pooled.size() / labels.size();
    for (std::size_t s = 0; s < labels.size(); ++s) {
      const auto part = [&](const Doubles& all, std::size_t size) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(s * size);
        return Doubles(begin, begin + static_cast<std::ptrdiff_t>(size));
      };
      const double* below = bottom.data();
      Doubles x = mlp(part(dense, features), model_.bottom, below, false);
      const Doubles rows = part(pooled, of_sample);
      x.insert(x.end(), rows.begin(), rows.end());
      const double* above = top.data();
      x = model_.interaction == Interaction::dot ? dot(x) : cross(x, above);
      const double logit = mlp(x, model_.top, above, true)[0];
      const double probability = 1 / (1 + std::exp(-logit));
      sum -= std::log(labels[s] == 1 ? probability : 1 - probability);
    }
    return sum;
  }

 private:
  const RecommendationModel& model_;
};

class DensePartOf : public ::testing::TestWithParam<Interaction> {};
INSTANTIATE_TEST_SUITE_P(Interactions, DensePartOf,
                         ::testing::Values(Interaction::dot, Interaction::cross));

TEST_P(DensePartOf, HasTheGradientsOfASlowOne) {
  const RecommendationModel model = dense_model(GetParam());
  const SlowDensePart slow(model);
  const DensePart part(model);
  const std::vector<float> labels = {1, 0, 0, 1, 1, 0, 1};
  const std::vector<float> dense = normals(7 * 5, 1);
  const std::vector<float> pooled = normals(7 * 3 * 4, 2, 0.5F);
  constexpr float scale = 0.25F;
  const auto index = every_index;
  for (const auto& device : every_device()) {
    DenseNumbers parameters = part.initial(*device, 5);
    ASSERT_EQ(std::ssize(parameters.bottom), model.bottom_parameters());
    ASSERT_EQ(std::ssize(parameters.top), model.top_parameters());
    // Biases that start at 0 would hide a mistake.
    const std::vector<float> shift = normals(model.top_parameters(), 3, 0.1F);
    for (std::size_t i = 0; i < shift.size(); ++i) parameters.top[i] += shift[i];

    DenseNumbers gradients = part.zeros();
    std::ranges::fill(gradients.bottom, 1.0F);  // what it adds to
    std::ranges::fill(gradients.top, 1.0F);
    DenseActivations activations;
    part.bottom_forward(*device, dense, parameters.bottom, activations);
    part.top_forward(*device, pooled, labels, parameters.top, activations);
    part.top_backward(*device, labels, scale, parameters.top, activations, gradients.top);
    const std::vector<float> by_pooled = activations.by_pooled;
    part.bottom_backward(*device, dense, parameters.bottom, activations, gradients.bottom);

    const Doubles d = wide(dense), p = wide(pooled), bottom = wide(parameters.bottom),
                  top = wide(parameters.top);
    EXPECT_NEAR(activations.loss, slow.loss(d, p, labels, bottom, top) / 7, 1e-6);
    const auto expect = [&](const std::vector<float>& got, const Doubles& at, double begin,
                            const std::function<double(const Doubles&)>& loss, const char* what) {
      Doubles wanted = pipesim::testing::differences(at, index(at.size()), loss);
      for (double& number : wanted) number = number * scale + begin;
      expect_close(got, wanted, 1e-4, 3e-6, what);
    };
    expect(
        by_pooled, p, 0, [&](const Doubles& x) { return slow.loss(d, x, labels, bottom, top); },
        "by pooled rows");
    expect(
        gradients.bottom, bottom, 1,
        [&](const Doubles& x) { return slow.loss(d, p, labels, x, top); }, "below");
    expect(
        gradients.top, top, 1, [&](const Doubles& x) { return slow.loss(d, p, labels, bottom, x); },
        "above");
  }
}

TEST_P(DensePartOf, HasTheSameBitsEachTime) {
  const RecommendationModel model = dense_model(GetParam());
  const DensePart part(model);
  const std::vector<float> dense = normals(6 * 5, 1), pooled = normals(6 * 3 * 4, 2);
  const std::vector<float> labels = {1, 0, 0, 1, 1, 0};
  const auto gradients = [&](Device& device) {
    const DenseNumbers parameters = part.initial(device, 5);
    DenseNumbers sums = part.zeros();
    DenseActivations activations;
    part.bottom_forward(device, dense, parameters.bottom, activations);
    part.top_forward(device, pooled, labels, parameters.top, activations);
    part.top_backward(device, labels, 1, parameters.top, activations, sums.top);
    part.bottom_backward(device, dense, parameters.bottom, activations, sums.bottom);
    sums.top.insert(sums.top.end(), sums.bottom.begin(), sums.bottom.end());
    return bits(sums.top);
  };
  for (const auto& device : every_device()) EXPECT_EQ(gradients(*device), gradients(*device));
}

// Where exp would overflow or 1 - p be 0.
TEST(DensePart, LossesOfLargeLogitsAreFinite) {
  RecommendationModel model = dense_model(Interaction::dot);
  model.top = {1};
  const DensePart part(model);
  const auto device = cpu_instruction_sets().empty() ? nullptr : make_cpu_device();
  DenseNumbers parameters = part.zeros();
  for (const float logit : {-300.0F, 300.0F}) {
    parameters.top.back() = logit;
    DenseActivations activations;
    DenseNumbers gradients = part.zeros();
    part.bottom_forward(*device, std::vector<float>(10), parameters.bottom, activations);
    part.top_forward(*device, std::vector<float>(24), {0, 1}, parameters.top, activations);
    EXPECT_DOUBLE_EQ(activations.loss, 150);
    part.top_backward(*device, {0, 1}, 1, parameters.top, activations, gradients.top);
    EXPECT_EQ(gradients.top.back(), logit > 0 ? 1 : -1);
  }
}

}  // namespace
}  // namespace pipesim::exec
