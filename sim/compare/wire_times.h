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

// Whether a run's hosts look for messages between actions, as pipeexec's do; GPUs see
// theirs as they come.
bool is_seen_by_hosts(const RunDescription& about);

// Of a message, whether its receiver may have seen it late: it was busy until then. By the
// receiver's clock alone.
bool may_be_seen_late(const Operations& operations, Side side, const Occurrence& transfer);

// Puts the transfers of one side back to when they arrived, by that rule. Clocks are right.
void leave_out_waiting(Operations& operations, Side side);

}  // namespace pipesim
