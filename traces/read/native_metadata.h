// metadata.pipesim of an own trace: the run that made it, see FORMAT.md. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "traces/base/json_slice.h"
#include "traces/read/chrome_reader.h"
#include "traces/recorded_run.h"

namespace pipesim {

inline constexpr std::string_view trace_format = "pipesim-trace";
inline constexpr std::string_view old_input_format = "pipesim-input-trace";  // read, not written

struct NativeMetadata {
  RunDescription about;
  int ranks = 0;
  int microbatches = 0;
  std::vector<int> chunk_of_stage;
  std::string text;  // the whole object as JSON, equal in all files of one run
};

// Nothing if the trace is not pipesim's. Throws an input error that names the key if a value is
// invalid, and for a trace of an input pipeline.
std::optional<NativeMetadata> native_metadata(const std::string& path, const ChromeTrace& trace);

// metadata.pipesim of the trace of an input pipeline; nothing if it is not one.
std::optional<JsonSlice> input_metadata(const ChromeTrace& trace);

}  // namespace pipesim
