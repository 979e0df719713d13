#include "exec/run/emulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "exec/run/training.h"
#include "exec/transport/collectives.h"
#include "sim/cost/estimate/direct_exchange.h"
#include "traces/dependency.h"

namespace pipesim::exec {
namespace {

constexpr auto time_bytes = static_cast<std::int64_t>(sizeof(std::int64_t));

}  // namespace

std::string_view pace_name(EmulationPace pace) {
  return pace == EmulationPace::wall ? "wall" : "anchored";
}

Emulation::Emulation(const TrainingJob& training, RankGroups& groups, Pool& pool,
                     Recorder& recorder, OverlappedCollectives& beside)
    : training_(training),
      program_(training.program),
      costs_(*training.costs),
      pace_(training.pace),
      rank_(groups.pipeline.rank()),
      transport_(groups.pipeline),
      whole_(groups.whole),
      pool_(pool),
      recorder_(recorder),
      beside_(beside),
      arrays_(pool.device()),
      replicas_(
          groups, arrays_, beside,
          {.by_library = training.library_sums, .in_turn = reduces_in_turn(training.replicas())}) {
  const StateBytes states = costs_.states(program_.placement)[static_cast<std::size_t>(rank_)];
  pool.charge(Use::weights, states.weights);
  pool.charge(Use::gradients, states.gradients);
  pool.charge(Use::optimizer, states.optimizer);
  if (!replicas_.exist()) return;
  const bool rounds = costs_.replicas && costs_.replicas->weight_bytes == 2;
  for (const int stage : program_.placement.stages_of(rank_)) {
    const EmulatedStates::Setup setup{stage,
                                      costs_of(stage).parameters,
                                      training.split(groups.sharers.rank()),
                                      training.cuts(),
                                      rounds ? Number::bfloat16 : Number::float32,
                                      costs_of(stage).unsharded_bytes};
    states_.push_back(std::make_unique<EmulatedStates>(setup, arrays_, pool));
  }
}

EmulatedStates& Emulation::states_of(int stage) {
  return *states_[static_cast<std::size_t>(program_.placement.chunk_of(stage))];
}

std::vector<std::int64_t> Emulation::message_bytes(const Costs& costs, EmulationPace pace) {
  std::vector<std::int64_t> bytes;
  for (const StageCosts& stage : costs.stages) {
    bytes.push_back(pace == EmulationPace::wall ? stage.output_bytes
                                                : std::max(stage.output_bytes, time_bytes));
  }
  return bytes;
}

void Emulation::start_iteration(int iteration) {
  iteration_ = iteration;
  if (training_.starts_together(iteration)) end_ns_ = 0;
  replicas_.start_iteration();
}

// When the action would start if only costs took time.
std::int64_t Emulation::ready_ns(const Action& action, const Tensor& input) const {
  std::int64_t start = end_ns_;
  if (!input.empty()) {
    std::int64_t sent = 0;
    std::memcpy(&sent, input.memory(), sizeof sent);
    const int from_stage = input_stage(action);
    const Placement& placement = program_.placement;
    const int from = placement.rank_of(from_stage, placement.copy_of(action.microbatch));
    if (from != rank_) {
      const Link& link = costs_.link(from, rank_);
      sent += link.latency_ns +
              costs_.occupied_ns(link, costs_of(std::min(from_stage, action.stage)).output_bytes);
    }
    start = std::max(start, sent);
  }
  return start == 0 ? Clock::monotonic_ns() : start;
}

void Emulation::pass_until(std::int64_t monotonic_ns) {
  using Time = Transport::Time;
  std::vector<Ticket> tickets;
  while (Clock::monotonic_ns() < monotonic_ns) {
    tickets.clear();
    beside_.collect(tickets);
    if (tickets.empty()) return sleep_.until(monotonic_ns);
    const std::int64_t wake_ns = sleep_.wake_ns(monotonic_ns);
    // steady_clock is CLOCK_MONOTONIC.
    const std::size_t done =
        whole_.wait_any_until(tickets, Time(std::chrono::nanoseconds(wake_ns)));
    if (done < tickets.size()) {
      beside_.settle(done);
      continue;
    }
    sleep_.learn(wake_ns);
    while (Clock::monotonic_ns() < monotonic_ns) beside_.poll();
  }
}

std::int64_t Emulation::started_ns() const {
  return pace_ == EmulationPace::anchored ? start_ns_ : Clock::monotonic_ns();
}

// The last of them are ready at its end, where reduce() starts them.
void Emulation::pass(const Action& action, std::int64_t start_ns, std::int64_t end_ns) {
  if (action.stage == reduced_next_ && (action.kind == Kind::B || action.kind == Kind::W)) {
    EmulatedStates& states = states_of(action.stage);
    const Parts& parts = states.parts();
    const auto numbers = static_cast<double>(parts.segment(parts.segments() - 1).end);
    for (std::size_t i = parts.segments() - 1; i > 0; --i) {
      const std::int64_t begin = parts.segment(i).begin;
      const double left = static_cast<double>(begin) / numbers;
      pass_until(end_ns - std::llround(left * static_cast<double>(end_ns - start_ns)));
      replicas_.has_gradients(states, begin);
    }
  }
  pass_until(end_ns);
}

void Emulation::await_replicas(const Action& action) {
  if (!replicas_.exist()) return;
  EmulatedStates& states = states_of(action.stage);
  replicas_.await_whole(states);
  if (action.kind == Kind::B || action.kind == Kind::W) replicas_.await_room(states);
}

void Emulation::await_start(const Action& action, const Tensor& input) {
  await_replicas(action);
  start_at(action, pace_ == EmulationPace::anchored ? ready_ns(action, input) : 0);
}

// It starts once both inputs have arrived.
void Emulation::await_cell(const Cell& cell, const std::array<Tensor, 2>& inputs) {
  std::int64_t ready = 0;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    await_replicas(cell[i]);
    if (pace_ == EmulationPace::anchored) ready = std::max(ready, ready_ns(cell[i], inputs[i]));
  }
  start_at(cell.front(), ready);
}

