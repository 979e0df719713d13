// Usage of ranks and names in a trace without a pipeline: METRICS.md, "Profiles
// without a pipeline".
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "traces/read/event_trace.h"

namespace pipesim {

// The time of a rank: busy, exposed and idle time sum to its span.
struct RankUsage {
  std::string name;  // "rank 1" if the file says so, with the process if several; else the process
  std::int64_t span_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t hidden_ns = 0;   // of its communication: while it was busy
  std::int64_t exposed_ns = 0;  // the rest

  std::int64_t communication_ns() const { return hidden_ns + exposed_ns; }
  std::int64_t idle_ns() const { return span_ns - busy_ns - exposed_ns; }
};

// For each process with activity: its devices' work if the trace has any, else its threads'.
std::vector<RankUsage> rank_usage(const EventTrace& events);

// All slices of one name.
struct NameTimes {
  std::uint32_t name = 0;  // of EventTrace::texts
  std::int64_t count = 0;
  std::int64_t total_ns = 0;  // with nested slices
  std::int64_t self_ns = 0;   // without nested slices
  std::uint32_t longest = 0;  // a slice, the first of several
};

// By self time, the longest first, then in the order of texts.
std::vector<NameTimes> name_times(const EventTrace& events);

}  // namespace pipesim
