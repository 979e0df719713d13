// A run's critical path: the chain of spans that determines its
// length.
//
// Plain values, of the arguments alone; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/compare/comparison.h"
#include "traces/recorded_run.h"

namespace pipesim {

// An operation on the path, by the clock of its rank, as the trace has it.
struct PathStep {
  std::size_t span = 0;       // among the run's; of a transfer its SEND, else its RECV
  std::int32_t rank = 0;      // of a transfer the receiver's
  std::int64_t start_ns = 0;  // of a transfer since when it is sent
  std::int64_t end_ns = 0;
  bool transfers = false;

  bool operator==(const PathStep&) const = default;
};

// For the iteration with the median makespan, first to last, replayed by the run's own rule for
// transfers. Empty where there is no iteration.
std::vector<PathStep> critical_path_of(const RecordedRun& run);
// The iteration's metrics. Where transfers wait for each other, which spans don't tell, the
// critical path is the replay's. Expects an iteration.
Metrics median_metrics(const RecordedRun& run);
// For one side of a comparison; `run` is that side's.
std::vector<PathStep> critical_path_of(const Comparison& comparison, Side side,
                                       const RecordedRun& run);

}  // namespace pipesim
