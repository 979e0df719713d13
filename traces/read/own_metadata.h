// What a trace of ours says of the run that made it: metadata.pipesim, as
// FORMAT.md has it. Pure; any thread.
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
  std::string text;  // the whole object as JSON, alike for files of one run
};

// Nothing where the trace is not ours. Throws an input error that names the key
// where it is but says what cannot be, and where it is of an input pipeline.
std::optional<OwnMetadata> own_metadata(const std::string& path, const ChromeTrace& trace);

}  // namespace pipesim
