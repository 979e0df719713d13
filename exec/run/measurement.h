// Gathers the ranks' records: as spans, and their metrics.
// All ranks call the gathering functions; results are on rank 0, and empty elsewhere. Each rank
// passes its `clock`, which converts its times to those of the whole job's rank 0 before they are
// sent. Ranks are those of the transport, a pipeline's unless noted.
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

// From the first start to the last end of an iteration's actions on any rank; if iterations are
// `continuous`, from the last end of the previous one.
std::vector<IterationExtent> gather_extents(Transport& transport, const Recorder& recorder,
                                            const ClockRelation& clock, bool continuous);

// A message of an iteration: from the start of its SEND to the end of its RECV, negative if clocks
// are not quite right.
struct MeasuredTransfer {
  int from = 0;
  int to = 0;
  std::int64_t took_ns = 0;
};
// Of all pipelines of the mesh; `transport` has the mesh's ranks.
std::vector<MeasuredTransfer> gather_transfers(Transport& transport, const Mesh& mesh,
                                               const Recorder& recorder, std::size_t iteration,
                                               const ClockRelation& clock);

// The least time from the start of a SEND to the end of its RECV.
inline constexpr std::int64_t min_transfer_ns = 1;

// The largest of each category of memory that any rank recorded.
struct LargestBytes {
  StateBytes states;
  WorkingBytes working;
};
LargestBytes gather_largest(Transport& transport, const Recorder& recorder);

// Groups of the first ranks of pipelines that this rank belongs to.
struct Leaders {
  Transport& all;
  Transport& sharing;  // those that exchange with each other first
};

// One iteration, with times counted from `zero_ns` and everything sorted by time. A RECV that ends
// too early is moved later. Only the first ranks of pipelines use `leaders`.
IterationRecord gather_iteration(Transport& transport, const Leaders& leaders,
                                 const Recorder& recorder, std::size_t iteration,
                                 std::int64_t zero_ns, const ClockRelation& clock);
// The records of all of `transport`'s ranks, in their order.
std::vector<IterationRecord> gather_records(Transport& transport, const IterationRecord& own);

}  // namespace pipesim::exec
