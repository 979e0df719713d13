// An own run from the events of its files: events that contradict the metadata, are repeated, or
// were cut off in the middle are skipped with a warning. Depends only on its arguments; any thread.
#pragma once

#include <string>
#include <vector>

#include "traces/read/native_events.h"
#include "traces/read/native_metadata.h"
#include "traces/recorded_run.h"

namespace pipesim {

// `files` are of one run with that name. Throws a work error if there is no action, saying what is
// there instead.
RecordedRun native_run(std::vector<NativeEvents> files, const NativeMetadata& metadata,
                       const std::string& name);

}  // namespace pipesim
