// What a trace of ours says of its run, so that reading it gives the run back.
#pragma once

#include <string>

#include "traces/recorded_run.h"

namespace pipesim {

// The object under metadata.pipesim (FORMAT.md), in one line. own_metadata() reads it.
std::string metadata_json(const RecordedRun& run);

}  // namespace pipesim
