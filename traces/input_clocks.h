// The clocks of an input pipeline's ranks put in relation by its collectives: each begins once the
// last rank is ready, and so ends nowhere before that. Pure; any thread.
#pragma once

#include <string_view>

#include "traces/input_run.h"

namespace pipesim {

// Starts each collective when its last rank was ready, or on a rank where it ended before, at that
// end: clocks of several hosts are related only approximately.
void start_collectives_together(InputRun& run);

// Shifts the times of ranks by as little as possible so that no collective ends before a rank was
// ready for it, with a warning, which begins with `place`; else the run stays as it is.
void put_clocks_right(InputRun& run, std::string_view place);

}  // namespace pipesim
