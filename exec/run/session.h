// A whole run on one rank: train, verify, bring the measurement together.
//
// Every rank calls run_session() with the same training; what comes back is
// rank 0's to report.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/clock_sync.h"
#include "exec/run/measurement.h"
#include "exec/run/reference.h"
#include "exec/run/training.h"
#include "traces/base/files.h"
#include "traces/metrics.h"

namespace pipesim::exec {

struct RunResult {
  std::string device;     // for people
  std::string transport;  // its name
  std::vector<double> warmup_losses;
  std::vector<double> losses;
  std::vector<std::int64_t> iteration_ns;  // makespans, in order
  std::optional<Verification> verification;

  // Of the iteration with the median makespan.
  std::size_t median = 0;
  std::vector<Span> spans;
  Metrics metrics;

  std::vector<RankMemory> memory;         // of each rank at its fullest
  std::vector<std::int64_t> taken_bytes;  // from its GPU, the most at once; 0 of the host's
  int processors = 0;                     // that the ranks may run on

  bool several_clocks = false;          // else all ranks share one
  std::vector<ClockRelation> clocks;    // of each rank
  std::int64_t adjusted_transfers = 0;  // that no shift of clocks could put right

  std::int64_t median_ns() const { return iteration_ns[median]; }
};

// Called on rank 0 after each iteration, counted from 0.
using OnIteration = std::function<void(int iteration, const Outcome& outcome)>;

// `trace`, where given, is rank 0's, and is written but not committed. `clock`
// is the rank's own.
RunResult run_session(const TrainingJob& training, Device& device, Transport& transport,
                      const OnIteration& on_iteration, OutputFile* trace, const Clock& clock = {});

}  // namespace pipesim::exec
