// Chrome traces event by event, as they occur in the wild: both containers, gzip,
// every phase, numbers as strings, files cut off in the middle.
//
// Streaming: what is held is one event and the members beside `traceEvents`.
// Depends on its arguments alone; calls share nothing; any thread.
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

// A scalar among an event's args: a string's content, or a number, true, false or
// null as the file has it. Members of nested objects are named "outer.inner", as long as
// these names together are no longer than 8 times their event and 16 KiB; what lists hold is left
// out. Of several with one name the last counts.
struct TraceArgument {
  std::string_view key;
  std::string_view text;
};

// One event; refers to the reader's memory, and is good for one call. Times lie
// within about 73 years of 0, so that differences and margins fit into 64 bits, ends as
// well; a duration is never negative. An X has both.
struct ChromeEvent {
  char phase = '\0';
  std::string_view name, category;
  std::optional<std::int64_t> ts_ns, dur_ns;
  std::string_view pid, tid;     // numbers as written, so that "7" and 7 are alike; empty if absent
  std::string_view id;           // of a flow or an async event
  bool binds_enclosing = false;  // "bp": "e"
  std::span<const TraceArgument> args;
  std::int64_t index = 0;  // in the file, from 0

  // The text of an argument, empty where there is none of that name.
  std::string_view argument(std::string_view key) const;
};

struct ChromeTrace {
  // The members beside `traceEvents`, each as JSON text, valid even where the
  // file's is not: NaN is null there, and what is no UTF-8 is U+FFFD.
  std::map<std::string, std::string, std::less<>> members;
  std::int64_t events = 0;  // visited
  bool truncated = false;   // it ends in the middle; the whole events before were visited
};

// Visits the events in the order of the file, but for those that say too little:
// one without a phase, an X without ts. Throws an input error where the file is
// no Chrome trace, saying what it looks like instead, where one value, or what stands
// beside the events, has more than 256 MiB, and where memory runs out.
ChromeTrace read_chrome_trace(const std::string& path,
                              const std::function<void(const ChromeEvent&)>& visit,
                              Warnings& warnings, const ReadProgress& progress = {});

// The members before `traceEvents`, with no event read; all where it comes last.
// Complains as read_chrome_trace() does.
ChromeTrace read_chrome_head(const std::string& path);

}  // namespace pipesim
