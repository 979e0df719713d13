// What happened, or is predicted to happen, when: spans in int64 nanoseconds.
//
// Simulator and executor both produce spans; every metric and the trace
// writer consume them. Times count from the start of the iteration, which is the first start on any
// rank; of several consecutive iterations, from the start of the first. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
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
  // When the input from another rank was sent and when it arrived; both 0 if the action needed
  // none. For an UNSHARD the latter is when its first part arrived.
  std::int64_t input_sent_ns = 0;
  std::int64_t input_arrival_ns = 0;
  // What a transfer or collective moves; 0 for other actions.
  std::int64_t bytes = 0;
  // Measured: how long the rank waited at the action for its input before it started.
  std::int64_t queued_ns = 0;
  // Measured: for how much of it other processes used its processor.
  std::int64_t preempted_ns = 0;

  // Whether an input came from another rank.
  bool has_input() const {
    return (input_sent_ns != 0 || input_arrival_ns != 0) && !is_collective(action);
  }
};

// Measured: one layer's part of a compute action, on the same rank and within
// the action's span.
struct LayerSpan {
  std::int32_t rank = 0;
  std::int32_t iteration = 0;
  std::int32_t layer = 0;
  Kind kind = Kind::F;  // F, I or W
  bool again = false;   // an F recomputed for the backward
  Action action;        // that it is a part of
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t preempted_ns = 0;  // for how much of it other processes used its processor
};

// The exchange of ranks that share the layers of a stage.
enum class GroupExchange : std::uint8_t { all_reduce, reduce_scatter, all_gather };
constexpr std::string_view name_of(GroupExchange exchange) {
  constexpr std::string_view names[] = {"all-reduce", "reduce-scatter", "all-gather"};
  return names[static_cast<std::size_t>(exchange)];
}

// Measured: an exchange with tensor-parallel ranks within a compute action, on the same rank and
// within the action's span.
struct ExchangeSpan {
  std::int32_t rank = 0;
  std::int32_t iteration = 0;
  std::int32_t layer = 0;
  GroupExchange what = GroupExchange::all_reduce;
  std::int32_t ranks = 1;  // of the group
  Action action;
  std::int64_t bytes = 0;  // of the whole sum or gathered result, over all ranks
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t exposed_ns = 0;  // for how much of it the rank did nothing else
};

// Measured: what a rank holds from an instant on.
struct MemorySample {
  std::int32_t rank = 0;
  std::int64_t time_ns = 0;
  StateBytes states;
  WorkingBytes working;
  std::int64_t chunks = 0;  // live chunk-activations
};

// Receives spans as they are produced: the compute spans of one rank in the
// order of its list, ranks interleaved in any order that puts a producer
// before its consumer; a transfer's two spans together, after its producer and
// before its consumer. Actions of a joined cell follow each other. A collective comes once it has
// ended, those of one rank in order, before the actions that wait for it.
using SpanSink = std::function<void(const Span&)>;

// Predicted: the exchange of tensor-parallel ranks within an action, and how much of it products
// hide, which is not part of the action's time.
struct TensorExchange {
  std::int64_t ns = 0;
  std::int64_t hidden_ns = 0;
};
struct StageExchanges {
  TensorExchange forward;
  TensorExchange backward;  // a B or an I
};

// What all iterations of a run have in common.
struct TimelineFrame {
  int ranks = 0;
  int microbatches = 0;
  std::vector<int> chunk_of_stage;  // index of a stage among its rank's own
  // Predicted: for each stage and each rank, for the memory counters.
  std::vector<StageFootprint> footprints;
  std::vector<StateBytes> states;
  std::vector<StageExchanges> exchanges;  // of each stage; empty: none, or unknown
};

}  // namespace pipesim
