#include "traces/read/event_flows.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
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

std::uint32_t EventFlows::number_of(std::initializer_list<std::string_view> texts) {
  key_.clear();
  for (const std::string_view text : texts) {
    key_ += text;
    key_ += '\0';
  }
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  return numbers_.try_emplace(key_, next).first->second;
}

void EventFlows::add(const ChromeEvent& event, std::uint32_t track) {
  Point point;
  point.time_ns = *event.ts_ns;
  point.track = track;
  point.phase = event.phase;
  point.binds_enclosing = event.phase != 'f' || event.binds_enclosing;
  const char* const end = event.id.data() + event.id.size();
  const auto [at, status] = std::from_chars(event.id.data(), end, point.id);
  const bool is_number = status == std::errc() && at == end;
  point.kind = number_of({is_number ? "number" : "text", event.category, event.name});
  if (!is_number) point.id = number_of({"id", event.id});
  points_.push_back(point);
}

std::vector<EventArrow> EventFlows::arrows(const EventTrace& trace,
                                           std::span<const std::uint32_t> track_of) && {
  LargeVector<Point> points = points_.take();
  const auto rank = [](char phase) { return phase == 's' ? 0 : phase == 't' ? 1 : 2; };
  std::ranges::stable_sort(points, [&](const Point& a, const Point& b) {
    return std::tuple(a.kind, a.id, a.time_ns, rank(a.phase)) <
           std::tuple(b.kind, b.id, b.time_ns, rank(b.phase));
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
  for (std::size_t i = 0; i < points.size();) {
    const Point& first = points[i];
    std::uint32_t last = no_slice;  // where the flow is
    std::vector<std::uint32_t> early;
    bool started = false;
    for (; i < points.size() && points[i].kind == first.kind && points[i].id == first.id; ++i) {
      const std::uint32_t slice = slice_of(points[i]);
      if (points[i].phase == 's') {
        last = slice;
        started = true;
        for (const std::uint32_t to : early) join(slice, to);
        early.clear();
      } else if (!started) {
        early.push_back(slice);
      } else {
        join(last, slice);
        if (points[i].phase == 't' && slice != no_slice) last = slice;
      }
    }
  }
  std::ranges::sort(arrows, {}, [&](const EventArrow& arrow) {
    return std::tuple(trace.slices[arrow.from].end_ns, arrow.from, arrow.to);
  });
  return arrows;
}

}  // namespace pipesim
