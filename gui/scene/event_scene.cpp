// Lanes, curves and arrows of event traces.
#include <algorithm>
#include <cmath>
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

}  // namespace

void add_events(Scene& scene, const Document& document, int trace) {
  const OpenTrace& own = *document.traces[static_cast<std::size_t>(trace)];
  const EventTrace& events = *own.events;
  const Shading shading(document, trace, scene.options.colouring);
  const std::size_t first = scene.groups.size();
  std::vector<std::vector<std::size_t>> sizes;  // of each track's rows
  for (const EventTrack& track : events.tracks) {
    Group group;
    group.name = track.name;
    group.process = track.process;
    Lane lane;
    lane.kind = LaneKind::slices;
    lane.trace = trace;
    lane.rows.resize(static_cast<std::size_t>(std::max(track.rows, 1)));
    sizes.emplace_back(lane.rows.size());
    group.lanes.push_back(std::move(lane));
    scene.groups.push_back(std::move(group));
  }
  for (const Slice& slice : events.slices) ++sizes[slice.track][slice.row];
  for (std::size_t track = 0; track < sizes.size(); ++track) {
    auto& rows = scene.groups[first + track].lanes.front().rows;
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row].reserve(sizes[track][row]);
  }
  for (std::size_t i = 0; i < events.slices.size(); ++i) {
    const Slice& slice = events.slices[i];
    const Ref ref = static_cast<Ref>(i);
    scene.groups[first + slice.track].lanes.front().rows[slice.row].add(
        {slice.start_ns, slice.end_ns, ref, shading.of(ref)});
  }
  for (std::size_t track = 0; track < sizes.size(); ++track) {
    for (BarRow& row : scene.groups[first + track].lanes.front().rows) row.finish();
  }
  for (const CounterTrack& counter : events.counters) {
    CurveLane lane = curve_of(counter, trace);
    if (lane.curve.empty()) continue;
    if (counter.track < events.tracks.size()) {
      scene.groups[first + counter.track].curves.push_back(std::move(lane));
      continue;
    }
    Group group;
    group.name = counter.name;
    group.curves.push_back(std::move(lane));
    scene.groups.push_back(std::move(group));
  }
}

std::size_t first_group_of(const Scene& scene, int trace) {
  const auto found = std::ranges::find_if(scene.groups, [&](const Group& group) {
    return group.rank < 0 && !group.lanes.empty() && group.lanes.front().trace == trace;
  });
  return static_cast<std::size_t>(found - scene.groups.begin());
}

}  // namespace pipesim::gui
