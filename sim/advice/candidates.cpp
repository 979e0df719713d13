#include "sim/advice/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

Proposal proposal_of(const Family& family, ScheduleRequest request) {
  request.name = family.name;
  if (!family.many_chunks) request.chunks.reset();
  if (!family.takes_group) {
    request.group.reset();
    request.overlap_experts = false;
  }
  return {&family, std::move(request)};
}

// Each F sends its result to the next stage, each B or I its gradient back, where that is on
// another rank.
void count_sent(const Schedule& schedule, const Costs& costs, Candidate& candidate) {
  const std::vector<StageFootprint> footprints = costs.footprints(schedule.placement);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::int64_t own = 0;
    for (const Action& action : schedule.actions[rank]) {
      if (!is_compute(action.kind)) continue;
      const StageFootprint& stage = footprints[static_cast<std::size_t>(action.stage)];
      if (action.kind == Kind::F) own += stage.forward_output_bytes;
      if (is_backward(action.kind)) own += stage.backward_output_bytes;
    }
    candidate.sent_bytes += own;
    candidate.sent_bytes_of_rank = std::max(candidate.sent_bytes_of_rank, own);
  }
}

Candidate try_one(const Proposal& proposal, const Trial& trial) {
  Candidate candidate;
  candidate.asked = proposal;
  candidate.schedule = proposal.name();
  candidate.chunks = proposal.chunks();
  candidate.microbatches = proposal.microbatches();
  try {
    const ScheduleChoice choice = make(proposal, trial);
    const Schedule& schedule = choice.schedule;
    const SimulationOptions options = trial.options(proposal);
    const Costs costs = trial.costs(schedule);
    candidate.prediction = predict(schedule, costs, choice.family, choice.shape, options);
    if (trial.spread)
      candidate.spread = find_spread(schedule, costs, options, *trial.spread, false);
    candidate.splits_backward = std::ranges::any_of(
        schedule.actions.all(), [](const Action& action) { return action.kind == Kind::I; });
    candidate.parts = time_parts(schedule, costs, candidate.prediction.metrics);
    count_sent(schedule, costs, candidate);
    const Metrics& metrics = candidate.prediction.metrics;
    candidate.time_ns = metrics.makespan_ns;
    candidate.in_flight = static_cast<double>(metrics.peak_activation_chunks()) * schedule.ranks() /
                          schedule.stages();
    const std::int64_t bytes = candidate.prediction.peak_memory_bytes();
    candidate.memory = bytes > 0 ? static_cast<double>(bytes) : candidate.in_flight;
  } catch (const Error& error) {
    candidate.left_out = error.what();
  }
  return candidate;
}

}  // namespace

int Proposal::chunks() const {
  if (family == nullptr) return made->schedule.placement.virtual_stages();
  return request.chunks.value_or(family->default_chunks);
}

int Proposal::microbatches() const {
  return family != nullptr ? request.microbatches : made->schedule.microbatches;
}

SimulationOptions Trial::options(const Proposal& proposal) const {
  SimulationOptions options;
  options.transfers = proposal.transfers.value_or(transfers);
  return options;
}

ScheduleChoice make(const Proposal& proposal, const Trial& trial) {
  ScheduleChoice choice;
  if (proposal.family == nullptr) {
    choice = *proposal.made;
  } else {
    check_size(*proposal.family, proposal.request, trial.needed);
    choice = choose_schedule(proposal.request);
  }
  if (trial.complete) choice.schedule = trial.complete(std::move(choice.schedule));
  return choice;
}

int Proposal::copies() const {
  if (family != nullptr) return family->placement == both_ways ? 2 : 1;
  return made != nullptr ? made->schedule.placement.copies() : 1;
}

std::vector<Proposal> proposals(const Sweep& sweep) {
  std::vector<Proposal> all;
  const auto takes_part = [&](const Family& family) {
    return !sweep.families ||
           std::ranges::find(*sweep.families, family.name) != sweep.families->end();
  };
  for (const int microbatches : sweep.microbatches) {
    for (const Family& family : all_families()) {
      if (!takes_part(family)) continue;
      ScheduleRequest request = sweep.request;
      request.microbatches = microbatches;
      request.chunks.reset();
      if (sweep.chunks.empty() || !family.many_chunks) {
        all.push_back(proposal_of(family, std::move(request)));
        continue;
      }
      for (const int chunks : sweep.chunks) {
        request.chunks = chunks;
        all.push_back(proposal_of(family, request));
      }
    }
  }
  return all;
}

void mark_front(std::vector<Candidate>& all) {
  const auto dominates = [](const Candidate& a, const Candidate& b) {
    return a.left_out.empty() && a.microbatches == b.microbatches && a.time_ns <= b.time_ns &&
           a.memory <= b.memory && (a.time_ns < b.time_ns || a.memory < b.memory);
  };
  for (Candidate& one : all) {
    one.on_front = one.left_out.empty() && std::ranges::none_of(all, [&](const Candidate& other) {
                     return dominates(other, one);
                   });
  }
}

std::vector<Candidate> try_all(const std::vector<Proposal>& proposals, const Trial& trial) {
  std::vector<Candidate> all;
  for (const Proposal& one : proposals) {
    if (trial.progress) {
      trial.progress(
          fmt::format("{}, {}", printable(one.name()), plural(one.microbatches(), "microbatch")));
    }
    all.push_back(try_one(one, trial));
  }
  mark_front(all);
  return all;
}

std::optional<ScheduleRequest> nearest_that_works(const Proposal& proposal, const Trial& trial) {
  if (proposal.family == nullptr) return std::nullopt;
  const ScheduleRequest& asked = proposal.request;
  constexpr int max_tries = 8;  // of shapes that the family has, but costs or transfers refuse
  int tries = 0;
  const auto works = [&](const ScheduleRequest& request) {
    const Proposal near = proposal_of(*proposal.family, request);
    try {
      check_size(*near.family, near.request, trial.needed);
      resolve_shape(*near.family, near.request);
    } catch (const Error&) {
      return false;
    }
    ++tries;
    return try_one(near, trial).left_out.empty();
  };
  const auto search = [&](int own, int farthest, auto set) -> std::optional<ScheduleRequest> {
    tries = 0;
    for (int distance = 1; distance <= farthest && tries < max_tries; ++distance) {
      for (const int value : {own + distance, own - distance}) {
        if (value < 1) continue;
        ScheduleRequest near = asked;
        set(near, value);
        if (works(near)) return near;
      }
    }
    return std::nullopt;
  };
  // Twice the virtual stages, but no more than takes no time to speak of.
  const std::int64_t stages = std::int64_t{asked.ranks} * proposal.chunks();
  const auto farthest =
      static_cast<int>(std::min(2 * stages, std::max<std::int64_t>(8, 1'000'000 / stages)));
  auto found = search(asked.microbatches, farthest,
                      [](ScheduleRequest& near, int value) { near.microbatches = value; });
  if (!found && proposal.family->takes_group) {
    found = search(asked.group.value_or(asked.ranks), farthest,
                   [](ScheduleRequest& near, int value) { near.group = value; });
  }
  if (!found && proposal.family->many_chunks) {
    found =
        search(proposal.chunks(), 8, [](ScheduleRequest& near, int value) { near.chunks = value; });
  }
  return found;
}

}  // namespace pipesim
