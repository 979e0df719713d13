// A run of ours from the events of its files: what contradicts the metadata,
// is there twice, or was cut off in the middle is left out with a warning.
//
// Depends on its arguments alone; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read/own_events.h"
#include "traces/read/own_metadata.h"
#include "traces/recorded_run.h"

namespace pipesim {

// `files` are of one run, `name` is what it is called. Throws a work error, which
// says what is there instead, where no action is.
RecordedRun own_run(std::vector<OwnEvents> files, const OwnMetadata& metadata,
                    const std::string& name);

}  // namespace pipesim
