// A run of an input pipeline drawn in characters: a row for each stream of one rank, time from
// left to right.
#pragma once

#include <string>

#include "traces/input_run.h"
#include "traces/print/terminal.h"

namespace pipesim {

// Expects a span for each call. If there are many batches, shows a few in the middle, and says so.
// Pure; any thread may call it.
std::string input_picture(const InputRun& run, int rank, const Terminal& terminal);

}  // namespace pipesim
