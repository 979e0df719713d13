// The time a recorded run loses because actions start later than they could.
//
// A pure function; any thread.
#pragma once

#include <cstdint>

#include "traces/recorded_run.h"

namespace pipesim {

// By how much shorter the iteration with the median makespan would be, played again (replay.h),
// were no gap before anything that ranks compute. 0 where there is no iteration.
std::int64_t launch_loss_ns(const RecordedRun& run);

}  // namespace pipesim
