// What happened, or is predicted to happen, when: spans in int64 nanoseconds.
//
// Simulator and executor both produce spans; every metric and the trace
// writer consume them. Times count from the start of the iteration, which is
// the first start on any rank. Plain values, owned by whoever holds them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "traces/action.h"
#include "traces/memory.h"

namespace pipesim {

// One action on one rank. A span of a transfer covers the time from its start
// to its arrival, on the sender as SEND and on the receiver as RECV.
struct Span {
  Action action;
  std::int32_t rank = 0;
  std::int32_t iteration = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  // When the input that came from another rank was sent and when it arrived;
  // both 0 where the action needed none.
  std::int64_t input_sent_ns = 0;
  std::int64_t input_arrival_ns = 0;
  // What a transfer moves; 0 for other actions.
  std::int64_t bytes = 0;
};

// Receives spans as they are produced: the compute spans of one rank in the
// order of its list, ranks interleaved in any order that puts a producer
// before its consumer; a transfer's two spans together, after its producer and
// before its consumer. Actions of a joined cell follow each other.
using SpanSink = std::function<void(const Span&)>;

struct Timeline {
  int ranks = 0;
  int microbatches = 0;
  std::vector<int> chunk_of_stage;         // index of a stage among its rank's own
  std::vector<StageFootprint> footprints;  // of each stage, for the memory counters
  std::vector<StateBytes> states;          // of each rank, likewise
  std::vector<Span> spans;
};

}  // namespace pipesim
