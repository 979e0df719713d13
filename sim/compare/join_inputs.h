// Two runs of one input program as operations, and so compared like any other runs.
//
// A call is two operations: the host's part, named by an IDLE whose number is the call's kind, on
// the host's stream; and its work, on its own stream. A call of the host's own kinds is only the
// latter. The stage of each is its rank. Plain functions; any thread.
#pragma once

#include <string>

#include "sim/compare/operations.h"

namespace pipesim {

// Why two runs, one of them of an input pipeline, are not of one program; empty if they are, or
// both of pipelines.
std::string programs_differ(const RecordedRun& predicted, const RecordedRun& measured);

// Expects runs of one program. Times count from the start of the first host.
Operations join_inputs(const InputRun& predicted, const InputRun& measured);

}  // namespace pipesim
