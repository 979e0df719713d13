// A Chrome trace as what it shows: tracks of slices, counters and arrows, whatever
// they mean. For files in which no pipeline is known.
//
// Depends on the files alone; any thread. Plain values.
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

// Something that lasted, on a track. Texts are places in EventTrace::texts.
struct Slice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t name = 0;
  std::uint32_t track = 0;
  std::uint32_t arguments = 0;  // of EventTrace::texts: "key: value" lines; 0 is empty
  std::uint16_t category = 0;
  std::uint16_t row = 0;  // within its track: nested below, overlapping side by side
};

// Names are cut where they have more than 256 bytes, since there may be many of one.
struct EventTrack {
  std::string process;  // "python 1234", or its number
  std::string name;     // of the thread
  std::int64_t process_order = 0, order = 0;
  int rows = 1;
};

struct CounterTrack {
  std::string name;         // with its key, where it has several; cut as those of tracks
  std::uint32_t track = 0;  // of its process: the first; tracks.size() where it has none
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
  std::optional<int> rank;         // as a profile says whose it is
  std::vector<EventTrack> tracks;  // in the order in which they are to be shown
  LargeVector<Slice> slices;       // sorted by (track, row, start); on one row none overlap
  std::vector<CounterTrack> counters;
  std::vector<EventArrow> arrows;  // sorted by the end of the first
  std::vector<std::string> texts;  // each once; the first is empty
  std::int64_t events = 0;
  bool truncated = false;
  Warnings warnings;

  std::string_view text(std::uint32_t place) const { return texts[place]; }
};

// Every X is a slice, and so is every instant, of no length, and whatever has a begin
// (B, b, S); what runs beside threads (b, S) is on a track of its category and name.
//
// Throws an input error where the file is no Chrome trace. Of the arguments of
// slices, keeps 64 MiB of different texts, and says in the warnings if it kept not
// all.
EventTrace read_event_trace(const std::string& path, const ReadProgress& progress = {});

}  // namespace pipesim
