#include "sim/advice/receive_choices.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "sim/engine/simulate.h"
#include "sim/engine/tasks.h"
#include "sim/schedule/lower.h"
#include "traces/action_key.h"

namespace pipesim {
namespace {

bool can_stand_on(P2p mode, const Schedule& program) {
  return program.lane == TransferLane::compute || program.lane == lane_of(send_mode_of(mode));
}

std::optional<std::string> find_cycle(const Schedule& program, const Costs& costs,
                                      const Transfers& transfers) {
  if (transfers.mode == P2p::async) return find_posted_deadlock(program);
  return find_deadlock(program, send_mode_of(transfers.mode),
                       [&](const Action& send) { return is_eager(send, costs, transfers); });
}

Schedule completed(Schedule program, const ReceiveQuestion& question) {
  return question.complete ? question.complete(std::move(program)) : program;
}

using TimesOfActions = std::map<ActionKey, CellTimes>;

TimesOfActions find_times(const Schedule& program, const Costs& costs) {
  TimesOfActions times;
  SimulationOptions options;
  options.sink = [&](const Span& span) {
    if (!is_compute(span.action.kind)) return;
    times[ActionKey(span.action)] = {span.start_ns, span.end_ns};
  };
  simulate(program, costs, options);
  return times;
}

ReceiveChoice try_choice(std::optional<Receives> where, const Schedule& placed, const Costs& costs,
                         const ReceiveQuestion& question) {
  const Schedule program = completed(placed, question);
  ReceiveChoice choice{where, count_receive_buffers(program), {}};
  for (const P2p mode : question.modes) {
    if (!can_stand_on(mode, program)) continue;
    if (question.progress) {
      question.progress(fmt::format("{} on {}", choice.name(), p2p_name(mode)));
    }
    SimulationOptions options;
    options.transfers = {mode, question.eager_limit_bytes};
    ReceiveOutcome& outcome = choice.outcomes[mode];
    if (auto cycle = find_cycle(program, costs, options.transfers)) {
      outcome.cycle = std::move(*cycle);
    } else {
      outcome.makespan_ns = simulate(program, costs, options).makespan_ns;
    }
  }
  return choice;
}

}  // namespace

const ReceiveOutcome* ReceiveChoice::on(P2p mode) const {
  const auto found = outcomes.find(mode);
  return found == outcomes.end() ? nullptr : &found->second;
}

std::vector<ReceiveChoice> try_receives(const Schedule& schedule, const Costs& costs,
                                        const ReceiveQuestion& question) {
  std::vector<ReceiveChoice> choices;
  if (schedule.has_transfers()) {
    choices.push_back(try_choice({}, schedule, costs, question));
  }
  for (const Receives where : all_receives()) {
    if (!choices.empty() && question.only.value_or(where) != where) continue;
    choices.push_back(
        try_choice(where, with_receives(schedule, where, costs, question), costs, question));
  }
  return choices;
}

Schedule with_receives(const Schedule& schedule, Receives where, const Costs& costs,
                       const ReceiveQuestion& question) {
  const Schedule program = lower(schedule.has_transfers() ? without_transfers(schedule) : schedule);
  ReceivePlacing placing{question.buffers, {}};
  TimesOfActions times;
  if (where == Receives::timed) {
    times = find_times(completed(program, question), costs);
    placing.times = [&](const Action& first) { return times.at(ActionKey(first)); };
  }
  return place_receives(program, where, placing);
}

const ReceiveChoice* fastest_on(P2p mode, const std::vector<ReceiveChoice>& choices) {
  const ReceiveChoice* fastest = nullptr;
  for (const ReceiveChoice& choice : choices) {
    const ReceiveOutcome* outcome = choice.on(mode);
    if (outcome == nullptr || !outcome->makespan_ns) continue;
    if (fastest == nullptr || *outcome->makespan_ns < *fastest->on(mode)->makespan_ns) {
      fastest = &choice;
    }
  }
  return fastest;
}

}  // namespace pipesim
