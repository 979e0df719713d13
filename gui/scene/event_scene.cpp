// Lanes, curves and arrows of event traces.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "gui/scene/shading.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

// 1 where all values are whole numbers, or bytes, that fit; else so that the greatest has the 15
// digits that a double has.
double scale_of(const CounterTrack& counter, bool bytes) {
  constexpr double max_whole = 9.2e18;
  constexpr int digits = 15;
  constexpr int max_exponent = 300;  // of a power of ten whose inverse is one, too
  double most = 0;
  bool whole = true;
  for (const CounterTrack::Sample& sample : counter.samples) {
    if (!std::isfinite(sample.value)) continue;
    most = std::max(most, std::abs(sample.value));
    whole = whole && std::trunc(sample.value) == sample.value;
  }
  if (most == 0 || ((whole || bytes) && most <= max_whole)) return 1;
  const int exponent = digits - 1 - static_cast<int>(std::floor(std::log10(most)));
  return std::pow(10., std::clamp(exponent, -max_exponent, max_exponent));
}

CurveLane curve_of(const CounterTrack& counter, int trace) {
  CurveLane lane;
  lane.trace = trace;
  lane.label = counter.name;
  std::string name = counter.name;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  lane.bytes = name.find("bytes") != std::string::npos;
  lane.scale = scale_of(counter, lane.bytes);
  for (const CounterTrack::Sample& sample : counter.samples) {
    if (!std::isfinite(sample.value)) continue;
    lane.curve.add({sample.time_ns, std::llround(sample.value * lane.scale)});
  }
  lane.curve.finish();
  return lane;
}

void add_group(Scene& scene, const EventTrack& track) {
  Group group;
  group.name = track.name;
  group.process = track.process;
  scene.groups.push_back(std::move(group));
}

bool has_several_inputs(const Document& document) {
  return std::ranges::count_if(document.traces,
                               [](const auto& trace) { return trace->input.has_value(); }) > 1;
}

using LaneOf = std::function<Lane&(std::size_t track)>;

// Fills a compute stream's row with its bars and the idle times between them. Idle time up to the
// start of a bar is told with that bar; what an action on another row ends is told with none.
class BubbleRow {
 public:
  BubbleRow(BarRow& row, std::vector<IdleSpan> idle) : row_(row), idle_(std::move(idle)) {}

  void fill(const std::vector<Bar>& bars) {
    std::int64_t free_ns = std::numeric_limits<std::int64_t>::min();
    for (const Bar& bar : bars) {
      add_idle(free_ns, bar.start_ns, bar.ref);
      row_.add(bar);
      free_ns = bar.end_ns;
    }
    add_idle(free_ns, std::numeric_limits<std::int64_t>::max(), no_ref);
  }

 private:
  // What is idle from one time to another; pieces of one kind that follow each other are one.
  void add_idle(std::int64_t from_ns, std::int64_t to_ns, Ref ended_by) {
    std::vector<Bar> bubbles;
    for (; next_ < idle_.size() && idle_[next_].start_ns < to_ns; ++next_) {
      const IdleSpan& piece = idle_[next_];
      const Bar bubble{std::max(piece.start_ns, from_ns), std::min(piece.end_ns, to_ns), no_ref,
                       shade_of(piece.kind)};
      const bool goes_on = !bubbles.empty() && bubbles.back().end_ns == bubble.start_ns &&
                           bubbles.back().shade == bubble.shade;
      if (goes_on) {
        bubbles.back().end_ns = bubble.end_ns;
      } else if (bubble.start_ns < bubble.end_ns) {
        bubbles.push_back(bubble);
      }
      if (piece.end_ns > to_ns) break;
    }
    std::int64_t ends_ns = to_ns;
    for (auto bubble = bubbles.rbegin(); bubble != bubbles.rend(); ++bubble) {
      if (bubble->end_ns != ends_ns) break;
      bubble->ref = ended_by;
      ends_ns = bubble->start_ns;
    }
    for (const Bar& bubble : bubbles) row_.add(bubble);
  }

  BarRow& row_;
  std::vector<IdleSpan> idle_;
  std::size_t next_ = 0;
};

// By rank and call: its place among the calls of its stream.
std::vector<std::vector<std::int64_t>> places_on_streams(const InputProgram& program) {
  std::vector<std::vector<std::int64_t>> places;
  for (const InputCalls& calls : program.calls) {
    std::array<std::int64_t, input_stream_count> next{};
    auto& own = places.emplace_back();
    for (const InputCall& call : calls) {
      own.push_back(next[static_cast<std::size_t>(call.stream)]++);
    }
  }
  return places;
}

// Of an input pipeline's run: slices with the compute streams' bubbles; or, aligned by slot, each
// stream's actions by their places in the program.
void fill_input_lanes(const OpenTrace& own, const Shading& shading, bool slots,
                      const LaneOf& lane_of) {
  const EventTrace& events = *own.events;
  const auto compute = static_cast<std::int64_t>(InputStream::compute);
  const auto places =
      slots ? places_on_streams(own.input->run.program) : std::vector<std::vector<std::int64_t>>();
  for (std::size_t first = 0, last = 0; first < events.slices.size(); first = last) {
    const std::uint32_t track = events.slices[first].track;
    const std::uint32_t row = events.slices[first].row;
    std::vector<Bar> bars;
    for (; last < events.slices.size() && events.slices[last].track == track &&
           events.slices[last].row == row;
         ++last) {
      const auto ref = static_cast<Ref>(last);
      const Slice& slice = events.slices[last];
      Bar bar{slice.start_ns, slice.end_ns, ref, shading.of(ref)};
      if (slots) {
        const InputSlice& what = own.input->slices[ref];
        if (what.role != InputRole::action) continue;
        bar.start_ns = places[static_cast<std::size_t>(what.rank)][what.place] * slot_ns;
        // A clock may have put it before what its stream did earlier.
        if (!bars.empty()) bar.start_ns = std::max(bar.start_ns, bars.back().end_ns);
        bar.end_ns = bar.start_ns + slot_ns;
      }
      bars.push_back(bar);
    }
    BarRow& filled = lane_of(track).rows[row];
    filled.reserve(bars.size());
    const bool has_bubbles = !slots && row == 0 && events.tracks[track].order == compute;
    const auto rank = static_cast<int>(events.tracks[track].process_order);
    BubbleRow(filled, has_bubbles ? idle_spans(own.input->run, rank) : std::vector<IdleSpan>())
        .fill(bars);
  }
}

