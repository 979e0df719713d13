// Slices recorded as a begin and an end: B and E of a thread, b and e of async events.
//
// One owner, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/read/event_texts.h"
#include "traces/read/event_trace.h"
#include "traces/warnings.h"

namespace pipesim {

// A begin, an end or an instant among them. Texts as in Slice.
struct EventEdge {
  enum class What : std::uint8_t { begin, end, instant };

  std::int64_t time_ns = 0;
  std::uint32_t stack = 0;  // begins and ends of one stack belong together
  std::uint32_t track = 0;  // where it is shown, if it is not nested
  std::uint32_t name = 0;
  std::uint32_t arguments = 0;
  std::uint16_t category = 0;
  What what = What::begin;
};

// Calls `add` with each slice; a nested one is on its parent's track, and Slice::row is its depth.
// An end closes the innermost slice with its name, and those within it; else the innermost. Slices
// without an end last until `last_ns`.
void join_edges(LargeVector<EventEdge> edges, std::int64_t last_ns, const std::string& path,
                const std::function<void(const Slice&)>& add, Warnings& warnings);

}  // namespace pipesim
