#include "exec/run/optimizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "exec/model/host_view.h"
#include "exec/run/channels.h"
#include "exec/run/exchange.h"
#include "exec/transport/collectives.h"

namespace pipesim::exec {

AdamStep adam_step(const TrainingJob& training, const TrainingJob::Pass& pass,
                   double gradient_norm) {
  AdamStep adam;
  adam.learning_rate = training.learning_rate;
  adam.beta1 = adam_beta1;
  adam.beta2 = adam_beta2;
  adam.correction1 = static_cast<float>(1 - std::pow(double{adam_beta1}, pass.step + 1));
  adam.correction2 = static_cast<float>(1 - std::pow(double{adam_beta2}, pass.step + 1));
  const double clip = std::min(1.0, largest_gradient_norm / (gradient_norm + 1e-6));
  adam.gradient_scale = static_cast<float>(clip / static_cast<double>(training.step_tokens(pass)));
  return adam;
}

void step_all(Device& device, const std::vector<Piece>& pieces, AdamStep step) {
  for (const Piece& piece : pieces) {
    step.weight_decay = piece.decays ? weight_decay : 0;
    device.adamw(piece.range.size(), step, piece.gradient.floats(), piece.weight.floats(),
                 piece.first.floats(), piece.second.floats(), piece.rounded.data());
  }
}

SumsOfSquares::SumsOfSquares(Device& device, Pool& pool, const std::vector<Slice>& numbers)
    : device_(&device), count_(numbers.size()) {
  if (numbers.empty()) return;
  there_ = pool.take(floats_for(bytes()), Use::activations);
  auto* sum = static_cast<double*>(there_.memory());
  for (const Slice& slice : numbers) device.sum_of_squares(slice.size(), slice.floats(), sum++);
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

Optimizer::Optimizer(const TrainingJob& training, Device& device, RankGroups& groups, Pool& pool,
                     std::vector<std::unique_ptr<Stage>>& stages, Replicas& replicas,
                     Recorder& recorder)
    : training_(training),
      device_(device),
      groups_(groups),
      pool_(pool),
      stages_(stages),
      replicas_(replicas),
      recorder_(recorder) {}

bool Optimizer::is_tied(const Piece& piece) const {
  const Model& model = training_.model;
  return model.tied_head && piece.parameter == tied_parameter &&
         (model.is_embedding(piece.layer) || model.is_head(piece.layer));
}

std::vector<Piece> Optimizer::counted(const Stage& stage, bool partial) const {
  const bool has_copies = groups_.tensor.rank() > 0;
  std::vector<Piece> found = stage.store().pieces();
  std::erase_if(found, [&](const Piece& piece) {
    return is_tied(piece) || piece.is_partial != partial || (has_copies && piece.is_copy);
  });
  return found;
}

std::vector<Piece> Optimizer::tied_pieces(int layer) const {
  std::vector<Piece> found;
  for (const auto& stage : stages_) {
    for (const Piece& piece : stage->store().pieces()) {
      if (is_tied(piece) && piece.layer == layer) found.push_back(piece);
    }
  }
  return found;
}

Tensor Optimizer::exchange_gradients(const std::vector<Piece>& own, int other) {
  std::int64_t size = 0;
  for (const Piece& piece : own) size += piece.range.size();
  Tensor theirs = pool_.take(size, Use::receive_buffer);
  if (size == 0) return theirs;
  Tensor packed;
  if (own.size() > 1) {
    packed = pool_.take(size, Use::send_buffer);
    std::int64_t at = 0;
    for (const Piece& piece : own) {
      device_.copy(piece.range.size(), piece.gradient.floats(), packed.floats() + at);
      at += piece.range.size();
    }
  }
  const Slice ours = packed.empty() ? own.front().gradient : packed.all();
  Transport& pipeline = groups_.pipeline;
  if (DeviceLink* link = pipeline.link()) {
    const Mark there = device_.mark();
    const int rank = pipeline.rank();
    const Mark sent =
        link->send({rank, other, Lane::tied_gradient}, ours.memory(), ours.bytes(), there);
    const Mark received =
        link->receive({other, rank, Lane::tied_gradient}, theirs.memory(), theirs.bytes(), there);
    wait_on_link(device_, *link, received, pipeline.patience(), a_message_from(other));
    wait_on_link(device_, *link, sent, pipeline.patience(), a_taker_at(other));
    return theirs;
  }
  HostView sent(device_, ours);
  HostView received(device_, theirs.all());
  sent.fetch();
  exchange(pipeline, other, sent.bytes(), received.bytes());
  received.put();
  return theirs;
}

Optimizer::Reduced Optimizer::reduced(const std::vector<Piece>& pieces) {
  std::vector<Part> parts;
  std::vector<Slice> gradients;
  for (const Piece& piece : pieces) {
    parts.push_back({piece.layer, piece.parameter, groups_.tensor.rank(), piece.range.begin, 0});
    gradients.push_back(piece.gradient);
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
  record(stage.index(), Kind::REDUCE_GRAD, [&] {
    if (training_.program.placement.copies() > 1) return add_copies();
    reduced_.insert_or_assign(stage.index(), reduced(counted(stage, false)));
  });
}

// One array after the other, so that room for one is enough. Both ranks end with the same sums,
// since float addition commutes.
void Optimizer::add_copies() {
  const Placement& placement = training_.program.placement;
  const int rank = groups_.pipeline.rank();
  for (const auto& stage : stages_) {
    const int first = placement.rank_of(stage->index(), 0);
    const int other = first == rank ? placement.rank_of(stage->index(), 1) : first;
    for (const Piece& piece : stage->store().pieces()) {
      const Tensor theirs = exchange_gradients({piece}, other);
      float* sum = piece.gradient.floats();
      device_.add(piece.range.size(), sum, theirs.floats(), sum);
    }
  }
  if (placement.has(rank, 0) && placement.has(rank, placement.stages() - 1)) {
    add_tied(tied_pieces(0), tied_pieces(training_.model.layers() - 1));
  }
}

// For both ends on one rank.
void Optimizer::add_tied(const std::vector<Piece>& table, const std::vector<Piece>& matrix) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int64_t size = table[i].range.size();
    float* sum = table[i].gradient.floats();
    device_.add(size, sum, matrix[i].gradient.floats(), sum);
    device_.copy(size, sum, matrix[i].gradient.floats());
  }
}

bool Optimizer::counts(int stage) const {
  return groups_.likes.rank() == 0 &&
         training_.program.placement.rank_of(stage) == groups_.pipeline.rank();
}

void Optimizer::add_up_partial() {
  std::vector<Slice> partial;
  std::int64_t size = 0;
  for (const auto& stage : stages_) {
    for (const Piece& piece : stage->store().pieces()) {
      if (!piece.is_partial) continue;
      partial.push_back(piece.gradient);
      size += piece.gradient.size();
    }
  }
  if (size == 0) return;
  const Tensor packed = pool_.take(size, Use::workspace);
  const auto copy_each = [&](const auto& copy) {
    std::int64_t at = 0;
    for (const Slice& own : partial) {
      copy(own, packed.all().part(at, own.size()));
      at += own.size();
    }
  };
  copy_each([&](const Slice& own, const Slice& there) {
    device_.copy(own.size(), own.data(), there.data());
  });
  run(all_reduce(groups_.tensor, pool_, packed.all(), first_free_tag));
  copy_each([&](const Slice& own, const Slice& there) {
    device_.copy(own.size(), there.data(), own.data());
  });
}

// Embedding and head each hold the shared matrix and the gradient of their own use of it.
// Both end with the sum, which is the same on both sides, since float addition commutes.
void Optimizer::reduce_tied(int stage) {
  record(stage, Kind::REDUCE_TIED, [&] {
    const std::vector<Piece> table = tied_pieces(0);
    const std::vector<Piece> matrix = tied_pieces(training_.model.layers() - 1);
    const Placement& placement = training_.program.placement;
    const int first = placement.rank_of(0);
    const int last = placement.rank_of(placement.stages() - 1);
    if (first == last) return add_tied(table, matrix);
    const bool is_first = groups_.pipeline.rank() == first;
    const std::vector<Piece>& own = is_first ? table : matrix;
    const Tensor theirs = exchange_gradients(own, is_first ? last : first);
    std::int64_t at = 0;
    for (const Piece& piece : own) {
      float* sum = piece.gradient.floats();
      device_.add(piece.range.size(), sum, theirs.floats() + at, sum);
      at += piece.range.size();
    }
  });
}

// The same on all ranks.
Outcome Optimizer::outcome_of(const TrainingJob::Pass& pass, std::vector<Part> parts) {
  Outcome outcome;
  const std::vector<Bytes> all = gather(groups_.whole, bytes_of(parts));
  if (groups_.whole.rank() == 0) {
    parts.clear();
    for (const Bytes& bytes : all) {
      const auto theirs = values_of<Part>(bytes);
      parts.insert(parts.end(), theirs.begin(), theirs.end());
    }
    std::ranges::sort(parts, {}, [](const Part& part) {
      return std::tuple(part.layer, part.parameter, part.shard, part.begin);
    });
    double squares = 0;
    for (const Part& part : parts) {
      outcome.stops = outcome.stops || part.layer == stop_part;
      (part.layer == loss_part ? outcome.loss : squares) += part.value;
    }
    outcome.loss /= training_.data_parallel * training_.program.placement.copies();
    outcome.gradient_norm = std::sqrt(squares) / static_cast<double>(training_.step_tokens(pass));
  }
  return broadcast_value(groups_.whole, outcome);
}

Outcome Optimizer::find_norm(int stage, const TrainingJob::Pass& pass,
                             const std::vector<float>& losses, bool stops) {
  Outcome outcome;
  record(stage, Kind::GRAD_NORM, [&] {
    add_up_partial();
    std::vector<Part> parts;
    if (stops) parts.push_back({.layer = stop_part});
    if (!losses.empty() && groups_.tensor.rank() == 0) {
      // The first of two copies is the one whose last stage is on the last rank.
      const Placement& placement = training_.program.placement;
      const bool is_second = placement.rank_of(placement.stages() - 1) != groups_.pipeline.rank();
      parts.push_back({loss_part, groups_.replica, is_second ? 1 : 0, 0, mean_loss(losses)});
    }
    for (const auto& own : stages_) {
      if (!counts(own->index())) continue;
      const auto found = reduced_.find(own->index());
      if (found != reduced_.end()) {
        add_parts(found->second, parts);
      } else {
        add_parts(reduced(counted(*own, false)), parts);
      }
      add_parts(reduced(counted(*own, true)), parts);
    }
    // The tied matrix is the embedding's.
    if (counts(0)) add_parts(reduced(tied_pieces(0)), parts);
    reduced_.clear();
    outcome = outcome_of(pass, std::move(parts));
  });
  return outcome;
}

void Optimizer::step(int stage, const TrainingJob::Pass& pass, double gradient_norm) {
  const AdamStep adam = adam_step(training_, pass, gradient_norm);
  record(stage, Kind::OPTIMIZER, [&] {
    for (const auto& own : stages_) {
      step_all(device_, own->store().pieces(), adam);
      replicas_.gather_stepped(*own);
    }
  });
}

}  // namespace pipesim::exec
