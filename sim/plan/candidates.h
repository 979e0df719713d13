// Several schedules on the same costs, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/prediction.h"
#include "sim/plan/spread.h"
#include "sim/schedule/size.h"

namespace pipesim {

// A schedule that was tried. Where costs come by chunk, a schedule of V
// chunks a rank does V times the work of one with one chunk: `time_ns` and
// `memory` are divided by V to compare them as cuts of the same model.
struct Candidate {
  std::string schedule;
  int chunks = 1;
  int microbatches = 1;
  std::string left_out;  // why it could not be simulated, or empty
  Prediction prediction;
  std::optional<MakespanSpread> spread;  // without shares
  double time_ns = 0;                    // makespan, for the same work
  double memory = 0;                     // the largest peak, bytes where known, else chunks
  bool on_front = false;                 // see mark_front
};

// What every candidate is tried with.
struct Trial {
  // What costs add to a schedule, such as what its replicas exchange; absent: nothing.
  std::function<Schedule(Schedule)> complete;
  // The costs of a schedule, checked.
  std::function<Costs(const Schedule&)> costs;
  // Costs are dealt out by layer, so that every number of chunks stands for
  // the same model.
  bool by_layer = false;
  Transfers transfers;
  BytesNeeded needed;  // by an evaluation
  std::optional<SpreadQuestion> spread;
  // Told what is tried next, where it is given.
  std::function<void(const std::string&)> progress;
};

// Every family at `request`'s ranks, for each number of microbatches; chunks
// and group are the request's where a family takes them.
std::vector<Candidate> try_all(const ScheduleRequest& request, const std::vector<int>& microbatches,
                               const Trial& trial);

// Marks those that no other with as many microbatches beats in one of time and
// memory without losing in the other.
void mark_front(std::vector<Candidate>& candidates);

}  // namespace pipesim
