// What messages of a measured run took on their way, told apart from what they lay
// waiting for a rank to look.
//
// A rank that computes sees a message only once it has done with that, so what its
// recorded RECV says is when it looked. Whoever computes for longer would make its own
// messages slow. A message that came while its receiver stood still is seen as it comes;
// of the others on the same way, with the same bytes, no more is known than that they
// took no longer than recorded: they are taken to have been as fast, or, where none was
// seen, as fast as the other run has them. Plain functions.
#pragma once

#include "sim/compare/operations.h"

namespace pipesim {

// Of how many messages between ranks it is known how long they were on the wire.
struct WireTimes {
  std::int64_t told = 0;          // when both ends were there, and when it arrived
  std::int64_t as_usual = 0;      // taken for what others on the way took, by the rule above
  std::int64_t seen_late = 0;     // its receiver was busy: no more than what was recorded
  std::int64_t one_end = 0;       // the other was not recorded: includes the wait for that
  std::int64_t not_recorded = 0;  // a gap before what needs it

  std::int64_t messages() const { return told + as_usual + seen_late + one_end + not_recorded; }
};

// Of a message, whether its receiver may have seen it late: it was busy until then. By the
// receiver's clock alone.
bool may_be_seen_late(const Operations& operations, Side side, const Occurrence& transfer);

// What is known of one side's messages. Where hosts look for them between actions, as pipeexec's
// do (GPUs see theirs as they come), puts them back to when they arrived, by that rule. Clocks are
// right.
WireTimes tell_wire_times(Operations& operations, Side side, const RunDescription& about);

}  // namespace pipesim
