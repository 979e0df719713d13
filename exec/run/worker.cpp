#include "exec/run/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "exec/transport/collectives.h"
#include "sim/schedule/closing.h"

namespace pipesim::exec {
namespace {

// How many compute actions a device may be behind: enough that it never waits for its rank's
// thread, and few enough that memory freed here is soon free there.
constexpr std::size_t max_behind = 3;

}  // namespace

Worker::Worker(const TrainingJob& training, Device& memory, Transport& transport,
               const Clock& clock, const MakeWorkload& make_workload)
    : training_(training),
      device_(memory),
      transport_(transport),
      with_step_(whole_list(transport.rank())),
      without_step_(list_without_step()),
      pool_(memory),
      recorder_(memory, clock, training.record_details,
                memory.host_reaches_memory() && !training.costs),
      beside_(transport, recorder_),
      mailbox_(training.program.placement, training.program.microbatches, training.message_bytes(),
               training.precision, transport, pool_, recorder_, beside_),
      workload_(make_workload(pool_, recorder_, beside_, [this] { poll(); })) {
  for (const auto& [action, awaited] : training.program.dependencies) {
    if (training.program.placement.rank_of(action) != transport.rank()) continue;
    awaited_[ActionKey(action)].push_back(awaited);
  }
  if (!memory.host_reaches_memory()) {
    beside_.also_drive([this] { return mailbox_.look_after(); });
  }
}

Worker::List::List(std::vector<Action> list)
    : actions(std::move(list)),
      reductions(std::ranges::count(actions, Kind::REDUCE_GRAD, &Action::kind)) {}

// A training has all closing actions; on an emulated device the costs determine them.
Worker::List Worker::whole_list(int rank) const {
  Closing closing{.reduces = true,
                  .reduces_tied = training_.model.tied_head,
                  .finds_norm = true,
                  .steps = true};
  if (const auto& costs = training_.costs) {
    const bool has_replicas = training_.data_parallel > 1;
    closing = {.reduces = !costs->reduce_gradients_ns.empty() || has_replicas,
               .reduces_tied = costs->tied_gradients.has_value(),
               .finds_norm = costs->gradient_norm.has_value(),
               .steps = !costs->optimizer_ns.empty() || has_replicas};
  }
  return List(
      with_closing(training_.program.actions[rank], rank, training_.program.placement, closing));
}

Worker::List Worker::list_without_step() const {
  std::vector<Action> list = with_step_.actions;
  std::erase_if(list, [&](const Action& action) {
    return is_of_step(action.kind, training_.accumulation());
  });
  return List(std::move(list));
}

std::optional<Outcome> Worker::run(int iteration, const SaveOf& save_of) {
  const auto tell = [&](const Error& error) {
    return fmt::format("iteration {}, {}: {}", iteration, phase_, error.what());
  };
  try {
    return run_in_time(iteration, save_of);
  } catch (const TimedOut& error) {
    throw TimedOut(tell(error));
  } catch (const PeerLost& error) {
    throw PeerLost(tell(error));
  }
}

std::optional<Outcome> Worker::run_in_time(int iteration, const SaveOf& save_of) {
  const bool steps = training_.pass(iteration).is_last();
  list_ = steps ? &with_step_ : &without_step_;
  phase_ = "before its actions";
  workload_->start_iteration(iteration);
  if (iteration == training_.first_measured()) {
    pool_.reset_peak();
    peak_bytes_ = 0;
    peak_chunks_ = 0;
  }
  recorder_.start_iteration(iteration >= training_.warmup);
  if (training_.starts_together(iteration)) barrier(transport_);
  phase_ = "in its actions";
  const Outcome made = run_list();
  const auto outcome = steps ? std::optional(made) : std::nullopt;
  if (const Save save = save_of ? save_of(outcome) : Save()) {
    phase_ = "saving a checkpoint";
    const int stage = training_.program.placement.name_stage(transport_.rank());
    ActionNote note{make_action(stage, Kind::SAVE), recorder_.mark(), {}, {}, 0};
    note.start = note.reached;
    note.bytes = save();
    note.end = recorder_.mark();
    recorder_.add(note);
  }
  asked_.clear();
  recorder_.finish_iteration();
  mailbox_.forget_marks();
  return outcome;
}

void Worker::note_written(int iteration, std::int64_t bytes, std::int64_t start_monotonic_ns,
                          std::int64_t end_monotonic_ns) {
  const int place = iteration - training_.first_measured();
  if (place < 0) return;
  const int stage = training_.program.placement.name_stage(transport_.rank());
  recorder_.add_beside(static_cast<std::size_t>(place), make_collective(stage, Kind::SAVE, 0),
                       bytes, start_monotonic_ns, end_monotonic_ns);
}

Outcome Worker::run_list() {
  const std::vector<Action>& list = list_->actions;
  Outcome outcome;
  std::int64_t reduced = 0;
  std::optional<Instant> behind;  // the end of the previous action, if that was compute
  posted_ = 0;
  note_memory(recorder_.mark());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Action& action = list[i];
    if (is_compute(action.kind)) {
      // A rank reaches an action directly from the previous one.
      const Instant reached = behind ? *behind : recorder_.mark();
      post_ahead(i);
      await_others(action);
      if (action.joined) await_others(list[i + 1]);
      if (action.joined && workload_->overlaps(action)) {
        announce_reductions(++i);
        behind = run_cell({action, list[i]}, reached);
        continue;
      }
      announce_reductions(i);
      behind = run_compute(make_action(action.stage, action.kind, action.microbatch), reached);
      continue;  // after an action its result comes first
    }
    behind.reset();
    post_ahead(i);
    if (is_send(action.kind)) {
      await_others(action);
      mailbox_.send(make_action(action.stage, action.kind, action.microbatch));
    } else if (action.kind == Kind::UNSHARD || action.kind == Kind::RESHARD) {
      const bool gathers = action.kind == Kind::UNSHARD;
      if (!(gathers ? workload_->unshard(action.stage) : workload_->reshard(action.stage))) {
        const Instant now = recorder_.mark();
        recorder_.add(ActionNote{action, now, now, now, 0});
      }
      note_peak(action);
    } else if (action.kind == Kind::REDUCE_GRAD) {
      // Copies of stages are summed once everything is computed, by exchanges that poll nothing
      // else: sends that wait for a copy from the device would never begin.
      if (training_.program.placement.copies() > 1) mailbox_.finish_iteration();
      workload_->reduce(action.stage, reduced++, list_->reductions);
      note_peak(action);
    } else if (action.kind == Kind::OPTIMIZER) {
      phase_ = "in the optimizer step";
      workload_->step(action.stage, outcome.gradient_norm);
      note_peak(action);
    } else if (is_blocking_collective(action.kind)) {
      do_together(action, outcome);
    }
    poll();
    if (between_actions_) between_actions_();
  }
  mailbox_.finish_iteration();
  beside_.wait_for_all();
  note_memory(recorder_.mark());
  return outcome;
}

