// Lanes, curves and arrows of event traces.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "gui/scene/shading.h"

namespace pipesim::gui {
namespace {

// 1 where all values are whole numbers, or bytes, that fit; else so that the greatest has the 15
// digits that a double has.
double scale_of(const CounterTrack& counter, bool bytes) {
  constexpr double most_whole = 9.2e18;
  constexpr int digits = 15;
  constexpr int most_exponent = 300;  // of a power of ten whose inverse is one, too
  double most = 0;
  bool whole = true;
  for (const CounterTrack::Sample& sample : counter.samples) {
    if (!std::isfinite(sample.value)) continue;
    most = std::max(most, std::abs(sample.value));
    whole = whole && std::trunc(sample.value) == sample.value;
  }
  if (most == 0 || ((whole || bytes) && most <= most_whole)) return 1;
  const int exponent = digits - 1 - static_cast<int>(std::floor(std::log10(most)));
  return std::pow(10., std::clamp(exponent, -most_exponent, most_exponent));
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
  std::vector<std::vector<std::size_t>> sizes;  // of each track's rows
  for (std::size_t track = 0; track < events.tracks.size(); ++track) {
    Lane lane;
    lane.kind = LaneKind::slices;
    lane.trace = trace;
    if (own.input && has_several_inputs(document)) lane.label = name_of_input(document, trace);
    lane.rows.resize(static_cast<std::size_t>(std::max(events.tracks[track].rows, 1)));
    sizes.emplace_back(lane.rows.size());
    group_of(track).lanes.push_back(std::move(lane));
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
