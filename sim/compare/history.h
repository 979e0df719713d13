// The values of the same operations over the iterations of two runs.
#pragma once

#include "sim/compare/clock_shifts.h"
#include "sim/compare/differences.h"
#include "sim/compare/wire_times.h"
#include "traces/recorded_run.h"

namespace pipesim {

// An iteration of each, joined, with clocks put right and messages told apart from what they
// wait for.
struct PreparedJoin {
  Join join;
  std::vector<ClockShift> clocks;
  std::array<std::int64_t, 2> makespan_ns{};  // by the clocks as they are
  std::array<WireTimes, 2> wire;
  std::int64_t start_ns = 0;  // of the measured one, from its recorded start
};
PreparedJoin prepared_join(const RecordedRun& predicted, const RecordedIteration& planned,
                           const RecordedRun& measured, const RecordedIteration& executed);

// How the results of a run travelled: async where it does not say.
P2p mode_of(const RecordedRun& run);

// Values as values_of() has them, without the time that others had the processor. Of long runs some
// iterations, evenly chosen, so many that the spans looked at stay few millions.
History history_of(const RecordedRun& predicted, const RecordedRun& measured,
                   const Operations& operations, const std::array<Values, 2>& values, P2p mode);

}  // namespace pipesim
