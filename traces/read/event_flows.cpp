#include "traces/read/event_flows.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

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

  struct Found {
    std::uint32_t enclosing;  // the innermost that contains the instant, else one that ends there
    std::uint32_t next;       // the first that starts then or later; of several the outermost
  };

  // For each of the instants, in order.
  std::vector<Found> find(std::uint32_t track, std::span<const std::int64_t> times) const {
    constexpr int searched_one_by_one = 64;
    std::vector<Found> found;
    if (trace_.tracks[track].rows > searched_one_by_one) return sweep(track, times);
    for (const std::int64_t time_ns : times) {
      found.push_back({enclosing(track, time_ns), next(track, time_ns)});
    }
    return found;
  }

 private:
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

  // The same for many rows: sweeps all instants from the first to the last, with the rows that
  // contain them.
  std::vector<Found> sweep(std::uint32_t track, std::span<const std::int64_t> times) const {
    const std::size_t first = begin_[first_row_[track]];
    const std::size_t last =
        begin_[first_row_[track] + static_cast<std::size_t>(trace_.tracks[track].rows)];
    std::vector<std::uint32_t> by_start(last - first);
    std::iota(by_start.begin(), by_start.end(), static_cast<std::uint32_t>(first));
    std::ranges::sort(by_start, {}, [&](std::uint32_t slice) {
      return std::tuple(trace_.slices[slice].start_ns, trace_.slices[slice].row);
    });
    using End = std::pair<std::int64_t, std::uint32_t>;  // of a slice
    std::priority_queue<End, std::vector<End>, std::greater<>> ends;
    std::vector<std::uint32_t> started(static_cast<std::size_t>(trace_.tracks[track].rows),
                                       no_slice);  // the last on each row
    std::set<std::uint16_t> holding;               // rows
    std::size_t next = 0;                          // to start
    std::vector<Found> found;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const std::int64_t time_ns = times[i];
      if (i > 0 && times[i - 1] == time_ns) {
        found.push_back(found.back());
        continue;
      }
      for (; next < by_start.size() && trace_.slices[by_start[next]].start_ns <= time_ns; ++next) {
        const Slice& slice = trace_.slices[by_start[next]];
        started[slice.row] = by_start[next];
        holding.insert(slice.row);
        ends.emplace(slice.end_ns, by_start[next]);
      }
      // A slice that ends now is kept until a later instant, in case nothing contains this one.
      while (!ends.empty() && ends.top().first < time_ns) {
        const std::uint32_t slice = ends.top().second;
        ends.pop();
        const std::uint16_t row = trace_.slices[slice].row;
        if (started[row] == slice) holding.erase(row);
      }
      Found one{no_slice, no_slice};
      for (auto row = holding.rbegin(); row != holding.rend(); ++row) {
        const Slice& slice = trace_.slices[started[*row]];
        const bool holds = slice.end_ns > time_ns || slice.start_ns == time_ns;
        if (holds || one.enclosing == no_slice) one.enclosing = started[*row];
        if (holds) break;
      }
      const auto later = std::ranges::lower_bound(by_start, time_ns, {}, [&](std::uint32_t slice) {
        return trace_.slices[slice].start_ns;
      });
      if (later != by_start.end()) one.next = *later;
      found.push_back(one);
    }
    return found;
  }

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

std::vector<std::uint32_t> EventFlows::slices_of(const LargeVector<Point>& points,
                                                 const EventTrace& trace,
                                                 std::span<const std::uint32_t> track_of) {
  const SliceFinder finder(trace);
  // By track, then time.
  std::vector<std::uint32_t> order(points.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto track = [&](std::uint32_t point) { return track_of[points[point].track]; };
  std::ranges::stable_sort(order, {}, [&](std::uint32_t point) {
    return std::pair(track(point), points[point].time_ns);
  });
  std::vector<std::uint32_t> slices(points.size(), no_slice);
  std::vector<std::int64_t> times;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const std::uint32_t own = track(order[begin]);
    times.clear();
    for (end = begin; end < order.size() && track(order[end]) == own; ++end) {
      times.push_back(points[order[end]].time_ns);
    }
    if (own >= trace.tracks.size()) continue;
    const std::vector<SliceFinder::Found> found = finder.find(own, times);
    for (std::size_t i = begin; i < end; ++i) {
      const Point& point = points[order[i]];
      const auto& [enclosing, next] = found[i - begin];
      const std::uint32_t wanted = point.binds_enclosing ? enclosing : next;
      const std::uint32_t other = point.binds_enclosing ? next : enclosing;
      slices[order[i]] = wanted != no_slice || point.phase == 's' ? wanted : other;
    }
  }
  return slices;
}

std::vector<EventArrow> EventFlows::arrows(const EventTrace& trace,
                                           std::span<const std::uint32_t> track_of) && {
  LargeVector<Point> points = points_.take();
  const auto rank = [](char phase) { return phase == 's' ? 0 : phase == 't' ? 1 : 2; };
  std::ranges::stable_sort(points, [&](const Point& a, const Point& b) {
    return std::tuple(a.kind, a.id, a.time_ns, rank(a.phase)) <
           std::tuple(b.kind, b.id, b.time_ns, rank(b.phase));
  });
  const std::vector<std::uint32_t> slices = slices_of(points, trace, track_of);
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
      const std::uint32_t slice = slices[i];
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
