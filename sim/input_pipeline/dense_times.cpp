#include "sim/input_pipeline/dense_times.h"

#include <algorithm>
#include <iterator>

#include "sim/cost/estimate/device_times.h"

namespace pipesim {
namespace {

constexpr double bytes_a_number = 4;

class DenseTimer {
 public:
  DenseTimer(const RecommendationModel& model, const DeviceSpec& device, Precision precision,
             std::int64_t batch_size)
      : model_(model), device_(device), precision_(precision), samples_(batch_size) {}

  DenseTimes run() {
    std::int64_t width = model_.dense_features;
    bool is_first = true;
    for (const std::int64_t next : model_.bottom) {
      // The gradient with respect to dense features is not needed.
      layer(width, next, true, !is_first, times_.bottom, times_.bottom_backward);
      width = next;
      is_first = false;
    }
    join();
    if (model_.interaction == Interaction::dot) {
      multiply_pairs();
    } else {
      for (int i = 0; i < model_.cross_layers; ++i) cross();
    }
    width = model_.interacted();
    for (std::size_t i = 0; i < model_.top.size(); ++i) {
      const bool has_relu = i + 1 < model_.top.size();
      layer(width, model_.top[i], has_relu, true, times_.top, times_.top_backward);
      width = model_.top[i];
    }
    // The loss from logits and labels, and its mean; a gradient from both and the mean's.
    move(times_.top, 3, 2);
    move(times_.top_backward, 3, 1);
    return times_;
  }

 private:
  std::int64_t vectors() const { return std::ssize(model_.tables) + 1; }

  // Numbers per sample that are read or written.
  void move(KernelTimes& times, std::int64_t numbers, int kernels) const {
    const double bytes =
        bytes_a_number * static_cast<double>(samples_) * static_cast<double>(numbers);
    times.seconds += memory_seconds(device_, bytes, kernels);
    times.kernels += kernels;
  }
  void multiply(KernelTimes& times, const MatrixProduct& product) const {
    times.seconds += product_seconds(device_, precision_, product);
    ++times.kernels;
  }
  // A weight gradient: few results, each a sum over all samples. If that is faster, libraries split
  // the sum over more multiprocessors, and add up the parts.
  void multiply_over_samples(KernelTimes& times, std::int64_t rows, std::int64_t columns) const {
    constexpr std::int64_t most_parts = 64;
    double best = 0;
    for (std::int64_t parts = 1; parts <= std::min(most_parts, samples_); parts *= 2) {
      double seconds = product_seconds(device_, precision_,
                                       {parts, rows, columns, (samples_ + parts - 1) / parts});
      if (parts > 1) {
        const double results = static_cast<double>((parts + 1) * rows * columns);
        seconds += memory_seconds(device_, bytes_a_number * results, 1);
      }
      if (parts == 1 || seconds < best) best = seconds;
    }
    times.seconds += best;
    ++times.kernels;  // that the host launches: the library does the rest
  }
  void keep(std::int64_t numbers) {
    times_.activation_bytes +=
        bytes_a_number * static_cast<double>(samples_) * static_cast<double>(numbers);
  }

  // x W + b, with b added by the GEMM's kernel, and both gradients.
  void matrix(std::int64_t inputs, std::int64_t outputs, bool wants_input_gradient,
              KernelTimes& forward, KernelTimes& backward) const {
    multiply(forward, {1, samples_, outputs, inputs});
    multiply_over_samples(backward, outputs, inputs);
    if (wants_input_gradient) multiply(backward, {1, samples_, inputs, outputs});
  }

  void layer(std::int64_t inputs, std::int64_t outputs, bool has_relu, bool wants_input_gradient,
             KernelTimes& forward, KernelTimes& backward) {
    matrix(inputs, outputs, wants_input_gradient, forward, backward);
    move(backward, outputs, 1);  // the bias's gradient
    keep(outputs);
    if (!has_relu) return;
    move(forward, 2 * outputs, 1);
    move(backward, 3 * outputs, 1);
  }

  // Concatenates the bottom's output and pooled rows.
  void join() {
    const std::int64_t numbers = vectors() * model_.width();
    move(times_.top, 2 * numbers, 1);
    move(times_.top_backward, 2 * numbers, 1);
    keep(numbers);
  }

  void multiply_pairs() {
    const std::int64_t all = vectors() * vectors();
    const std::int64_t numbers = vectors() * model_.width();
    multiply(times_.top, {samples_, vectors(), vectors(), model_.width()});
    move(times_.top, 2 * model_.interacted(), 1);  // one of each pair of equal products is used
    keep(model_.interacted());
    move(times_.top_backward, model_.interacted() + all, 1);
    // With respect to both factors, which are the same, so their gradients are summed.
    multiply(times_.top_backward, {samples_, vectors(), model_.width(), vectors()});
    multiply(times_.top_backward, {samples_, vectors(), model_.width(), vectors()});
    move(times_.top_backward, 3 * numbers, 1);
  }

  // x0 (U V x + b) + x, of low rank.
  void cross() {
    const std::int64_t width = model_.interacted();
    matrix(width, model_.cross_rank, true, times_.top, times_.top_backward);
    matrix(model_.cross_rank, width, true, times_.top, times_.top_backward);
    move(times_.top, 6 * width, 2);
    // Gradients with respect to both factors, that of x0 added to those of other layers; the
    // bias's; and that through V added to that of the residual.
    move(times_.top_backward, 9 * width, 3);
    move(times_.top_backward, width, 1);
    move(times_.top_backward, 3 * width, 1);
    keep(2 * width + model_.cross_rank);
  }

  const RecommendationModel& model_;
  const DeviceSpec& device_;
  Precision precision_;
  std::int64_t samples_;
  DenseTimes times_;
};

}  // namespace

DenseTimes dense_times(const RecommendationModel& model, const DeviceSpec& device,
                       Precision precision, std::int64_t batch_size) {
  return DenseTimer(model, device, precision, batch_size).run();
}

}  // namespace pipesim
