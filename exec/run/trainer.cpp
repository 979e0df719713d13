#include "exec/run/trainer.h"

#include <utility>

#include "sim/cost/estimate/direct_exchange.h"

namespace pipesim::exec {

Trainer::Trainer(const TrainingJob& training, Device& device, RankGroups& groups, Pool& pool,
                 Recorder& recorder, OverlappedCollectives& beside,
                 const std::function<void()>& between_layers)
    : training_(training),
      device_(device),
      tensor_(groups.tensor, pool, recorder, beside),
      layers_(training.layers(device, pool, tensor_.ranks() > 1 ? &tensor_ : nullptr)),
      rank_(groups.pipeline.rank()),
      replica_(groups.replica),
      replicas_(
          groups, pool, beside,
          {training.library_sums, training.gathers_layers(), reduces_in_turn(training.replicas())}),
      optimizer_(training, device, groups, pool, stages_, replicas_, recorder),
      place_(SavedPlace::of(groups)) {
  layers_.recompute = training.recompute;
  for (const int stage : training.program.placement.stages_of(groups.pipeline.rank())) {
    const Stage::Setup setup{layers_,
                             stage,
                             training.first_layer(stage),
                             training.layout[static_cast<std::size_t>(stage)],
                             training.program.microbatches,
                             training.split(groups.sharers.rank()),
                             training.cuts(),
                             training.gathers_layers()};
    stages_.push_back(std::make_unique<Stage>(setup, recorder, between_layers));
    Stage& own = *stages_.back();
    if (replicas_.exist()) {
      own.when_gradients([this, &own](std::int64_t begin) { replicas_.has_gradients(own, begin); });
      own.before_layers(
          {[this, &own](std::size_t layer, bool back) { replicas_.await_layer(own, layer, back); },
           [this, &own](std::size_t layer) { replicas_.make_room(own, layer); }});
    }
    has_embedding_ = has_embedding_ || stages_.back()->has_embedding();
    has_head_ = has_head_ || stages_.back()->has_head();
  }
  if (replicas_.exist()) replicas_.take_room(stages_);
  if (has_embedding_) tokens_ = pool.take(training.replica_tokens(), Use::receive_buffer);
  if (has_head_) {
    targets_ = pool.take(training.replica_tokens(), Use::receive_buffer);
    losses_ = pool.take(training.replica_tokens() * training.most_passes(), Use::receive_buffer);
  }
}

void Trainer::start_iteration(int iteration) {
  pass_ = training_.pass(iteration);
  for (const auto& stage : stages_) {
    if (pass_.is_first()) {
      stage->start_step();
    } else {
      stage->check_passed();
    }
  }
  replicas_.start_iteration();
  if (!has_embedding_ && !has_head_) return;
  for (int j = 0; j < training_.program.microbatches; ++j) {
    const Sample sample =
        draw_sample(training_.text, training_.seed, static_cast<std::uint32_t>(pass_.step),
                    training_.first_sequence(pass_.index, replica_, j), training_.micro_batch_size,
                    training_.sequence_length);
    const std::int64_t bytes = training_.rows() * static_cast<std::int64_t>(sizeof(std::int32_t));
    const std::int64_t at = j * training_.rows();
    const auto put = [&](const Tensor& to, const std::vector<std::int32_t>& tokens) {
      device_.upload(to.floats() + at, own_places(layers_, tokens).data(), bytes);
    };
    if (has_embedding_) put(tokens_, sample.tokens);
    if (has_head_) put(targets_, sample.targets);
  }
}

std::vector<float> Trainer::read_losses() const {
  if (!has_head_) return {};
  const Slice all = losses_.all().part(0, training_.replica_tokens() * pass_.count);
  std::vector<float> losses(static_cast<std::size_t>(all.size()));
  device_.download(losses.data(), all.memory(), all.bytes());
  const Placement& placement = training_.program.placement;
  if (placement.copies() == 1) return losses;
  // For the microbatches whose heads are on this rank.
  const int microbatches = training_.program.microbatches;
  std::vector<float> own;
  for (int i = 0; i < pass_.count * microbatches; ++i) {
    const int copy = placement.copy_of(i % microbatches);
    if (placement.rank_of(placement.stages() - 1, copy) != rank_) continue;
    const auto begin = losses.begin() + i * training_.rows();
    own.insert(own.end(), begin, begin + training_.rows());
  }
  return own;
}

std::vector<SavedArray> Trainer::saved_arrays(int passes) const {
  return exec::saved_arrays(training_, place_, stages_, passes, losses_.all());
}

void Trainer::load(const CheckpointReader& checkpoint, int passes) {
  for (const auto& stage : stages_) {
    load_states(checkpoint, training_.model, device_, stage->store(), plain(stage->layers()));
  }
  load_passes(training_, place_, checkpoint, device_, stages_, passes, losses_.all());
}

Microbatch Trainer::microbatch(const Action& action) const {
  const std::int64_t at = action.microbatch * training_.rows();
  Microbatch microbatch;
  microbatch.step = static_cast<std::uint32_t>(pass_.step);
  microbatch.index = static_cast<std::uint32_t>(action.microbatch);
  microbatch.first_sequence = training_.first_sequence(pass_.index, replica_, action.microbatch);
  if (has_embedding_) microbatch.tokens = reinterpret_cast<std::int32_t*>(tokens_.floats()) + at;
  if (has_head_) {
    microbatch.targets = reinterpret_cast<std::int32_t*>(targets_.floats()) + at;
    microbatch.losses = losses_.floats() + pass_.index * training_.replica_tokens() + at;
  }
  return microbatch;
}

Stage& Trainer::stage_at(int index) {
  const int chunk = training_.program.placement.chunk_of(index);
  return *stages_[static_cast<std::size_t>(chunk)];
}

void Trainer::await_start(const Action& action, const Tensor& /*input*/) {
  if (!replicas_.exist()) return;
  Stage& stage = stage_at(action.stage);
  replicas_.await_whole(stage);
  if (action.kind == Kind::F) replicas_.await_layer(stage, 0, false);
  if (action.kind == Kind::I || action.kind == Kind::B) {
    replicas_.await_layer(stage, stage.layers().size() - 1, true);
  }
  if (action.kind == Kind::B || action.kind == Kind::W) replicas_.await_room(stage);
}

Tensor Trainer::run(const Action& action, Tensor input) {
  Stage& stage = stage_at(action.stage);
  switch (action.kind) {
    case Kind::F: return stage.forward(microbatch(action), std::move(input));
    case Kind::I: return stage.backward_input(microbatch(action), std::move(input));
    case Kind::B: return stage.backward(microbatch(action), std::move(input));
    default: stage.backward_weight(microbatch(action)); return {};
  }
}

void Trainer::reduce(int stage, std::int64_t /*number*/, std::int64_t /*count*/) {
  if (replicas_.exist()) {
    replicas_.reduce(stage_at(stage));
  } else {
    optimizer_.reduce(stage_at(stage));
  }
}

void Trainer::will_reduce(int stage) {
  if (replicas_.exist()) replicas_.will_reduce(stage_at(stage));
}

bool Trainer::unshard(int stage) { return replicas_.exist() && replicas_.unshard(stage_at(stage)); }

bool Trainer::reshard(int stage) { return replicas_.exist() && replicas_.reshard(stage_at(stage)); }

}  // namespace pipesim::exec
