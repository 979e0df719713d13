#include "traces/read/profile/iterations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Says = RangeName::Says;

// The step around the instant, or nothing.
const ProfileStep* step_at(const ProfileProcess& process, std::int64_t time_ns) {
  const auto after = std::upper_bound(
      process.steps.begin(), process.steps.end(), time_ns,
      [](std::int64_t time, const ProfileStep& step) { return time < step.start_ns; });
  if (after == process.steps.begin()) return nullptr;
  const ProfileStep& step = *(after - 1);
  return time_ns < step.end_ns ? &step : nullptr;
}

bool have_steps(const std::vector<ProfileProcess>& processes) {
  return std::all_of(processes.begin(), processes.end(),
                     [](const auto& process) { return !process.steps.empty(); });
}

void number_by_steps(ProfileProcess& process) {
  for (ProfileOperation& operation : process.operations) {
    const ProfileStep* step = step_at(process, operation.called_ns);
    operation.iteration = step == nullptr ? -1 : step->number;
  }
}

// Whether an action of a microbatch recurs within an iteration.
bool recurs(const ProfileProcess& process) {
  std::set<ActionKey> seen;
  return std::any_of(process.operations.begin(), process.operations.end(), [&](const auto& one) {
    if (one.iteration < 0 || !takes_microbatch(one.action.kind)) return false;
    return !seen.insert(ActionKey(one.action, one.iteration)).second;
  });
}

void number_by_recurrence(ProfileProcess& process) {
  std::set<ActionKey> seen;
  std::int64_t iteration = 0;
  std::vector<ProfileOperation*> gathered;  // parameters, for the next iteration
  for (ProfileOperation& operation : process.operations) {
    if (operation.action.kind == Kind::UNSHARD) {
      gathered.push_back(&operation);
      continue;
    }
    if (takes_microbatch(operation.action.kind) &&
        !seen.insert(ActionKey(operation.action)).second) {
      ++iteration;
      seen = {ActionKey(operation.action)};
    }
    operation.iteration = iteration;
    for (ProfileOperation* unshard : gathered) unshard->iteration = iteration;
    gathered.clear();
  }
  for (ProfileOperation* unshard : gathered) unshard->iteration = iteration;
}

std::set<std::int64_t> numbers_of(const ProfileProcess& process) {
  std::set<std::int64_t> numbers;
  for (const ProfileOperation& operation : process.operations) {
    // An optimizer step alone is not an iteration of a pipeline.
    if (operation.iteration >= 0 && operation.says != Says::optimizer && !operation.lost) {
      numbers.insert(operation.iteration);
    }
  }
  return numbers;
}

// A rank's actions of each kind in an iteration.
struct RankRow {
  std::vector<Action> forwards, backwards, weights;

  std::vector<Action>& of(Kind kind) {
    return kind == Kind::F ? forwards : kind == Kind::W ? weights : backwards;
  }
};

RankRow parse_row(const std::string& text, std::size_t rank) {
  RankRow row;
  for (std::string_view cell : split(text, ',')) {
    cell = strip(cell);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
      cell = strip(cell.substr(1, cell.size() - 2));
    }
    Action first, second;
    if (parse_overlap(cell, first, second)) {
      first.joined = false;
      row.of(first.kind).push_back(first);
      row.of(second.kind).push_back(second);
    } else if (const auto action = parse_action(cell)) {
      if (is_compute(action->kind)) row.of(action->kind).push_back(*action);
    } else if (!cell.empty() && !cell.ends_with(")BATCH_P2P")) {
      throw input_error(
          fmt::format("the schedule's row of rank {}: {} is not an action", rank, quote(cell)));
    }
  }
  return row;
}

struct Turns {
  Kind kind;
  std::string_view name;
};
constexpr std::array<Turns, 3> all_turns{
    {{Kind::F, "forwards"}, {Kind::B, "backwards"}, {Kind::W, "weight gradients"}}};

