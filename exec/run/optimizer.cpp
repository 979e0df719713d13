#include "exec/run/optimizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "exec/model/host_view.h"
#include "exec/run/channels.h"
#include "exec/transport/collectives.h"

namespace pipesim::exec {

AdamStep adam_step(const TrainingJob& training, int step, double gradient_norm) {
  AdamStep adam;
  adam.learning_rate = training.learning_rate;
  adam.beta1 = adam_beta1;
  adam.beta2 = adam_beta2;
  adam.correction1 = static_cast<float>(1 - std::pow(double{adam_beta1}, step + 1));
  adam.correction2 = static_cast<float>(1 - std::pow(double{adam_beta2}, step + 1));
  const double clip = std::min(1.0, largest_gradient_norm / (gradient_norm + 1e-6));
  adam.gradient_scale = static_cast<float>(clip / static_cast<double>(training.tokens()));
  return adam;
}

void step_layer(Device& device, Layer& layer, AdamStep step) {
  for (Parameter& parameter : layer.parameters()) {
    step.weight_decay = parameter.decays ? weight_decay : 0;
    device.adamw(parameter.weight.size(), step, parameter.gradient.floats(),
                 parameter.weight.floats(), parameter.first.floats(), parameter.second.floats(),
                 parameter.rounded.data());
  }
}

SumsOfSquares::SumsOfSquares(Device& device, Pool& pool, const std::vector<const Tensor*>& tensors)
    : device_(&device), count_(tensors.size()) {
  if (tensors.empty()) return;
  there_ = pool.take(floats_for(bytes()), Use::activations);
  auto* sum = static_cast<double*>(there_.memory());
  for (const Tensor* tensor : tensors) {
    device.sum_of_squares(tensor->size(), tensor->floats(), sum++);
  }
}

std::vector<double> SumsOfSquares::read() const {
  std::vector<double> sums(count_);
  if (count_ > 0) device_->download(sums.data(), there_.memory(), bytes());
  return sums;
}

double mean_loss(const std::vector<float>& losses) {
  double sum = 0;
  for (const float loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

Optimizer::Optimizer(const TrainingJob& training, Device& device, Transport& transport, Pool& pool,
                     std::vector<std::unique_ptr<Stage>>& stages, Recorder& recorder)
    : training_(training),
      device_(device),
      transport_(transport),
      pool_(pool),
      stages_(stages),
      recorder_(recorder) {}

Layer* Optimizer::layer_at(int index) const {
  for (const auto& stage : stages_) {
    for (const auto& layer : stage->layers()) {
      if (layer->index() == index) return layer.get();
    }
  }
  return nullptr;
}

// Embedding and head each hold the shared matrix and the gradient of their own
// use of it. Where they live on two ranks, this gets the other's.
Tensor Optimizer::exchange_tied_gradient() {
  if (!training_.model.tied_head) return {};
  const Layer* embedding = layer_at(0);
  const Layer* head = layer_at(training_.model.layers() - 1);
  if ((embedding == nullptr) == (head == nullptr)) return {};  // both here, or none
  const Placement& placement = training_.program.placement;
  const int other = placement.rank_of(embedding != nullptr ? placement.stages() - 1 : 0);
  const Tensor& own =
      (embedding != nullptr ? embedding : head)->parameters()[tied_parameter].gradient;
  Tensor theirs = pool_.take(own.size(), Use::receive_buffer);
  if (DeviceLink* link = transport_.link()) {
    const Mark there = device_.mark();
    const int rank = transport_.rank();
    const Mark sent =
        link->send({rank, other, Lane::tied_gradient}, own.memory(), own.bytes(), there);
    const Mark received =
        link->receive({other, rank, Lane::tied_gradient}, theirs.memory(), theirs.bytes(), there);
    wait_on_link(device_, *link, received, transport_.patience(), a_message_from(other));
    wait_on_link(device_, *link, sent, transport_.patience(), a_taker_at(other));
    return theirs;
  }
  HostView sent(device_, own, own.bytes());
  HostView received(device_, theirs, theirs.bytes());
  sent.fetch();
  exchange(transport_, other, sent.bytes(), received.bytes());
  received.put();
  return theirs;
}

// Both leave with the sum, which is the same on both sides, since float
// addition commutes.
void Optimizer::add_tied_gradient(const Layer& layer, const Tensor& theirs) {
  const Model& model = training_.model;
  const bool shares = model.is_embedding(layer.index()) || model.is_head(layer.index());
  if (!model.tied_head || !shares) return;
  const Tensor& own = layer.parameters()[tied_parameter].gradient;
  if (!theirs.empty()) {
    device_.add(own.size(), own.data(), theirs.data(), own.data());
  } else if (model.is_embedding(layer.index())) {
    const Tensor& heads = layer_at(model.layers() - 1)->parameters()[tied_parameter].gradient;
    device_.add(own.size(), own.data(), heads.data(), own.data());
    device_.copy(own.size(), own.data(), heads.data());
  }
}

bool Optimizer::is_tied(const Layer& layer, std::size_t parameter) const {
  const Model& model = training_.model;
  return model.tied_head && parameter == tied_parameter &&
         (model.is_embedding(layer.index()) || model.is_head(layer.index()));
}

Optimizer::Reduced Optimizer::reduced(
    const std::vector<std::pair<const Layer*, std::size_t>>& parameters) {
  std::vector<Part> parts;
  std::vector<const Tensor*> gradients;
  for (const auto& [layer, parameter] : parameters) {
    parts.push_back({layer->index(), static_cast<std::int32_t>(parameter), 0});
    gradients.push_back(&layer->parameters()[parameter].gradient);
  }
  return {std::move(parts), SumsOfSquares(device_, pool_, gradients)};
}

void Optimizer::add_parts(const Reduced& reduced, std::vector<Part>& parts) {
  const std::vector<double> squares = reduced.squares.read();
  for (std::size_t i = 0; i < squares.size(); ++i) {
    parts.push_back(reduced.parts[i]);
    parts.back().value = squares[i];
  }
}

template <typename Work>
void Optimizer::record(int stage, Kind kind, const Work& work) {
  ActionNote note{make_action(stage, kind), recorder_.mark(), {}, {}, 0};
  note.start = note.reached;
  work();
  note.end = recorder_.mark();
  recorder_.add(note);
}

void Optimizer::reduce(const Stage& stage) {
  std::vector<std::pair<const Layer*, std::size_t>> parameters;
  for (const auto& layer : stage.layers()) {
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) {
      if (!is_tied(*layer, i)) parameters.emplace_back(layer.get(), i);
    }
  }
  record(stage.index(), Kind::REDUCE_GRAD,
         [&] { reduced_.insert_or_assign(stage.index(), reduced(parameters)); });
}

void Optimizer::reduce_tied(int stage) {
  record(stage, Kind::REDUCE_TIED, [&] {
    const Tensor theirs = exchange_tied_gradient();
    for (const auto& own : stages_) {
      for (const auto& layer : own->layers()) add_tied_gradient(*layer, theirs);
    }
  });
}

// The same on all ranks.
Outcome Optimizer::outcome_of(std::vector<Part> parts) {
  Outcome outcome;
  const std::vector<Bytes> all = gather(transport_, bytes_of(parts));
  if (transport_.rank() == 0) {
    parts.clear();
    for (const Bytes& bytes : all) {
      const auto theirs = values_of<Part>(bytes);
      parts.insert(parts.end(), theirs.begin(), theirs.end());
    }
    std::ranges::sort(parts, {},
                      [](const Part& part) { return std::tuple(part.layer, part.parameter); });
    double squares = 0;
    for (const Part& part : parts) {
      (part.layer == loss_part ? outcome.loss : squares) += part.value;
    }
    outcome.gradient_norm = std::sqrt(squares) / static_cast<double>(training_.tokens());
  }
  return broadcast_value(transport_, outcome);
}

Outcome Optimizer::find_norm(int stage, const std::vector<float>& losses) {
  Outcome outcome;
  record(stage, Kind::GRAD_NORM, [&] {
    std::vector<Part> parts;
    if (!losses.empty()) parts.push_back({loss_part, 0, mean_loss(losses)});
    for (const auto& [reduced_stage, own] : reduced_) add_parts(own, parts);
    reduced_.clear();
    // The tied matrix is the embedding's.
    const Layer* embedding = layer_at(0);
    if (training_.model.tied_head && embedding != nullptr) {
      add_parts(reduced({{embedding, tied_parameter}}), parts);
    }
    outcome = outcome_of(std::move(parts));
  });
  return outcome;
}

void Optimizer::step(int stage, int iteration, double gradient_norm) {
  const AdamStep adam = adam_step(training_, iteration, gradient_norm);
  record(stage, Kind::OPTIMIZER, [&] {
    for (const auto& own : stages_) {
      for (const auto& layer : own->layers()) step_layer(device_, *layer, adam);
    }
  });
}

}  // namespace pipesim::exec