void Emulation::start_at(const Action& action, std::int64_t ready_ns) {
  const bool anchored = pace_ == EmulationPace::anchored;
  const std::int64_t delay_ns = training_.faults.delay_ns(action, rank_);
  if (!anchored && delay_ns == 0) return;
  start_ns_ = (anchored ? ready_ns : Clock::monotonic_ns()) + delay_ns;
  sleep_.until(start_ns_);
}

Tensor Emulation::run(const Action& action, Tensor input) {
  input = {};
  charge_start(action);
  const std::int64_t start = started_ns();
  end_ns_ = start + training_.faults.duration_ns(action, iteration_, rank_,
                                                 costs_of(action.stage).duration_ns(action.kind));
  pass(action, start, end_ns_);
  return finish(action);
}

std::array<Tensor, 2> Emulation::run_cell(const Cell& cell, std::array<Tensor, 2> inputs) {
  const auto& [forward, backward] = cell;
  inputs = {};
  charge_start(forward);
  const std::int64_t start = started_ns();
  end_ns_ = start + training_.faults.duration_ns(forward, iteration_, rank_,
                                                 *costs_of(forward.stage).overlap_ns);
  pass(backward, start, end_ns_);
  Tensor activation = finish(forward);
  return {std::move(activation), finish(backward)};
}

void Emulation::charge_start(const Action& action) {
  if (action.kind != Kind::F) return;
  pool_.charge(Use::activations, costs_of(action.stage).activation_bytes);
}

