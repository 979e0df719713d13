// How often a job should save, and the share of time that it then trains: expected, and over
// simulated runs.
//
// Plain values and a pure function; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/goodput/run.h"

namespace pipesim {

struct GoodputQuestion {
  Checkpointing job;
  // If set, intervals are whole iterations, else whole nanoseconds.
  std::optional<std::int64_t> iteration_ns;
  std::optional<std::int64_t> interval;  // in iterations; default the best
  std::optional<std::int64_t>
      work_ns;  // of a simulated run; default 30 days, or 1,000 MTBFs if less
  RunTrials trials;
};

struct GoodputAnswer {
  SavedRun run;                  // as simulated
  std::int64_t interval_ns = 0;  // that of the question, or the best
  TimeShares shares;
  std::int64_t best_interval_ns = 0;
  std::int64_t young_interval_ns = 0;
  std::int64_t daly_interval_ns = 0;
  // Nothing if so many failures would have to be drawn that it takes long.
  std::optional<GoodputSpread> spread;
  // For a single trial: where its time went, and the failures drawn for it, up to twice its time.
  std::optional<RunTimes> trial;
  std::vector<std::int64_t> failures_ns;
};

// Throws if an interval is less than least_interval().
GoodputAnswer answer(const GoodputQuestion& question);

}  // namespace pipesim
