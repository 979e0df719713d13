// What the ranks recorded, brought together: spans as the rest of the project
// knows them, and their metrics.
//
// The gathering functions are called by all ranks alike; their results are
// rank 0's, and empty elsewhere. Each rank brings `clock`, by which its times
// become those of the whole job's rank 0 before they leave it. Ranks are those of the
// transport, a pipeline's where nothing else is said.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/run/clock_sync.h"
#include "exec/run/recorder.h"
#include "exec/transport/transport.h"
#include "traces/chrome_writer.h"
#include "traces/mesh.h"
#include "traces/recorded_run.h"
#include "traces/timeline.h"

namespace pipesim::exec {

// From the first start to the last end of an iteration's actions on any rank; where
// iterations are `continuous`, from the last end of the one before.
std::vector<IterationExtent> gather_extents(Transport& transport, const Recorder& recorder,
                                            const ClockRelation& clock, bool continuous);

// A message of an iteration: from the start of its SEND to the end of its RECV,
// which is before that where clocks are not quite right.
struct MeasuredTransfer {
  int from = 0;
  int to = 0;
  std::int64_t took_ns = 0;
};
// Of all pipelines of the mesh, whose ranks `transport` has.
std::vector<MeasuredTransfer> gather_transfers(Transport& transport, const Mesh& mesh,
                                               const Recorder& recorder, std::size_t iteration,
                                               const ClockRelation& clock);

// The least that a RECV is taken to end after the start of its SEND.
inline constexpr std::int64_t least_transfer_ns = 1;

// The largest of each category of memory that any rank recorded.
struct LargestBytes {
  StateBytes states;
  WorkingBytes working;
};
LargestBytes gather_largest(Transport& transport, const Recorder& recorder);

// The first ranks of pipelines, as groups that one of them is of.
struct Leaders {
  Transport& all;
  Transport& sharing;  // those that exchange with each other first
};

// One iteration, times counted from `zero_ns`, everything sorted by time. A RECV
// that ends too early ends later here. `leaders` are used by the first ranks of pipelines alone.
IterationRecord gather_iteration(Transport& transport, const Leaders& leaders,
                                 const Recorder& recorder, std::size_t iteration,
                                 std::int64_t zero_ns, const ClockRelation& clock);
// Those of all of `transport`'s ranks, in their order.
std::vector<IterationRecord> gather_records(Transport& transport, const IterationRecord& own);

}  // namespace pipesim::exec
