#include "exec/run/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "exec/transport/collectives.h"

namespace pipesim::exec {

Reference::Reference(const TrainingJob& training, Device& device)
    : training_(training), device_(device), pool_(device) {
  const LayerSetup setup{device,
                         pool_,
                         training.model,
                         training.micro_batch_size,
                         training.sequence_length,
                         training.seed,
                         training.precision};
  for (int i = 0; i < training.model.layers(); ++i) layers_.push_back(make_layer(setup, i));
  for (Tensor* tensor : {&tokens_, &targets_, &losses_}) {
    *tensor = pool_.take(training.tokens(), Use::receive_buffer);
  }
}

Reference::~Reference() = default;

std::vector<int> Reference::order_of_stage(int stage) const {
  std::vector<int> order;
  for (const Action& action :
       training_.program.actions[training_.program.placement.rank_of(stage)]) {
    const bool adds = action.kind == Kind::W || action.kind == Kind::B;
    if (adds && action.stage == stage) order.push_back(action.microbatch);
  }
  return order;
}

Outcome Reference::run(int iteration) {
  const auto count = static_cast<std::size_t>(training_.program.microbatches);
  std::vector<Microbatch> microbatches(count);
  const std::int64_t rows = training_.rows();
  for (std::size_t j = 0; j < count; ++j) {
    const auto index = static_cast<std::uint32_t>(j);
    const std::int64_t first = index * training_.micro_batch_size;
    const Sample sample =
        draw_sample(training_.text, training_.seed, static_cast<std::uint32_t>(iteration), first,
                    training_.micro_batch_size, training_.sequence_length);
    float* tokens = tokens_.floats() + static_cast<std::int64_t>(j) * rows;
    float* targets = targets_.floats() + static_cast<std::int64_t>(j) * rows;
    device_.upload(tokens, sample.tokens.data(), rows * 4);
    device_.upload(targets, sample.targets.data(), rows * 4);
    microbatches[j] = {static_cast<std::uint32_t>(iteration),
                       index,
                       reinterpret_cast<std::int32_t*>(tokens),
                       reinterpret_cast<std::int32_t*>(targets),
                       losses_.floats() + static_cast<std::int64_t>(j) * rows,
                       first};
  }
  std::vector<std::vector<Saved>> saved;  // [layer][microbatch]
  std::vector<Tensor> passing(count);     // what goes from layer to layer
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    layers_[l]->start_iteration();
    saved.emplace_back(count);
    for (std::size_t j = 0; j < count; ++j) {
      passing[j] = layers_[l]->forward(microbatches[j], std::move(passing[j]), saved[l][j]);
    }
  }
  for (int stage = training_.program.stages() - 1; stage >= 0; --stage) {
    const std::vector<int> order = order_of_stage(stage);
    const int first = training_.first_layer(stage);
    for (int l = first + training_.layout[static_cast<std::size_t>(stage)]; l-- > first;) {
      Layer& layer = *layers_[static_cast<std::size_t>(l)];
      for (const int microbatch : order) {
        const auto j = static_cast<std::size_t>(microbatch);
        Saved& kept = saved[static_cast<std::size_t>(l)][j];
        passing[j] = layer.backward_input(microbatches[j], std::move(passing[j]), kept);
        layer.backward_weight(microbatches[j], kept);
      }
    }
  }
  std::vector<float> losses(static_cast<std::size_t>(losses_.size()));
  device_.download(losses.data(), losses_.memory(), losses_.bytes());
  const Outcome result = outcome(losses);
  const AdamStep step = adam_step(training_, iteration, result.gradient_norm);
  for (const auto& layer : layers_) step_layer(device_, *layer, step);
  return result;
}

Outcome Reference::outcome(const std::vector<float>& losses) {
  const bool tied = training_.model.tied_head;
  if (tied) {
    const Tensor& table = layers_.front()->parameters()[tied_parameter].gradient;
    const Tensor& matrix = layers_.back()->parameters()[tied_parameter].gradient;
    device_.add(table.size(), table.data(), matrix.data(), table.data());
    device_.copy(table.size(), table.data(), matrix.data());
  }
  std::vector<const Tensor*> gradients;
  for (const auto& layer : layers_) {
    for (const Parameter& parameter : layer->parameters()) {
      const bool is_shared =
          tied && layer == layers_.back() && &parameter == &layer->parameters()[tied_parameter];
      if (is_shared) continue;
      gradients.push_back(&parameter.gradient);
    }
  }
  const std::vector<double> parts = SumsOfSquares(device_, pool_, gradients).read();
  const double squares = std::accumulate(parts.begin(), parts.end(), 0.0);
  return {mean_loss(losses), std::sqrt(squares) / static_cast<double>(training_.tokens())};
}

