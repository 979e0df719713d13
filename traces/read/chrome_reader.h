// Chrome traces event by event, as they occur in the wild: both containers, gzip,
// every phase, numbers as strings, files cut off in the middle.
// Streaming: holds one event at a time, and the members other than `traceEvents`. Depends only on
// its arguments; no shared state; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "traces/read/progress.h"
#include "traces/warnings.h"

namespace pipesim {

// A scalar among an event's args: a string's content, or a number, true, false or null as in the
// file. Members of nested objects are named "outer.inner", as long as these names together are no
// longer than 8 times their event and 16 KiB; members of lists are skipped. Of several with one
// name the last counts.
struct TraceArgument {
  std::string_view key;
  std::string_view text;
};

// One event; refers to the reader's memory, and is valid during one call. Times are within about 73
// years of 0, so that differences, margins and ends fit into 64 bits; a duration is never negative.
// An X has both.
struct ChromeEvent {
  char phase = '\0';
  std::string_view name, category;
  std::optional<std::int64_t> ts_ns, dur_ns;
  std::string_view pid, tid;     // numbers as written, so that "7" and 7 are equal; empty if absent
  std::string_view id;           // of a flow or an async event
  bool binds_enclosing = false;  // "bp": "e"
  std::span<const TraceArgument> args;
  std::int64_t index = 0;  // in the file, from 0

  // The text of an argument, empty if there is none of that name.
  std::string_view argument(std::string_view key) const;
};

struct ChromeTrace {
  // The members other than `traceEvents`, each as JSON text, valid even if the file's is not: NaN
  // becomes null, and invalid UTF-8 becomes U+FFFD.
  std::map<std::string, std::string, std::less<>> members;
  std::int64_t events = 0;  // visited
  bool truncated = false;   // it ends in the middle; the complete events before were visited
};

// Visits the events in the order of the file, except incomplete ones: those without a phase, an X
// without ts. Throws an input error if the file is not a Chrome trace, saying what it looks like
// instead, if one value, or everything besides the events, has more than 256 MiB, and if memory
// runs out.
ChromeTrace read_chrome_trace(const std::string& path,
                              const std::function<void(const ChromeEvent&)>& visit,
                              Warnings& warnings, const ReadProgress& progress = {});

// The members before `traceEvents`, without reading events; all of them if it comes last. Throws as
// read_chrome_trace() does.
ChromeTrace read_chrome_head(const std::string& path);

}  // namespace pipesim
