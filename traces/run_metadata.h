// The description of the run in a trace of ours, so that reading the trace restores the run.
#pragma once

#include <string>

#include "traces/recorded_run.h"

namespace pipesim {

// The object under metadata.pipesim (FORMAT.md), on one line. native_metadata() reads it.
std::string metadata_json(const RecordedRun& run);

}  // namespace pipesim
