// metadata.pipesim of an own trace: the run that made it, see FORMAT.md. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "traces/read/chrome_reader.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct OwnMetadata {
  RunDescription about;
  int ranks = 0;
  int microbatches = 0;
  std::vector<int> chunk_of_stage;
  std::string text;  // the whole object as JSON, equal in all files of one run
};

// Nothing if the trace is not pipesim's. Throws an input error that names the key if a value is
// invalid, and for a trace of an input pipeline.
std::optional<OwnMetadata> own_metadata(const std::string& path, const ChromeTrace& trace);

}  // namespace pipesim