Tensor Emulation::finish(const Action& action) {
  const StageCosts& stage = costs_of(action.stage);
  if (is_backward(action.kind)) pool_.charge(Use::activations, -stage.activation_bytes);
  if (action.kind == Kind::I) pool_.charge(Use::residue, stage.weight_residue_bytes);
  if (action.kind == Kind::W) {
    pool_.charge(Use::residue, -stage.weight_residue_bytes);
    return {};
  }
  const int to_stage = output_stage(action);
  if (to_stage < 0 || to_stage == program_.stages()) return {};
  const bool anchored = pace_ == EmulationPace::anchored;
  std::int64_t bytes = costs_of(std::min(action.stage, to_stage)).output_bytes;
  if (anchored) bytes = std::max(bytes, time_bytes);
  Tensor output = pool_.take(floats_for(bytes), Use::activations);
  if (anchored) std::memcpy(output.memory(), &end_ns_, sizeof end_ns_);
  return output;
}

// As in a prediction, even if it takes no time.
void Emulation::close(Kind kind, int stage, std::int64_t duration_ns) {
  ActionNote note{make_action(stage, kind), recorder_.now(), recorder_.now(), {}, 0};
  end_ns_ = (pace_ == EmulationPace::anchored ? end_ns_ : Clock::monotonic_ns()) + duration_ns;
  sleep_.until(end_ns_);
  note.end = recorder_.now();
  recorder_.add(note);
}

void Emulation::will_reduce(int stage) {
  if (!replicas_.exist()) return;
  replicas_.will_reduce(states_of(stage));
  reduced_next_ = stage;
}

bool Emulation::unshard(int stage) {
  return replicas_.exist() && replicas_.unshard(states_of(stage));
}

bool Emulation::reshard(int stage) {
  return replicas_.exist() && replicas_.reshard(states_of(stage));
}

void Emulation::reduce(int stage, std::int64_t number, std::int64_t count) {
  if (replicas_.exist()) {
    reduced_next_ = -1;
    replicas_.reduce(states_of(stage));
    return;
  }
  if (costs_.reduce_gradients_ns.empty()) return;
  close(Kind::REDUCE_GRAD, stage,
        pipesim::share_of(costs_.reduce_gradients_ns[static_cast<std::size_t>(rank_)], count,
                          number));
}

void Emulation::meet(Kind kind, int stage) {
  ActionNote note{make_action(stage, kind), recorder_.now(), {}, {}, 0};
  note.start = note.reached;
  const std::vector<int> group = group_of(kind, program_.placement);
  if (kind == Kind::GRAD_NORM) {
    // Only rank 0 has the times of all, and sends them to the others.
    for (const std::int64_t theirs : gather_value(whole_, end_ns_)) {
      end_ns_ = std::max(end_ns_, theirs);
    }
    end_ns_ = broadcast_value(whole_, end_ns_);
  } else if (group.size() == 2) {
    std::int64_t theirs = 0;
    const int other = group.front() == rank_ ? group.back() : group.front();
    exchange(transport_, other, std::as_bytes(std::span(&end_ns_, 1)),
             std::as_writable_bytes(std::span(&theirs, 1)));
    end_ns_ = std::max(end_ns_, theirs);
  }
  if (pace_ == EmulationPace::wall) end_ns_ = Clock::monotonic_ns();
  end_ns_ += costs_.group_ns(kind, program_.placement);
  sleep_.until(end_ns_);
  note.end = recorder_.now();
  recorder_.add(note);
}

void Emulation::step(int stage, double /*gradient_norm*/) {
  const auto& times = costs_.optimizer_ns;
  const std::int64_t duration_ns = times.empty() ? 0 : times[static_cast<std::size_t>(rank_)];
  if (!replicas_.exist()) {
    if (!times.empty()) close(Kind::OPTIMIZER, stage, duration_ns);
    return;
  }
  beside_.wait_for_all();
  ActionNote note{make_action(stage, Kind::OPTIMIZER), recorder_.now(), recorder_.now(), {}, 0};
  end_ns_ = Clock::monotonic_ns() + duration_ns;
  sleep_.until(end_ns_);
  for (const auto& states : states_) replicas_.gather_stepped(*states);
  note.end = recorder_.now();
  recorder_.add(note);
}

}  // namespace pipesim::exec
