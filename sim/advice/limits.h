// What limits an iteration: its time without each of the things that make it
// long, by simulation.
//
// Each is removed alone; the gain from removing several is not their
// sum. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/candidates.h"
#include "sim/engine/prediction.h"
#include "sim/flags/schedule_choice.h"

namespace pipesim {

enum class LimitKind : std::uint8_t {
  partition,  // stages that take longer than others
  transfers,  // what messages take, and that they wait for each other
  filling,    // the pipeline fills and drains; of infinitely many microbatches none of it is left
  schedule,   // another one is faster, at no more memory
  memory,     // another one is, with more
  launch,     // of a run: actions start later than they could
  option,     // a flag of the training makes it faster, and it fits
};

struct Limit {
  LimitKind kind{};
  std::int64_t gain_ns = 0;  // of the iteration, never negative
  // For another schedule: which, and its memory relative to this one's.
  std::optional<Candidate> candidate;
  double times_memory = 0;
  // For an option: flags with their values, "on" of a switch, and the peak with them.
  std::map<std::string, std::string> flags = {};
  std::int64_t peak_memory_bytes = 0;
  // For a partition: the slowest stage, its time per microbatch, and that of all
  // on average.
  int stage = 0;
  std::int64_t stage_ns = 0;
  std::int64_t mean_ns = 0;
  // For launches: the rank that loses most, by how much later than it could it starts actions in
  // all, and the one that it starts latest.
  int rank = 0;
  std::int64_t rank_late_ns = 0;
  Action action = {};
  std::int64_t action_late_ns = 0;
};

struct LimitsQuestion {
  const ScheduleChoice& choice;
  const Costs& costs;
  const Prediction& prediction;
  std::optional<ScheduleRequest> request;  // where the schedule is a family's
  Trial trial;
  std::optional<std::int64_t> memory_cap_bytes;
  int iterations = 1;  // that follow each other: of several, what the last one adds counts
};

// How many pairs of a stage and a microbatch a schedule may have to be simulated again and again.
inline constexpr std::int64_t max_slots_for_advice = 50'000;

// Whether it is small enough for that. A transfer's start or end costs as much as there are edges
// that have a link in common.
bool is_small(const ScheduleChoice& choice, const Costs& costs,
              std::int64_t max_slots = max_slots_for_advice);

// The same where each stage takes the mean of all, rounded up.
Costs with_even_stages(Costs costs);

// Those that gain anything, largest gain first. A schedule that is not a family's has no
// `filling` and no `schedule`.
std::vector<Limit> find_limits(const LimitsQuestion& question);

}  // namespace pipesim
