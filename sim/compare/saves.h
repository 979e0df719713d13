// The saves of two runs: the SAVEs of all iterations, since the iterations that
// represent the runs may have none.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/compare/operations.h"
#include "traces/recorded_run.h"

namespace pipesim {

// A rank's part of a checkpoint, medians over all of a run.
struct SaveTimesOfRank {
  std::int64_t count = 0;      // of the run
  std::int64_t bytes = 0;      // of the last
  std::int64_t save_ns = 0;    // that the rank did nothing else
  std::int64_t beside_ns = 0;  // that it wrote beside what it did next, of which
  std::int64_t hidden_ns = 0;  // it computed meanwhile
};

struct SaveRow {
  std::int32_t rank = 0;
  std::array<SaveTimesOfRank, 2> times{};  // by side
};

// For each rank, if either run saved; else none.
std::vector<SaveRow> compare_saves(const RecordedRun& predicted, const RecordedRun& measured);

}  // namespace pipesim
