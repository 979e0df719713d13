// How long checkpoints take, estimated from the SAVEs of recorded runs.
//
// Each rank's part is taken at its median over all checkpoints of a run: when it begins after the
// first rank's, when the rank is done, and, if asynchronous, how long it copied. Rate, sync and
// publication are those of the model (sim/cost/save_costs.h) with the least squared error, none of
// them negative, with the fewest of the three that explain as much. If all ranks write equally many
// bytes, syncs can't be separated from bytes, and all of the time counts as the rate. Calls share
// nothing; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/costs.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct SaveTimes {
  std::optional<SaveCosts> save;  // absent if no run saved
  std::int64_t checkpoints = 0;   // that count
  std::vector<std::string> notes;
};

// `entries`: stages, or layers, with the bytes of their states; if what ranks wrote follows from
// those, `save` has no bytes. Bytes by rank are those of the first run that saves.
SaveTimes save_times(std::span<const RecordedRun* const> runs, bool by_layer,
                     const std::vector<StageCosts>& entries);

}  // namespace pipesim