void infer_kind(ProfileProcess& process, std::size_t rank, const Turns& turns,
                const std::vector<Action>& planned, bool by_steps, const std::string& flag) {
  std::map<std::int64_t, std::vector<ProfileOperation*>> iterations;
  std::size_t count = 0;
  for (ProfileOperation& operation : process.operations) {
    if (operation.says != Says::turn || operation.action.kind != turns.kind) continue;
    std::int64_t iteration = -1;
    if (by_steps) {
      const ProfileStep* step = step_at(process, operation.called_ns);
      if (step == nullptr) continue;
      iteration = step->number;
    } else {
      iteration = planned.empty() ? 0 : static_cast<std::int64_t>(count / planned.size());
    }
    ++count;
    iterations[iteration].push_back(&operation);
  }
  for (const auto& [number, found] : iterations) {
    if (found.size() == planned.size()) continue;
    throw input_error(fmt::format(
        "{}: iteration {} of rank {} has {} {}, the schedule {}; give the schedule that ran by {}",
        process.name, number, rank, found.size(), turns.name, planned.size(), flag));
  }
  if (iterations.empty() && !planned.empty()) {
    throw input_error(
        fmt::format("{}: rank {} has no {}, the schedule {} per iteration; give the "
                    "schedule that ran by {}",
                    process.name, rank, turns.name, planned.size(), flag));
  }
  for (const auto& entry : iterations) {
    for (std::size_t i = 0; i < planned.size(); ++i) entry.second[i]->action = planned[i];
  }
}

void keep_only(std::vector<ProfileProcess>& processes, const std::set<std::int64_t>& numbers) {
  for (ProfileProcess& process : processes) {
    std::erase_if(process.operations, [&](const ProfileOperation& operation) {
      return operation.lost || numbers.count(operation.iteration) == 0;
    });
  }
}

// Every iteration runs the same schedule: one with fewer actions of microbatches
// than another has lost some.
std::set<std::int64_t> most_complete(const std::vector<ProfileProcess>& processes,
                                     Warnings& warnings) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const ProfileProcess& process : processes) {
    for (const ProfileOperation& operation : process.operations) {
      counts[operation.iteration] += takes_microbatch(operation.action.kind) ? 1 : 0;
    }
  }
  std::int64_t most = 0;
  for (const auto& [number, count] : counts) most = std::max(most, count);
  std::set<std::int64_t> complete;
  for (const auto& [number, count] : counts) {
    if (count == most) {
      complete.insert(number);
      continue;
    }
    warnings.add(
        "iterations with fewer actions than another, left out: the profiler has lost some",
        fmt::format("{}: iteration {}, {} of {}", processes.front().name, number, count, most));
  }
  return complete;
}

}  // namespace

void infer_actions(std::vector<ProfileProcess>& processes, const ProfileOptions& options) {
  const bool by_steps = have_steps(processes);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    RankRow row = parse_row(options.program[rank], rank);
    ProfileProcess copy = processes[rank];  // kinds are looked up by turns
    for (const Turns& turns : all_turns) {
      infer_kind(copy, rank, turns, row.of(turns.kind), by_steps, options.program_flag);
    }
    processes[rank] = std::move(copy);
  }
}

std::vector<std::int32_t> number_iterations(std::vector<ProfileProcess>& processes,
                                            Warnings& warnings) {
  bool by_steps = have_steps(processes);
  if (by_steps) {
    for (ProfileProcess& process : processes) number_by_steps(process);
    const auto twice = std::find_if(processes.begin(), processes.end(), recurs);
    if (twice != processes.end()) {
      warnings.add("an action recurs within a ProfilerStep: that tells iterations apart instead",
                   twice->name);
      by_steps = false;
    }
  }
  if (!by_steps) {
    for (ProfileProcess& process : processes) number_by_recurrence(process);
  }

  std::set<std::int64_t> common = numbers_of(processes.front());
  std::set<std::int64_t> all = common;
  for (const ProfileProcess& process : processes) {
    const std::set<std::int64_t> own = numbers_of(process);
    std::set<std::int64_t> both;
    std::set_intersection(common.begin(), common.end(), own.begin(), own.end(),
                          std::inserter(both, both.end()));
    common = std::move(both);
    all.insert(own.begin(), own.end());
  }
  if (common.empty()) {
    throw input_error(
        fmt::format("{}: no iteration is in the files of all ranks; record the same "
                    "iterations on each",
                    processes.front().name));
  }
  if (all.size() != common.size()) {
    warnings.add("iterations that not all ranks have, left out", processes.front().name,
                 static_cast<std::int64_t>(all.size() - common.size()));
  }
  for (ProfileProcess& process : processes) {
    std::int64_t outside = 0;
    for (const ProfileOperation& operation : process.operations) {
      outside += operation.iteration < 0 && operation.says != Says::optimizer ? 1 : 0;
    }
    if (outside != 0) {
      warnings.add("actions outside of any ProfilerStep, left out", process.name, outside);
    }
  }
  keep_only(processes, common);
  common = most_complete(processes, warnings);
  keep_only(processes, common);
  std::vector<std::int32_t> numbers;
  numbers.reserve(common.size());
  for (const std::int64_t number : common) numbers.push_back(static_cast<std::int32_t>(number));
  return numbers;
}

}  // namespace pipesim
