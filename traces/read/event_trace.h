// A Chrome trace as displayed: tracks of slices, counters and arrows, without interpretation. For
// files in which no pipeline is known. Depends only on the files; any thread. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/read/progress.h"
#include "traces/warnings.h"

namespace pipesim {

// An event with a duration, on a track. Texts are indices in EventTrace::texts.
struct Slice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t name = 0;
  std::uint32_t track = 0;
  std::uint32_t arguments = 0;  // of EventTrace::texts: "key: value" lines; 0 is empty
  std::uint16_t category = 0;
  std::uint16_t row = 0;  // within its track: nested below, overlapping side by side
};

// Names are cut after 256 bytes, since one name may occur many times.
struct EventTrack {
  std::string process;  // "python 1234", or its number
  std::string name;     // of the thread
  std::int64_t process_order = 0, order = 0;
  int rows = 1;
};

struct CounterTrack {
  std::string name;         // with its key, if it has several; cut like those of tracks
  std::uint32_t track = 0;  // the first of its process; tracks.size() if it has none
  struct Sample {
    std::int64_t time_ns = 0;
    double value = 0;
  };
  std::vector<Sample> samples;  // sorted by time
};

// From slice to slice.
struct EventArrow {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

struct EventTrace {
  std::string name;
  std::optional<int> rank;         // as recorded by a profiler
  std::vector<EventTrack> tracks;  // in display order
  LargeVector<Slice> slices;       // sorted by (track, row, start); on one row none overlap
  std::vector<CounterTrack> counters;
  std::vector<EventArrow> arrows;  // sorted by the end of the first
  std::vector<std::string> texts;  // each once; the first is empty
  std::int64_t events = 0;
  bool truncated = false;
  Warnings warnings;

  std::string_view text(std::uint32_t place) const { return texts[place]; }
};

// Every X is a slice, and so is every instant, of no length, and everything with a begin (B, b, S);
// async events (b, S) are on a track of their category and name. Throws an input error if the file
// is not a Chrome trace. Keeps at most 64 MiB of different texts of slices' arguments, and warns if
// it dropped some.
EventTrace read_event_trace(const std::string& path, const ReadProgress& progress = {});

}  // namespace pipesim
