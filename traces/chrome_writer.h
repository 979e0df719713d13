// A timeline as a Chrome trace, which Perfetto, chrome://tracing and pipeview
// open. The layout of the file is fixed in FORMAT.md.
#pragma once

#include <string_view>

#include "traces/base/files.h"
#include "traces/timeline.h"

namespace pipesim {

// Writes the whole trace to `file`, without committing it. `metadata_json` is
// a JSON object that says what made the trace and allows a replay; it stands
// under metadata.pipesim. Spans must be sorted by (start, rank), joined ones
// next to each other. The bytes depend on the arguments alone.
void write_chrome_trace(const Timeline& timeline, std::string_view metadata_json, OutputFile& file);

}  // namespace pipesim
