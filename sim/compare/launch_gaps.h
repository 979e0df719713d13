// The time a recorded run loses because actions start later than they could.
//
// A pure function; any thread.
#pragma once

#include <cstdint>

#include "traces/action.h"
#include "traces/recorded_run.h"

namespace pipesim {

// Of the iteration with the median makespan; all 0 where there is none.
struct LaunchLoss {
  // By how much shorter it would be, played again (replay.h), were no gap before anything that
  // ranks compute. Where a message was not recorded, what is behind it may have waited for it.
  std::int64_t ns = 0;
  // The rank without whose gaps alone it would be shortest, of several the one with the most; all
  // its gaps; and the action behind the largest of them.
  std::int32_t rank = 0;
  std::int64_t rank_gaps_ns = 0;
  Action action = {};
  std::int64_t action_gap_ns = 0;
};
LaunchLoss launch_loss(const RecordedRun& run);

}  // namespace pipesim
