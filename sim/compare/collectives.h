// Exchanges with replicas in two runs: how long, and how much of that overlaps their ranks'
// compute.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/compare/operations.h"
#include "traces/collective_times.h"
#include "traces/recorded_run.h"

namespace pipesim {

// All collectives of one kind on one stage, in an iteration.
struct CollectiveRow {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  Kind kind{};
  std::array<CollectiveTimes, 2> times{};  // by side; what a run does not have takes none
};

struct CollectiveComparison {
  std::vector<CollectiveRow> rows;                       // by rank, stage and kind
  std::array<std::vector<CollectiveTimes>, 2> of_ranks;  // all of a rank's, by side
};

// Medians over the iterations of each run.
CollectiveComparison compare_collectives(const RecordedRun& predicted, const RecordedRun& measured);

}  // namespace pipesim