namespace {

// Notes an error of `what`, of which `largest` is the largest value.
void note(const std::string& what, double error, double largest, double divisor,
          Verification& result) {
  if (std::isnan(error)) error = INFINITY;
  const double relative = error == 0 ? 0 : error / largest;  // infinite where largest is 0
  result.bitwise = false;
  result.max_abs_error = std::max(result.max_abs_error, error / divisor);
  if (result.worst.empty() || relative > result.max_rel_error) result.worst = what;
  result.max_rel_error = std::max(result.max_rel_error, relative);
}

template <typename T>
void compare(const std::string& what, std::span<const T> measured, std::span<const T> expected,
             double divisor, Verification& result) {
  if (std::memcmp(measured.data(), expected.data(), measured.size_bytes()) == 0) return;
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    const double error = std::abs(double{measured[i]} - double{expected[i]});
    if (error > difference || std::isnan(error)) difference = error;
    if (std::isnan(difference)) break;
  }
  note(what, difference, largest, divisor, result);
}

using Which = const Tensor Parameter::*;

std::vector<float> values_of_layer(Device& device, const Layer& layer, Which which) {
  std::vector<float> all;
  for (const Parameter& parameter : layer.parameters()) {
    const Tensor& tensor = parameter.*which;
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(tensor.size()));
    device.download(all.data() + at, tensor.memory(), tensor.bytes());
  }
  return all;
}

// Layer by layer, all ranks together, what the one that holds it has of it.
void compare_layers(const TrainingJob& training, Transport& transport, Device& device,
                    const std::vector<std::unique_ptr<Stage>>& stages, Which which,
                    const std::string& what, double divisor, const Reference* reference,
                    Verification* result) {
  for (int l = 0; l < training.model.layers(); ++l) {
    std::vector<float> own;
    for (const auto& stage : stages) {
      for (const auto& layer : stage->layers()) {
        if (layer->index() == l) own = values_of_layer(device, *layer, which);
      }
    }
    const std::vector<Bytes> all = gather(transport, bytes_of(own));
    if (reference == nullptr) continue;
    const auto holder =
        std::ranges::find_if(all, [](const Bytes& bytes) { return !bytes.empty(); });
    const std::vector<float> measured = values_of<float>(*holder);
    const std::vector<float> expected = values_of_layer(device, reference->layer(l), which);
    std::size_t at = 0;
    for (const Parameter& parameter : reference->layer(l).parameters()) {
      const auto size = static_cast<std::size_t>((parameter.*which).size());
      compare(fmt::format("{} of {}", what, parameter.name), std::span(measured).subspan(at, size),
              std::span(expected).subspan(at, size), divisor, *result);
      at += size;
    }
  }
}

}  // namespace

void compare_with_reference(const TrainingJob& training, Transport& transport, Device& device,
                            const std::vector<std::unique_ptr<Stage>>& stages, int iteration,
                            const Outcome& outcome, Reference* reference, Verification* result) {
  if (reference != nullptr) {
    const Outcome expected = reference->run(iteration);
    const auto scalar = [&](const char* what, const double& measured, const double& wanted) {
      compare(fmt::format("{}, iteration {},", what, iteration), std::span(&measured, 1),
              std::span(&wanted, 1), 1, *result);
    };
    scalar("the loss", outcome.loss, expected.loss);
    scalar("the gradient norm", outcome.gradient_norm, expected.gradient_norm);
  }
  const auto layers = [&](Which which, const std::string& what, double divisor) {
    compare_layers(training, transport, device, stages, which, what, divisor, reference, result);
  };
  layers(&Parameter::gradient, fmt::format("in iteration {} the gradient", iteration),
         static_cast<double>(training.tokens()));
  const bool is_last = iteration + 1 == training.warmup + training.iterations;
  if (is_last) layers(&Parameter::weight, "at last the weights", 1);
}

}  // namespace pipesim::exec
