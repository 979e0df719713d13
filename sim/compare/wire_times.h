// The time on the wire of a run's messages, as far as it is known, told apart from the time they
// waited for a rank to look (traces/arrivals.h).
//
// Where all of a way's messages were seen late, they are assumed to have been as fast as in the
// other run. Plain functions.
#pragma once

#include "sim/compare/operations.h"

namespace pipesim {

// For how many messages between ranks the time on the wire is known.
struct WireTimes {
  std::int64_t told = 0;          // when both ends were there, and when it arrived
  std::int64_t as_usual = 0;      // taken for what others on the way took, by the rule above
  std::int64_t seen_late = 0;     // its receiver was busy: no more than what was recorded
  std::int64_t one_end = 0;       // the other was not recorded: includes the wait for that
  std::int64_t not_recorded = 0;  // a gap before what needs it

  std::int64_t messages() const { return told + as_usual + seen_late + one_end + not_recorded; }
};

// Whether a message's receiver may have seen it late: it was busy until then. By the
// receiver's clock alone.
bool may_be_seen_late(const Operations& operations, Side side, const Occurrence& transfer);

// What is known of one side's messages. Where hosts look for them between actions, puts them back
// to when they arrived. Clocks are right.
WireTimes tell_wire_times(Operations& operations, Side side, const RunDescription& about);

}  // namespace pipesim
