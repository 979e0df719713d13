// Several schedules on the same costs, side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cli/setup.h"
#include "sim/engine/prediction.h"

namespace pipesim::cli {

// A schedule that was tried. Where costs come by chunk, a schedule of V
// chunks a rank does V times the work of one with one chunk: `time_ns` and
// `memory` are divided by V to compare them as cuts of the same model.
struct Candidate {
  std::string schedule;
  int chunks = 1;
  int microbatches = 1;
  std::string left_out;  // why it could not be simulated, or empty
  Prediction prediction;
  double time_ns = 0;     // makespan, for the same work
  double memory = 0;      // the largest peak, bytes where known, else chunks
  bool on_front = false;  // nothing tried with as many microbatches is as good in both
};

// Every family at `request`'s ranks, for each number of microbatches; the
// number of chunks is the request's where a family takes it.
std::vector<Candidate> try_all(const ScheduleRequest& request, const std::vector<int>& microbatches,
                               const CostSource& costs);

}  // namespace pipesim::cli
