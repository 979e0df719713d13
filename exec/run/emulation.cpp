#include "exec/run/emulation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/run/training.h"
#include "exec/transport/collectives.h"
#include "traces/dependency.h"

namespace pipesim::exec {
namespace {

constexpr auto time_bytes = static_cast<std::int64_t>(sizeof(std::int64_t));

}  // namespace

std::string_view pace_name(EmulationPace pace) {
  return pace == EmulationPace::wall ? "wall" : "anchored";
}

Emulation::Emulation(const TrainingJob& training, Transport& transport, Pool& pool,
                     Recorder& recorder)
    : training_(training),
      program_(training.program),
      costs_(*training.costs),
      pace_(training.pace),
      rank_(transport.rank()),
      transport_(transport),
      pool_(pool),
      recorder_(recorder) {
  const StateBytes states = costs_.states(program_.placement)[static_cast<std::size_t>(rank_)];
  pool.charge(Use::weights, states.weights);
  pool.charge(Use::gradients, states.gradients);
  pool.charge(Use::optimizer, states.optimizer);
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
}

// When the action would start if nothing but costs took time.
std::int64_t Emulation::ready_ns(const Action& action, const Tensor& input) const {
  std::int64_t start = end_ns_;
  if (!input.empty()) {
    std::int64_t sent = 0;
    std::memcpy(&sent, input.memory(), sizeof sent);
    const int from_stage = input_stage(action);
    const int from = program_.placement.rank_of(from_stage);
    if (from != rank_) {
      const Link& link = costs_.link(from, rank_);
      sent += link.latency_ns +
              costs_.occupied_ns(link, costs_of(std::min(from_stage, action.stage)).output_bytes);
    }
    start = std::max(start, sent);
  }
  return start == 0 ? Clock::monotonic_ns() : start;
}

void Emulation::await_start(const Action& action, const Tensor& input) {
  const bool anchored = pace_ == EmulationPace::anchored;
  const std::int64_t delay_ns = training_.faults.delay_ns(action, rank_);
  if (!anchored && delay_ns == 0) return;
  start_ns_ = (anchored ? ready_ns(action, input) : Clock::monotonic_ns()) + delay_ns;
  sleep_.until(start_ns_);
}

Tensor Emulation::run(const Action& action, Tensor input) {
  const StageCosts& stage = costs_of(action.stage);
  const bool anchored = pace_ == EmulationPace::anchored;
  input = {};
  if (action.kind == Kind::F) pool_.charge(Use::activations, stage.activation_bytes);
  const std::int64_t start = anchored ? start_ns_ : Clock::monotonic_ns();
  end_ns_ = start +
            training_.faults.duration_ns(action, iteration_, rank_, stage.duration_ns(action.kind));
  sleep_.until(end_ns_);
  if (is_backward(action.kind)) pool_.charge(Use::activations, -stage.activation_bytes);
  if (action.kind == Kind::I) pool_.charge(Use::residue, stage.weight_residue_bytes);
  if (action.kind == Kind::W) {
    pool_.charge(Use::residue, -stage.weight_residue_bytes);
    return {};
  }
  const int to_stage = output_stage(action);
  if (to_stage < 0 || to_stage == program_.stages()) return {};
  std::int64_t bytes = costs_of(std::min(action.stage, to_stage)).output_bytes;
  if (anchored) bytes = std::max(bytes, time_bytes);
  Tensor output = pool_.take(floats_for(bytes), Use::activations);
  if (anchored) std::memcpy(output.memory(), &end_ns_, sizeof end_ns_);
  return output;
}

// As a prediction has it, also where it takes no time.
void Emulation::close(Kind kind, int stage, std::int64_t duration_ns) {
  ActionNote note{make_action(stage, kind), recorder_.now(), recorder_.now(), {}, 0};
  end_ns_ = (pace_ == EmulationPace::anchored ? end_ns_ : Clock::monotonic_ns()) + duration_ns;
  sleep_.until(end_ns_);
  note.end = recorder_.now();
  recorder_.add(note);
}

void Emulation::reduce(int stage, std::int64_t number, std::int64_t count) {
  if (costs_.reduce_gradients_ns.empty()) return;
  close(Kind::REDUCE_GRAD, stage,
        share_of(costs_.reduce_gradients_ns[static_cast<std::size_t>(rank_)], count, number));
}

void Emulation::meet(Kind kind, int stage) {
  ActionNote note{make_action(stage, kind), recorder_.now(), {}, {}, 0};
  note.start = note.reached;
  const std::vector<int> group = group_of(kind, program_.placement);
  if (kind == Kind::GRAD_NORM) {
    // Nothing of theirs is there but on rank 0, which tells it to all.
    for (const std::int64_t theirs : gather_value(transport_, end_ns_)) {
      end_ns_ = std::max(end_ns_, theirs);
    }
    end_ns_ = broadcast_value(transport_, end_ns_);
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
  if (costs_.optimizer_ns.empty()) return;
  close(Kind::OPTIMIZER, stage, costs_.optimizer_ns[static_cast<std::size_t>(rank_)]);
}

}  // namespace pipesim::exec
