// A whole run on one rank: train, verify, bring the measurement together.
//
// Every rank calls run_session() with the same training; what comes back is
// rank 0's to report. A transport has as many ranks as the mesh of the run.
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
  RankMetrics metrics;           // with the peak that the rank has counted itself
  RankMemory memory;             // at its fullest
  std::int64_t taken_bytes = 0;  // from its GPU, the most at once; 0 of the host's
  CollectiveTimes collectives;   // with its replicas
  CollectiveTimes tensor;        // with tensor-parallel ranks, within its actions
};

// Of a pipeline with replicas it tells of the first.
struct RunResult {
  // As its trace tells it, but for spans of other iterations than the one with the median
  // makespan.
  RecordedRun run;
  // Of that iteration, with the peaks that ranks have counted themselves.
  Metrics metrics;
  std::size_t median_place = 0;   // of that iteration among those measured
  std::vector<RankResult> ranks;  // of the mesh
  // One a step, the mean of its passes; with those of a run that it goes on from.
  std::vector<double> warmup_losses, losses;
  std::optional<int> resumed_at;  // an iteration
  std::optional<int> stopped_at;  // where ranks were asked to stop: then all else is empty
  std::optional<Verification> verification;
  std::vector<ClockRelation> clocks;  // of each rank, also where all share one

  // Where the run that it goes on from has left nothing to do, nothing is.
  bool has_iterations() const { return !run.iterations.empty(); }
  const RecordedIteration& median() const { return run.iterations[run.median_iteration()]; }
  std::int64_t median_ns() const { return median().makespan_ns; }
  std::vector<std::int64_t> iteration_ns() const;  // makespans, in order
};

// Called on rank 0 after each iteration, counted from 0, with the outcome of a step that it ends.
using OnIteration = std::function<void(int iteration, const std::optional<Outcome>& outcome)>;

// How a run begins and is saved.
struct Checkpointing {
  std::optional<Resumed> start;      // of find_start(), with the training's first_iteration
  Disk* disk = &machine_disk();      // of what is saved; outlives the run
  std::function<bool()> is_to_stop;  // asked at the end of a step: then the run is saved, and ends
};

// `trace`, where given, is rank 0's, and is written but not committed. `clock`
// is the rank's own.
RunResult run_session(const TrainingJob& training, Device& device, Transport& transport,
                      const OnIteration& on_iteration, OutputFile* trace, const Clock& clock = {},
                      const Checkpointing& checkpointing = {});

}  // namespace pipesim::exec
