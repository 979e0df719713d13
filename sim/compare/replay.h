// A timeline played again, with some of its values replaced.
//
// Each operation stands on streams, what a rank computes on its rank's, and
// starts when they are free and its input is there, and a gap after that:
//
//   ready = latest end of what its streams did before and of its input, else 0
//   start = ready + gap,  end = start + duration
//
// Closing work, a gradient reduction or an optimizer step, that starts later than
// its rank could has waited for others: a norm of all gradients, a matrix that two
// stages share. It is taken to wait for what ended last on any rank before it; not so where
// a run did what costs say and no more.
//
// A gap is what makes `start` the one recorded, and so negative where a recorded
// start lies before what it is taken to wait for. A run's own values, played in
// its own order, therefore give back the run to the nanosecond, whatever it was:
// so differences between replays that replace one class of values after the other
// sum exactly to the difference of two runs. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/compare/operations.h"
#include "sim/engine/p2p.h"

namespace pipesim {

// Some operations in the order of one run: who waits for whom.
struct Order {
  static constexpr std::int32_t no_stream = -1;

  std::vector<OperationId> sequence;  // each after all that it waits for
  // By operation; none where what makes the input is not in the sequence.
  std::vector<OperationId> input;
  std::vector<std::array<std::int32_t, 2>> streams;
  std::vector<bool> computes;  // is no transfer, and so counts for the makespan
  std::optional<std::int64_t> first_collective_ns;  // which counts for it, too
  bool follows = false;  // the iteration before: the makespan counts from 0
  std::size_t stream_count = 0;
};

// The order in which a run did its operations, or those of them that the other
// run has, too. The mode says on which streams transfers are: under async on
// none, under blocking on both ranks' own, else on communication streams. Where a
// run contradicts itself, an action waiting for one that its own rank did later,
// the input that closes the circle is left out.
Order order_of(const Operations& operations, Side side, P2p mode, bool only_matched);

// By operation, in nanoseconds; 0 where a run does not have it.
struct Values {
  std::vector<std::int64_t> duration, gap;
};

// What a run took, in its own order of all its operations.
Values values_of(const Operations& operations, Side side, const Order& all);

// Plays, again and again, without allocating.
class Player {
 public:
  explicit Player(const Operations& operations) : end_ns_(operations.size()) {}

  // From the first start, or 0, to the last end of what ranks compute.
  std::int64_t makespan_ns(const Order& order, const Values& values);

 private:
  std::vector<std::int64_t> end_ns_;  // by operation
  std::vector<std::int64_t> stream_end_ns_;
};

// The same, with what each operation waited for.
struct Played {
  std::vector<std::int64_t> ready_ns;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  // What ended last of all that it waits for, or none; at a tie what its own
  // stream did.
  std::vector<OperationId> awaited;
  // By how much longer an operation could take before the run did.
  std::vector<std::int64_t> slack_ns;
  std::int64_t makespan_ns = 0;
  std::vector<OperationId> critical_path;  // a longest chain, first to last
};
Played play(const Operations& operations, const Order& order, const Values& values);

}  // namespace pipesim
