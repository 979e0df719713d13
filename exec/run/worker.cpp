#include "exec/run/worker.h"

#include <algorithm>
#include <utility>

#include "exec/transport/collectives.h"

namespace pipesim::exec {

Worker::Worker(const Training& training, Device& device, Transport& transport)
    : training_(training),
      device_(device),
      transport_(transport),
      pool_(device),
      recorder_(training.record_details),
      mailbox_(training.program.placement, training.program.microbatches,
               training.rows() * training.model.hidden_size, transport, pool_, recorder_),
      optimizer_(training, device, transport, pool_, stages_, recorder_) {
  const LayerSetup layers{
      device,       pool_, training.model, training.micro_batch_size, training.sequence_length,
      training.seed};
  for (const int stage : training.program.placement.stages_of(transport.rank())) {
    const Stage::Setup setup{layers,
                             stage,
                             training.first_layer(stage),
                             training.layout[static_cast<std::size_t>(stage)],
                             training.program.microbatches,
                             training.recompute};
    stages_.push_back(std::make_unique<Stage>(setup, recorder_, [this] { mailbox_.poll(); }));
    has_embedding_ = has_embedding_ || stages_.back()->has_embedding();
    has_head_ = has_head_ || stages_.back()->has_head();
  }
  if (has_embedding_) tokens_ = pool_.take(training.tokens(), Use::receive_buffer);
  if (has_head_) {
    targets_ = pool_.take(training.tokens(), Use::receive_buffer);
    losses_ = pool_.take(training.tokens(), Use::receive_buffer);
  }
}

void Worker::load_samples(int iteration) {
  if (!has_embedding_ && !has_head_) return;
  for (int j = 0; j < training_.program.microbatches; ++j) {
    const Sample sample = draw_sample(
        training_.text, training_.seed, static_cast<std::uint32_t>(iteration),
        static_cast<std::uint32_t>(j), training_.micro_batch_size, training_.sequence_length);
    const std::int64_t bytes = training_.rows() * static_cast<std::int64_t>(sizeof(std::int32_t));
    const std::int64_t at = j * training_.rows();
    if (has_embedding_) device_.upload(tokens_.data() + at, sample.tokens.data(), bytes);
    if (has_head_) device_.upload(targets_.data() + at, sample.targets.data(), bytes);
  }
}

std::vector<float> Worker::read_losses() const {
  std::vector<float> losses(static_cast<std::size_t>(losses_.size()));
  if (has_head_) device_.download(losses.data(), losses_.data(), losses_.bytes());
  return losses;
}

Microbatch Worker::microbatch(const Action& action) const {
  const std::int64_t at = action.microbatch * training_.rows();
  Microbatch microbatch;
  microbatch.step = static_cast<std::uint32_t>(iteration_);
  microbatch.index = static_cast<std::uint32_t>(action.microbatch);
  if (has_embedding_) microbatch.tokens = reinterpret_cast<std::int32_t*>(tokens_.data()) + at;
  if (has_head_) {
    microbatch.targets = reinterpret_cast<std::int32_t*>(targets_.data()) + at;
    microbatch.losses = losses_.data() + at;
  }
  return microbatch;
}

Stage& Worker::stage_of(const Action& action) const {
  const int chunk = training_.program.placement.chunk_of(action.stage);
  return *stages_[static_cast<std::size_t>(chunk)];
}

Outcome Worker::run(int iteration) {
  iteration_ = iteration;
  load_samples(iteration);
  for (const auto& stage : stages_) stage->start_iteration();
  if (iteration == training_.warmup) {
    pool_.reset_peak();
    peak_bytes_ = 0;
    peak_chunks_ = 0;
  }
  recorder_.start_iteration(iteration >= training_.warmup);
  barrier(transport_);
  run_list();
  mailbox_.finish_iteration();
  note_memory();
  const Outcome outcome = optimizer_.reduce(read_losses());
  note_peak(make_action(stages_.front()->index(), Kind::REDUCE_GRAD));
  optimizer_.step(iteration, outcome);
  recorder_.finish_iteration();
  return outcome;
}

void Worker::run_list() {
  const auto actions = training_.program.actions[transport_.rank()];
  posted_ = 0;
  note_memory();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::int64_t reached = now_ns();
    post_ahead(i);
    const Action& action = actions[i];
    if (is_compute(action.kind)) {
      run_compute(make_action(action.stage, action.kind, action.microbatch), reached);
    } else if (is_send(action.kind)) {
      mailbox_.send(make_action(action.stage, action.kind, action.microbatch));
    } else if (action.kind == Kind::UNSHARD || action.kind == Kind::RESHARD) {
      // Nothing to do: every rank holds the whole parameters of its stages.
      recorder_.add(ActionRecord{action, reached, reached, reached, 0});
    }
    mailbox_.poll();
  }
}

// Posts the receives up to the second compute action from here, so that the
// input of the next one can arrive while this one runs.
void Worker::post_ahead(std::size_t index) {
  const auto actions = training_.program.actions[transport_.rank()];
  posted_ = std::max(posted_, index);
  std::size_t compute = 0;
  for (std::size_t i = index; i < actions.size() && compute < 2; ++i) {
    if (is_compute(actions[i].kind)) ++compute;
    if (i < posted_) continue;
    if (is_receive(actions[i].kind)) {
      const Action receive = make_action(actions[i].stage, actions[i].kind, actions[i].microbatch);
      mailbox_.post(receive);
      note_peak(receive);
    }
    posted_ = i + 1;
  }
}

void Worker::run_compute(const Action& action, std::int64_t reached_ns) {
  Stage& stage = stage_of(action);
  Tensor input = action.kind == Kind::W ? Tensor() : mailbox_.take_input(action);
  ActionRecord record{action, reached_ns, now_ns(), 0, 0};
  Tensor output;
  switch (action.kind) {
    case Kind::F:
      peak_chunks_ = std::max(peak_chunks_, ++chunks_);
      note_memory();
      output = stage.forward(microbatch(action), std::move(input));
      break;
    case Kind::I:
      output = stage.backward_input(microbatch(action), std::move(input));
      --chunks_;
      break;
    case Kind::B:
      output = stage.backward(microbatch(action), std::move(input));
      --chunks_;
      break;
    default: stage.backward_weight(microbatch(action)); break;
  }
  record.end_ns = now_ns();
  recorder_.add(record);
  if (action.kind != Kind::W) mailbox_.put_output(action, std::move(output));
  note_peak(action);
  note_memory();
}

void Worker::note_peak(const Action& action) {
  if (pool_.peak().total() <= peak_bytes_) return;
  peak_bytes_ = pool_.peak().total();
  peak_action_ = action;
}

void Worker::note_memory() { recorder_.add(MemoryRecord{now_ns(), chunks_, pool_.used()}); }

RankMemory Worker::peak_memory() const {
  const UsedBytes& peak = pool_.peak();
  RankMemory memory;
  memory.states = peak.states();
  memory.peak = {peak.working(), peak.working().total(), 0, peak_action_};
  return memory;
}

}  // namespace pipesim::exec
