// Arrows of a Chrome trace: s, t and f of one flow, and the slices that they connect.
//
// One owner, one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "traces/base/gathering.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/event_trace.h"

namespace pipesim {

class EventFlows {
 public:
  // An s, t or f on that track; must have a time.
  void add(const ChromeEvent& event, std::uint32_t track);

  // `track_of`: each track's index in trace.tracks, by number. Each t and f is joined with the
  // point before it in its flow; in a flow whose s is later or missing, for example because clocks
  // are off, with the first s, or not at all.
  std::vector<EventArrow> arrows(const EventTrace& trace,
                                 std::span<const std::uint32_t> track_of) &&;

 private:
  struct Point {
    std::int64_t time_ns = 0;
    std::int64_t id = 0;
    std::uint32_t kind = 0;
    std::uint32_t track = 0;
    char phase = 's';
    bool binds_enclosing = true;
  };
  std::uint32_t number_of(std::initializer_list<std::string_view> texts);
  // The slice of each point.
  static std::vector<std::uint32_t> slices_of(const LargeVector<Point>& points,
                                              const EventTrace& trace,
                                              std::span<const std::uint32_t> track_of);

  // Of categories and names of flows, and of ids that are not numbers.
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::string key_;
  Gathering<Point> points_;
};

}  // namespace pipesim
