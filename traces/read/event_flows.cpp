#include "traces/read/event_flows.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace pipesim {
namespace {

constexpr std::uint32_t no_slice = 0xffffffff;

// Finds slices of a trace by track and time.
class SliceFinder {
 public:
  explicit SliceFinder(const EventTrace& trace) : trace_(trace), first_row_(trace.tracks.size()) {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < trace.tracks.size(); ++i) {
      first_row_[i] = rows;
      rows += static_cast<std::size_t>(trace.tracks[i].rows);
    }
    begin_.assign(rows + 1, 0);
    for (const Slice& slice : trace.slices) ++begin_[first_row_[slice.track] + slice.row + 1];
    for (std::size_t row = 0; row < rows; ++row) begin_[row + 1] += begin_[row];
  }

  // The innermost that holds the instant; where none does, one that ends there.
  std::uint32_t enclosing(std::uint32_t track, std::int64_t time_ns) const {
    std::uint32_t ended = no_slice;
    for (int row = trace_.tracks[track].rows; row-- > 0;) {
      const auto [begin, end] = row_of(track, row);
      const auto after = std::upper_bound(
          begin, end, time_ns, [](std::int64_t time, const Slice& s) { return time < s.start_ns; });
      if (after == begin) continue;
      const Slice& slice = *(after - 1);
      if (slice.end_ns > time_ns || slice.start_ns == time_ns) return place_of(after - 1);
      if (slice.end_ns == time_ns && ended == no_slice) ended = place_of(after - 1);
    }
    return ended;
  }

  // The first that starts then or later, of several the outermost.
  std::uint32_t next(std::uint32_t track, std::int64_t time_ns) const {
    std::uint32_t best = no_slice;
    for (int row = 0; row < trace_.tracks[track].rows; ++row) {
      const auto [begin, end] = row_of(track, row);
      const auto at = std::lower_bound(
          begin, end, time_ns, [](const Slice& s, std::int64_t time) { return s.start_ns < time; });
      if (at == end) continue;
      if (best == no_slice || at->start_ns < trace_.slices[best].start_ns) best = place_of(at);
    }
    return best;
  }

 private:
  using Place = LargeVector<Slice>::const_iterator;

  std::pair<Place, Place> row_of(std::uint32_t track, int row) const {
    const std::size_t place = first_row_[track] + static_cast<std::size_t>(row);
    return {trace_.slices.begin() + static_cast<std::ptrdiff_t>(begin_[place]),
            trace_.slices.begin() + static_cast<std::ptrdiff_t>(begin_[place + 1])};
  }
  std::uint32_t place_of(Place at) const {
    return static_cast<std::uint32_t>(at - trace_.slices.begin());
  }

  const EventTrace& trace_;
  std::vector<std::size_t> first_row_;  // of each track, among all rows
  std::vector<std::size_t> begin_;      // of each row, among the slices
};

}  // namespace

void EventFlows::add(const ChromeEvent& event, std::uint32_t track) {
  key_.assign(event.category);
  for (const std::string_view part : {event.name, event.id}) {
    key_ += '\0';
    key_ += part;
  }
  const auto flow = flows_.try_emplace(key_, static_cast<std::uint32_t>(flows_.size()));
  points_.push_back({*event.ts_ns, flow.first->second, track, event.phase,
                     event.phase != 'f' || event.binds_enclosing});
}

std::vector<EventArrow> EventFlows::arrows(const EventTrace& trace,
                                           std::span<const std::uint32_t> track_of) && {
  flows_.clear();
  const auto rank = [](char phase) { return phase == 's' ? 0 : phase == 't' ? 1 : 2; };
  std::ranges::stable_sort(points_, [&](const Point& a, const Point& b) {
    return std::tuple(a.flow, a.time_ns, rank(a.phase)) <
           std::tuple(b.flow, b.time_ns, rank(b.phase));
  });
  const SliceFinder finder(trace);
  const auto slice_of = [&](const Point& point) {
    const std::uint32_t track = track_of[point.track];
    if (track >= trace.tracks.size()) return no_slice;
    const std::uint32_t enclosing = finder.enclosing(track, point.time_ns);
    const std::uint32_t next = finder.next(track, point.time_ns);
    const std::uint32_t wanted = point.binds_enclosing ? enclosing : next;
    if (wanted != no_slice || point.phase == 's') return wanted;
    return point.binds_enclosing ? next : enclosing;
  };
  std::vector<EventArrow> arrows;
  const auto join = [&](std::uint32_t from, std::uint32_t to) {
    if (from != no_slice && to != no_slice && from != to) arrows.push_back({from, to});
  };
  for (std::size_t i = 0; i < points_.size();) {
    const std::uint32_t flow = points_[i].flow;
    std::uint32_t last = no_slice;  // where the flow is
    std::vector<std::uint32_t> early;
    bool started = false;
    for (; i < points_.size() && points_[i].flow == flow; ++i) {
      const std::uint32_t slice = slice_of(points_[i]);
      if (points_[i].phase == 's') {
        last = slice;
        started = true;
        for (const std::uint32_t to : early) join(slice, to);
        early.clear();
      } else if (!started) {
        early.push_back(slice);
      } else {
        join(last, slice);
        if (points_[i].phase == 't' && slice != no_slice) last = slice;
      }
    }
  }
  std::ranges::sort(arrows, {}, [&](const EventArrow& arrow) {
    return std::tuple(trace.slices[arrow.from].end_ns, arrow.from, arrow.to);
  });
  return arrows;
}

}  // namespace pipesim
