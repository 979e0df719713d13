// A finite run with checkpoints and failures at given times, event by event.
// As an executor does that is stopped at these times, in whole nanoseconds: it trains iterations,
// saves after every `interval` of them, and after a failure restarts and resumes from the last
// complete save. expectation.h defines the effect of a failure in each case. Plain values and pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/goodput/expectation.h"

namespace pipesim {

struct SavedRun {
  Checkpointing job;
  std::int64_t iteration_ns = 0;  // more than 0
  std::int64_t iterations = 0;    // of work; the run ends with the last one, or its save
  // From save to save, no less than least_interval(). No save follows a shorter rest.
  std::int64_t interval = 1;

  std::int64_t work_ns() const { return iteration_ns * iterations; }
};

// Where the time of a run went.
struct RunTimes {
  std::int64_t useful_ns = 0;
  std::int64_t saving_ns = 0;
  std::int64_t repeating_ns = 0;
  std::int64_t restarting_ns = 0;
  std::int64_t failures = 0;

  std::int64_t wall_ns() const { return useful_ns + saving_ns + repeating_ns + restarting_ns; }
  TimeShares shares() const;
};

// Failures in wall time since the run's start, in ascending order. One during a restart makes it
// begin again.
using NextFailure = std::function<std::int64_t()>;
inline constexpr std::int64_t no_failure = INT64_MAX;

// Throws an input error if failures are not in order, or wall time would overflow 64 bits.
RunTimes run_with(const SavedRun& run, const NextFailure& next);
RunTimes run_with(const SavedRun& run, std::span<const std::int64_t> failures_ns);

// Failures drawn at a rate of 1/M, from seed and trial alone: the same on every machine. Returns
// no_failure if the next one would come only after centuries.
class DrawnFailures {
 public:
  DrawnFailures(std::int64_t mtbf_ns, std::uint64_t seed, std::uint64_t trial);
  std::int64_t next();

 private:
  std::int64_t mtbf_ns_;
  std::uint64_t state_;
  std::int64_t last_ns_ = 0;
};

struct RunTrials {
  std::uint64_t seed = 1;
  int count = 1000;
};

// Goodput over all trials, and its 5th, 50th and 95th percentile, by nearest rank.
struct GoodputSpread {
  double mean = 0;  // work over its mean time
  double p5 = 0;
  double p50 = 0;
  double p95 = 0;
};

GoodputSpread try_runs(const SavedRun& run, const RunTrials& trials);

// The expected number of failures in all trials; infinite if there is no progress.
double expected_failures(const SavedRun& run, const RunTrials& trials);

}  // namespace pipesim
