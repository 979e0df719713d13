// A timeline replayed with some of its values replaced.
//
// Each operation is on streams, compute on its rank's, and
// starts a gap after they are free and its input is ready:
//
//   ready = latest end of its streams' earlier operations, also in the iteration before, and of its
//           input, else 0
//   start = ready + exchange + gap,  end = start + duration
//
// An exchange is the wait for its rank's exchanges with replicas.
//
// A blocking collective's operations on all ranks of its group are ready together, once the
// streams of all of them are free.
//
// A gap is chosen so that `start` is the recorded one, and is negative if the recorded
// start is before the inputs it should wait for. A run's own values, replayed in
// its own order, therefore reproduce any run to the nanosecond,
// so differences between replays that replace one class of values after the other
// sum exactly to the difference of two runs. Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/compare/operations.h"
#include "sim/engine/p2p.h"
#include "traces/metrics.h"

namespace pipesim {

// Some operations in the order of one run: who waits for whom.
struct Order {
  static constexpr std::int32_t no_stream = -1;
  static constexpr std::int32_t no_group = -1;

  // Whether an operation is the first of its group in the sequence.
  bool leads(OperationId id) const {
    const std::int32_t group = group_of[id];
    return group != no_group && groups[static_cast<std::size_t>(group)].front() == id;
  }
  const std::vector<OperationId>& group(OperationId id) const {
    return groups[static_cast<std::size_t>(group_of[id])];
  }

  std::span<const OperationId> waits_of(OperationId id) const {
    if (waits_begin.empty()) return {};
    return {waits.data() + waits_begin[id], waits.data() + waits_begin[id + 1]};
  }

  std::vector<OperationId> sequence;  // each after all that it waits for
  // By operation; none where what makes the input is not in the sequence.
  std::vector<OperationId> input;
  std::vector<std::array<std::int32_t, 2>> streams;
  // Blocking collectives: the operations of each group, next to each other in the sequence.
  std::vector<std::vector<OperationId>> groups;
  // What else each waits for, as in Operations.
  std::vector<std::uint32_t> waits_begin;
  std::vector<OperationId> waits;
  std::vector<std::int32_t> group_of;  // by operation; or no_group
  std::vector<bool> computes;          // is no transfer, and so counts for the makespan
  std::optional<std::int64_t> first_collective_ns;  // which counts for it, too
  bool follows = false;  // the iteration before: the makespan counts from 0
  // Is played several times over, each rank going on from its own last end: the makespan is what
  // the last one adds.
  bool repeats = false;
  std::vector<std::int64_t> free_ns;  // by stream: when it ended the iteration before, if known
};

// The order in which a run did its operations, or those of them that the other
// run has, too. The mode says on which streams transfers are: under async on
// none, under blocking on both ranks' own, else on communication streams. Where a
// run contradicts itself, an action waiting for one that its own rank did later,
// the input that closes the circle is left out.
Order order_of(const Operations& operations, Side side, P2p mode, bool only_matched);

// By operation, in nanoseconds; 0 where a run does not have it.
struct Values {
  std::vector<std::int64_t> duration, gap, exchange;
};

// A run's own values, in its own order of all its operations.
Values values_of(const Operations& operations, Side side, const Order& all);

// Plays operations one after the other, again and again, without allocating.
class Replay {
 public:
  explicit Replay(const Operations& operations)
      : Replay(std::vector<std::int64_t>(operations.size())) {}
  // With ends that are known.
  explicit Replay(std::vector<std::int64_t> end_ns) : end_ns_(std::move(end_ns)) {}

  // From the first start, or 0, to the last end of what ranks compute.
  std::int64_t makespan_ns(const Order& order, const Values& values);

  // Plays the sequence: `play_one(id, ready_ns)` returns when that operation ends.
  template <typename PlayOne>
  void run(const Order& order, PlayOne play_one) {
    for (const OperationId id : order.sequence) {
      const std::int64_t end_ns = end_ns_[id] = play_one(id, ready_ns(order, id));
      for (const std::int32_t stream : order.streams[id]) {
        if (stream != Order::no_stream) stream_end_ns_[static_cast<std::size_t>(stream)] = end_ns;
      }
    }
  }
  // Before the first time that an order is played.
  void reset(const Order& order) {
    if (order.repeats) {
      stream_end_ns_.assign(order.free_ns.size(), not_yet);
    } else {
      stream_end_ns_ = order.free_ns;
    }
  }
  std::int64_t end_ns(OperationId id) const { return end_ns_[id]; }
  std::vector<std::int64_t> take_ends() { return std::move(end_ns_); }

  static constexpr std::int64_t not_yet = std::numeric_limits<std::int64_t>::min();

 private:
  // Once the streams of the operation, or of all of its group, have done what comes before, and
  // its input is there.
  std::int64_t ready_ns(const Order& order, OperationId id) {
    std::int64_t ready = not_yet;
    if (order.group_of[id] == Order::no_group) {
      ready = free_ns(order, id);
    } else {
      if (order.leads(id)) {
        group_ns_ = not_yet;
        for (const OperationId member : order.group(id)) {
          group_ns_ = std::max(group_ns_, free_ns(order, member));
        }
      }
      ready = group_ns_;
    }
    return ready == not_yet ? 0 : ready;
  }
  // Its own streams are free, and what it waits for is there.
  std::int64_t free_ns(const Order& order, OperationId id) const {
    std::int64_t free = not_yet;
    for (const std::int32_t stream : order.streams[id]) {
      if (stream == Order::no_stream) continue;
      free = std::max(free, stream_end_ns_[static_cast<std::size_t>(stream)]);
    }
    if (order.input[id] != no_operation) free = std::max(free, end_ns_[order.input[id]]);
    for (const OperationId other : order.waits_of(id)) free = std::max(free, end_ns_[other]);
    return free;
  }

  std::vector<std::int64_t> end_ns_;  // by operation
  std::vector<std::int64_t> stream_end_ns_;
  std::int64_t group_ns_ = 0;  // when the group that was asked for last is ready
};

// A replay with what each operation waited for.
struct ReplayTimes {
  std::vector<std::int64_t> ready_ns;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  // The dependency that ended last, or none; at a tie what its own
  // stream did.
  std::vector<OperationId> awaited;
  // By how much longer an operation could take before the run did.
  std::vector<std::int64_t> slack_ns;
  std::int64_t makespan_ns = 0;
  std::vector<OperationId> critical_path;  // a longest chain, first to last
};
ReplayTimes play(const Operations& operations, const Order& order, const Values& values);

// What the makespan consists of along the critical path; the parts sum to it. What starts before
// what it waited for has ended, as where clocks disagree, counts from then.
CriticalPath parts_of_path(const Operations& operations, Side side, const ReplayTimes& played,
                           const Values& values);

}  // namespace pipesim