void Worker::poll() {
  mailbox_.poll();
  beside_.poll();
}

// As in PyTorch's programs: transfers and RESHARDs may be in between, and the other action of its
// cell.
void Worker::announce_reductions(std::size_t index) {
  const std::vector<Action>& list = list_->actions;
  if (list[index].kind != Kind::W && list[index].kind != Kind::B) return;
  for (std::size_t i = index + 1; i < list.size(); ++i) {
    const Kind kind = list[i].kind;
    if (list[i - 1].joined && is_compute(kind)) continue;
    if (kind == Kind::REDUCE_GRAD && list[i].stage == list[index].stage) {
      workload_->will_reduce(list[i].stage);
    }
    if (!is_transfer(kind) && kind != Kind::RESHARD && kind != Kind::IDLE &&
        kind != Kind::REDUCE_GRAD) {
      return;
    }
  }
}

// Messages and collectives come first, since only the end of the iteration follows.
void Worker::do_together(const Action& action, Outcome& outcome) {
  mailbox_.finish_iteration();
  beside_.wait_for_all();
  note_memory(recorder_.mark());
  if (action.kind == Kind::REDUCE_TIED) {
    phase_ = "adding up tied gradients";
    workload_->reduce_tied(action.stage);
  } else {
    phase_ = "finding the norm of gradients";
    outcome = workload_->find_norm(action.stage);
  }
  note_peak(action);
}

