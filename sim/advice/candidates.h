// Several schedules of the same model on the same ranks, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/spread.h"
#include "sim/advice/time_parts.h"
#include "sim/engine/prediction.h"
#include "sim/flags/schedule_choice.h"
#include "sim/schedule/size.h"

namespace pipesim {

// What to try: a family at some shape, or a given schedule.
struct Proposal {
  const Family* family = nullptr;  // null: `made`
  ScheduleRequest request;         // of a family, which its numbers fit
  std::shared_ptr<const ScheduleChoice> made = nullptr;
  std::optional<Transfers> transfers = {};  // of what is made, where it has its own

  const std::string& name() const { return family != nullptr ? request.name : made->schedule.name; }
  int chunks() const;  // the most of any rank
  int microbatches() const;
  int copies() const;  // of each stage, and so of the parameters
};

// Numbers that several families are tried with.
struct Sweep {
  ScheduleRequest request;  // its ranks, group and placement count
  std::vector<int> microbatches;
  std::vector<int> chunks;                             // empty: each family's own
  std::optional<std::vector<std::string>> families{};  // by name; without: all
};

// Each of the families for each number of microbatches and of chunks, as far as it takes them:
// chunks, group and placement are the family's own where it takes none.
std::vector<Proposal> proposals(const Sweep& sweep);

// A schedule that was tried.
struct Candidate {
  Proposal asked;
  std::string schedule;
  int chunks = 1;
  int microbatches = 1;
  std::string left_out;  // why it could not be simulated, or empty
  Prediction prediction;
  std::optional<MakespanSpread> spread;  // without shares
  bool splits_backward = false;
  TimeParts parts;
  std::int64_t time_ns = 0;  // the makespan
  // A rank's peak activations, in units of its whole part of the model: of V alike
  // chunks each counts 1/V.
  double in_flight = 0;
  double memory = 0;  // the largest peak, bytes where known, else `in_flight`
  // That ranks send each other in an iteration: all of them, and the one that sends most.
  std::int64_t sent_bytes = 0;
  std::int64_t sent_bytes_of_rank = 0;
  bool on_front = false;  // see mark_front
};

// The settings common to all candidates.
struct Trial {
  // What costs add to a schedule, such as exchanges of replicas; absent: nothing.
  std::function<Schedule(Schedule)> complete;
  // The costs of a schedule, checked; each of the same model.
  std::function<Costs(const Schedule&)> costs;
  Transfers transfers;
  BytesNeeded needed;  // by an evaluation
  std::optional<SpreadQuestion> spread;
  // Told what is tried next, where it is given.
  std::function<void(const std::string&)> progress;

  SimulationOptions options(const Proposal& proposal) const;
};

// The schedule with all that costs add. Throws where the shape can't be.
ScheduleChoice make(const Proposal& proposal, const Trial& trial);

// In the order of the proposals, the front marked.
std::vector<Candidate> try_all(const std::vector<Proposal>& proposals, const Trial& trial);

// Marks those that no other with as many microbatches beats in one of time and
// memory without losing in the other.
void mark_front(std::vector<Candidate>& candidates);

// A shape near that of a proposal that can't be: with more or fewer microbatches, another group,
// other numbers of chunks, in this order. Nothing where none was found among those nearest.
std::optional<ScheduleRequest> nearest_that_works(const Proposal& proposal, const Trial& trial);

}  // namespace pipesim
