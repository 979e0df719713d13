// A whole run on one rank: train, verify, gather the measurement.
// Every rank calls run_session() with the same training; rank 0 reports the result. The transport
// must have as many ranks as the mesh of the run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/clock_sync.h"
#include "exec/run/measurement.h"
#include "exec/run/reference.h"
#include "exec/run/resume.h"
#include "exec/run/training.h"
#include "traces/base/files.h"
#include "traces/collective_times.h"
#include "traces/recorded_run.h"

namespace pipesim::exec {

// Of one rank of the mesh, in the iteration with the median makespan.
struct RankResult {
  Coordinates at;
  RankMetrics metrics;           // with the peak that the rank counted itself
  RankMemory memory;             // at its peak
  std::int64_t taken_bytes = 0;  // allocated on its GPU, at most; 0 for host memory
  CollectiveTimes collectives;   // with its replicas
  CollectiveTimes tensor;        // with tensor-parallel ranks, within its actions
};

// With replicas, of the first pipeline.
struct RunResult {
  // As in its trace, but with spans only for the iteration with the median makespan.
  RecordedRun run;
  // Of that iteration, with the peaks that ranks counted themselves.
  Metrics metrics;
  std::size_t median_place = 0;   // index of that iteration among those measured
  std::vector<RankResult> ranks;  // of the whole mesh
  // One per step, the mean of its passes; including those of a resumed run.
  std::vector<double> warmup_losses, losses;
  std::optional<int> resumed_at;  // an iteration
  std::optional<int> stopped_at;  // if ranks were asked to stop: then everything else is empty
  std::optional<Verification> verification;
  std::vector<ClockRelation> clocks;  // by rank, even if all share one

  // False if the resumed run had nothing left to do.
  bool has_iterations() const { return !run.iterations.empty(); }
  const RecordedIteration& median() const { return run.iterations[run.median_iteration()]; }
  std::int64_t median_ns() const { return median().makespan_ns; }
  std::vector<std::int64_t> iteration_ns() const;  // makespans, in order
};

// Called on rank 0 after each iteration, counted from 0, with the outcome if it ends a step.
using OnIteration = std::function<void(int iteration, const std::optional<Outcome>& outcome)>;

// How a run begins and is saved.
struct Checkpointing {
  std::optional<Resumed> start;  // from find_start(), matching the training's first_iteration
  Disk* disk = &machine_disk();  // to save to; must outlive the run
  std::function<bool()>
      is_to_stop;  // called at the end of a step: if true, the run is saved and ends
};

// `trace`, if given, is on rank 0, and is written but not committed. `clock` is the rank's own.
RunResult run_session(const TrainingJob& training, Device& device, Transport& transport,
                      const OnIteration& on_iteration, OutputFile* trace, const Clock& clock = {},
                      const Checkpointing& checkpointing = {});

}  // namespace pipesim::exec
