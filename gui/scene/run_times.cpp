#include "gui/scene/run_times.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "traces/arrivals.h"
#include "traces/dependency.h"

namespace pipesim::gui {
std::int64_t first_start_ns(const EventTrace& events) {
  std::optional<std::int64_t> first;
  const auto note = [&](std::int64_t ns) { first = std::min(first.value_or(ns), ns); };
  // Slices are sorted within each row of a track.
  const auto row_of = [](const Slice& slice) { return std::pair(slice.track, slice.row); };
  for (auto slice = events.slices.begin(); slice != events.slices.end();) {
    note(slice->start_ns);
    slice = std::upper_bound(slice, events.slices.end(), row_of(*slice),
                             [&](const auto& row, const Slice& s) { return row < row_of(s); });
  }
  for (const CounterTrack& counter : events.counters) {
    if (!counter.samples.empty()) note(counter.samples.front().time_ns);
  }
  return first.value_or(0);
}

const RecordedIteration& compared_iteration(const RecordedRun& run) {
  return run.iterations[run.median_iteration()];
}

std::int64_t clock_ahead_ns(const Document& document, int trace, std::int32_t rank) {
  if (document.side_of(trace) != measured_side) return 0;
  const auto& clocks = document.pair->comparison.clocks;
  const auto place = static_cast<std::size_t>(rank);
  return place < clocks.size() ? clocks[place].ahead_ns : 0;
}

std::int64_t offset_ns(const Document& document, int trace, std::int32_t rank,
                       Alignment alignment) {
  if (alignment == Alignment::absolute) return 0;
  const OpenTrace& own = document.trace(trace);
  if (own.input && alignment == Alignment::slot) return 0;
  if (own.events) return -first_start_ns(*own.events);
  if (alignment == Alignment::slot || own.run->iterations.empty()) return 0;
  // Replicas have one time: that of the one that is compared.
  const int first = document.first_replica_of(trace);
  for (int one = first; document.pair && one < static_cast<int>(document.traces.size()); ++one) {
    const auto side = document.side_of(one);
    if (!side || document.first_replica_of(one) != first) continue;
    return -document.pair->comparison.sides[*side].start_ns - clock_ahead_ns(document, one, rank);
  }
  return -compared_iteration(*document.trace(first).run).start_ns;
}

std::vector<IdleSpan> idle_times(const Document& document, int trace,
                                 const RecordedIteration& iteration) {
  const RecordedRun& run = *document.trace(trace).run;
  std::vector<std::int64_t> ahead;
  for (int rank = 0; rank < run.ranks; ++rank) {
    ahead.push_back(clock_ahead_ns(document, trace, rank));
  }
  std::vector<Span> storage;
  const auto spans = told_spans(run, iteration, storage);
  if (std::ranges::all_of(ahead, [](std::int64_t ns) { return ns == 0; })) {
    return idle_spans(spans, run.ranks, iteration.start_ns, iteration.makespan_ns);
  }
  const auto ahead_of = [&](std::int32_t rank) { return ahead[static_cast<std::size_t>(rank)]; };
  std::vector<Span> right(spans.begin(), spans.end());
  for (Span& span : right) {
    if (span.has_input()) {
      Action from = span.action;
      from.stage = input_stage(span.action);
      span.input_sent_ns -= ahead_of(run.home_of(from));
      span.input_arrival_ns -= ahead_of(span.rank);
    } else if (is_collective(span.action)) {
      span.input_arrival_ns -= ahead_of(span.rank);
    }
    span.start_ns -= ahead_of(span.rank);
    span.end_ns -= ahead_of(span.rank);
  }
  const IterationExtent extent = extent_of(right);
  auto idle = idle_spans(right, run.ranks, extent.start_ns, extent.makespan_ns);
  for (IdleSpan& one : idle) {
    one.start_ns += ahead_of(one.rank);
    one.end_ns += ahead_of(one.rank);
  }
  return idle;
}

}  // namespace pipesim::gui