// Posts the receives up to the second compute action from here, so that the
// input of the next one can arrive while this one runs.
void Worker::post_ahead(std::size_t index) {
  const std::vector<Action>& list = list_->actions;
  posted_ = std::max(posted_, index);
  std::size_t compute = 0;
  for (std::size_t i = index; i < list.size() && compute < 2; ++i) {
    if (is_compute(list[i].kind)) ++compute;
    if (i < posted_) continue;
    if (is_receive(list[i].kind)) {
      const Action receive = make_action(list[i].stage, list[i].kind, list[i].microbatch);
      mailbox_.post(receive);
      note_peak(receive);
    }
    posted_ = i + 1;
  }
}

// Actions here follow each other on the device; a SEND does not follow all that was asked of it.
void Worker::await_others(const Action& action) {
  if (awaited_.empty()) return;
  const auto found =
      awaited_.find(ActionKey(make_action(action.stage, action.kind, action.microbatch)));
  if (found == awaited_.end()) return;
  for (const Action& awaited : found->second) {
    if (is_transfer(awaited.kind)) {
      mailbox_.await(awaited);
    } else if (is_send(action.kind) && !asked_.empty()) {
      mailbox_.wait_for(asked_.back());
    }
  }
}

Instant Worker::run_compute(const Action& action, Instant reached) {
  Tensor input = action.kind == Kind::W ? Tensor() : mailbox_.take_input(action);
  workload_->await_start(action, input);
  const ProcessorWatch watch = recorder_.watch();
  ActionNote note{action, reached, recorder_.mark(), {}, 0, 0};
  if (action.kind == Kind::F) {
    peak_chunks_ = std::max(peak_chunks_, ++chunks_);
    note_memory(note.start);
  }
  device_.start_range(("PP:" + to_text(action)).c_str());
  Tensor output = workload_->run(action, std::move(input));
  device_.end_range();
  if (is_backward(action.kind)) --chunks_;
  note.end = recorder_.mark();
  note.preempted_ns = watch.preempted_ns();
  recorder_.add(note);
  if (action.kind != Kind::W) mailbox_.put_output(action, std::move(output), note.end);
  note_peak(action);
  note_memory(note.end);
  keep_up(note.end.value);
  return note.end;
}

Instant Worker::run_cell(const Cell& cell, Instant reached) {
  const auto& [forward, backward] = cell;
  std::array<Tensor, 2> inputs{mailbox_.take_input(forward), mailbox_.take_input(backward)};
  workload_->await_cell(cell, inputs);
  const Instant start = recorder_.mark();
  peak_chunks_ = std::max(peak_chunks_, ++chunks_);
  note_memory(start);
  std::array<Tensor, 2> results = workload_->run_cell(cell, std::move(inputs));
  --chunks_;
  const Instant end = recorder_.mark();
  for (std::size_t i = 0; i < cell.size(); ++i) {
    recorder_.add(ActionNote{cell[i], reached, start, end, 0, 0});
    const Action action = make_action(cell[i].stage, cell[i].kind, cell[i].microbatch);
    mailbox_.put_output(action, std::move(results[i]), end);
    note_peak(action);
  }
  note_memory(end);
  keep_up(end.value);
  return end;
}

void Worker::keep_up(Mark end) {
  asked_.push_back(end);
  if (asked_.size() < max_behind) return;
  mailbox_.wait_for(asked_.front());
  asked_.pop_front();
}

void Worker::note_peak(const Action& action) {
  if (pool_.peak().total() <= peak_bytes_) return;
  peak_bytes_ = pool_.peak().total();
  peak_action_ = action;
}

void Worker::note_memory(Instant time) { recorder_.add(MemoryNote{time, chunks_, pool_.used()}); }

RankMemory Worker::peak_memory() const {
  const UsedBytes& peak = pool_.peak();
  RankMemory memory;
  memory.states = peak.states();
  memory.peak = {peak.working(), peak.working().total(), 0, peak_action_};
  return memory;
}

}  // namespace pipesim::exec