// How late each action of the measured side ends, by its stream's group.
void add_lateness(const Document& document, int trace,
                  const std::function<Group&(std::size_t track)>& group_of) {
  const Comparison& comparison = document.pair->comparison;
  const EventTrace& events = *document.trace(trace).events;
  std::map<std::size_t, std::vector<CurvePoint>> points;  // by track
  const std::vector<Ref>& slices = document.pair->span_of[measured_side];
  for (OperationId id = 0; id < slices.size(); ++id) {
    if (slices[id] == no_ref || !comparison.operations.matched(id)) continue;
    const Slice& slice = events.slices[slices[id]];
    points[slice.track].push_back({slice.end_ns, comparison.lateness[id].total_ns()});
  }
  for (auto& [track, own] : points) {
    group_of(track).curves.push_back(lateness_curve(trace, std::move(own)));
  }
}

}  // namespace

void add_input_groups(Scene& scene, const Document& document) {
  // By rank and stream.
  std::map<std::pair<std::int64_t, std::int64_t>, const EventTrack*> tracks;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> groups;
  const auto key_of = [](const EventTrack& track) {
    return std::pair(track.process_order, track.order);
  };
  for (const auto& trace : document.traces) {
    if (!trace->input) continue;
    for (const EventTrack& track : trace->events->tracks) tracks.emplace(key_of(track), &track);
  }
  for (const auto& [key, track] : tracks) {
    groups.emplace(key, static_cast<std::int32_t>(scene.groups.size()));
    add_group(scene, *track);
  }
  for (std::size_t trace = 0; trace < document.traces.size(); ++trace) {
    if (!document.traces[trace]->input) continue;
    for (const EventTrack& track : document.traces[trace]->events->tracks) {
      scene.group_of_track[trace].push_back(groups.at(key_of(track)));
    }
  }
}

void add_events(Scene& scene, const Document& document, int trace) {
  const OpenTrace& own = *document.traces[static_cast<std::size_t>(trace)];
  const EventTrace& events = *own.events;
  const Shading shading(document, trace, scene.options.colouring);
  auto& group_of_track = scene.group_of_track[static_cast<std::size_t>(trace)];
  if (!own.input) {
    for (const EventTrack& track : events.tracks) {
      group_of_track.push_back(static_cast<std::int32_t>(scene.groups.size()));
      add_group(scene, track);
    }
  }
  const auto group_of = [&](std::size_t track) -> Group& {
    return scene.groups[static_cast<std::size_t>(group_of_track[track])];
  };
  const auto side = document.side_of(trace);
  const bool difference = scene.options.show == Show::difference && side;
  if (difference && side == predicted_side) return;
  std::vector<std::vector<std::size_t>> sizes;  // of each track's rows
  for (std::size_t track = 0; track < events.tracks.size(); ++track) {
    Lane lane;
    lane.kind = LaneKind::slices;
    lane.trace = trace;
    if (own.input && has_several_inputs(document)) lane.label = name_of_run(document, trace);
    lane.rows.resize(static_cast<std::size_t>(std::max(events.tracks[track].rows, 1)));
    sizes.emplace_back(lane.rows.size());
    group_of(track).lanes.push_back(std::move(lane));
  }
  if (own.input) {
    fill_input_lanes(own, shading, scene.options.alignment == Alignment::slot,
                     [&](std::size_t track) -> Lane& { return group_of(track).lanes.back(); });
    for (std::size_t track = 0; track < sizes.size(); ++track) {
      for (BarRow& row : group_of(track).lanes.back().rows) row.finish();
    }
    if (difference && scene.options.alignment != Alignment::slot) {
      add_lateness(document, trace, group_of);
    }
    return;
  }
  for (const Slice& slice : events.slices) ++sizes[slice.track][slice.row];
  for (std::size_t track = 0; track < sizes.size(); ++track) {
    auto& rows = group_of(track).lanes.back().rows;
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].reserve(sizes[track][row]);
  }
  for (std::size_t i = 0; i < events.slices.size(); ++i) {
    const Slice& slice = events.slices[i];
    const Ref ref = static_cast<Ref>(i);
    group_of(slice.track)
        .lanes.back()
        .rows[slice.row]
        .add({slice.start_ns, slice.end_ns, ref, shading.of(ref)});
  }
  for (std::size_t track = 0; track < sizes.size(); ++track) {
    for (BarRow& row : group_of(track).lanes.back().rows) row.finish();
  }
  for (const CounterTrack& counter : events.counters) {
    CurveLane lane = curve_of(counter, trace);
    if (lane.curve.empty()) continue;
    if (counter.track < events.tracks.size()) {
      group_of(counter.track).curves.push_back(std::move(lane));
      continue;
    }
    Group group;
    group.name = counter.name;
    group.curves.push_back(std::move(lane));
    scene.groups.push_back(std::move(group));
  }
}

}  // namespace pipesim::gui
