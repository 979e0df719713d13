// What a trace without a pipeline says of its ranks and of the names in it: METRICS.md, "Of a
// profile without a pipeline".
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
  std::string name;  // "rank 1" where the file says it, of several processes with each; else that
  std::int64_t span_ns = 0;
  std::int64_t busy_ns = 0;
  std::int64_t hidden_ns = 0;   // of its communication: while it was busy
  std::int64_t exposed_ns = 0;  // the rest

  std::int64_t communication_ns() const { return hidden_ns + exposed_ns; }
  std::int64_t idle_ns() const { return span_ns - busy_ns - exposed_ns; }
};

// Of each process that did something: of devices' work, where a trace has some, else of threads.
std::vector<RankUsage> rank_usage(const EventTrace& events);

// All slices of one name.
struct NameTimes {
  std::uint32_t name = 0;  // of EventTrace::texts
  std::int64_t count = 0;
  std::int64_t total_ns = 0;  // with what is within them
  std::int64_t self_ns = 0;   // without
  std::uint32_t longest = 0;  // a slice, the first of several
};

// By self time, the longest first, then as texts have them.
std::vector<NameTimes> name_times(const EventTrace& events);

}  // namespace pipesim
