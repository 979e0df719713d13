// Scenes as large as they come, and a walk through them: for benchmarks of the viewer.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gui/scene/scene.h"

namespace pipesim::gui {

// Two lanes a group with forwards, backwards and bubbles, of so many bars in all, a
// curve of memory each, and an arrow from every eighth bar to the next group.
inline Scene scene_of(std::int64_t bars) {
  constexpr int groups = 32;
  std::mt19937_64 random(1);
  Scene scene;
  std::vector<Arrow> arrows;
  const std::int64_t each = bars / (2 * groups);
  for (int number = 0; number < groups; ++number) {
    Group group;
    group.name = "rank " + std::to_string(number);
    group.rank = number;
    for (int side = 0; side < 2; ++side) {
      Lane lane;
      lane.trace = side;
      lane.label = side == 0 ? "predicted" : "measured";
      lane.rows.resize(1);
      BarRow& row = lane.rows.front();
      row.reserve(static_cast<std::size_t>(each));
      CurveLane memory;
      memory.trace = side;
      memory.label = "memory";
      memory.bytes = true;
      std::int64_t now = number * 1'000;
      std::int64_t bytes = 0;
      for (std::int64_t i = 0; i < each; ++i) {
        const bool bubble = i % 4 == 3;
        const auto shade = static_cast<Shade>(bubble ? first_bubble_shade + i / 4 % 4 : i % 4);
        const std::int64_t end = now + 500 + static_cast<std::int64_t>(random() % 1'000);
        row.add({now, end, static_cast<Ref>(i), shade});
        if (!bubble) {
          bytes += i % 4 == 0 ? 3'000'000 : -1'400'000;
          memory.curve.add({end, bytes = std::max<std::int64_t>(bytes, 0)});
        }
        if (i % 8 == 0 && number + 1 < groups) {
          arrows.push_back(
              {end, end + 700, number, number + 1, side, static_cast<Ref>(i), static_cast<Ref>(i)});
        }
        now = end;
      }
      row.finish();
      memory.curve.finish();
      scene.extent.to_ns = std::max(scene.extent.to_ns, now);
      group.lanes.push_back(std::move(lane));
      group.curves.push_back(std::move(memory));
    }
    scene.groups.push_back(std::move(group));
  }
  std::ranges::sort(arrows, {}, &Arrow::from_ns);
  for (const Arrow& arrow : arrows) scene.arrows.push_back(arrow);
  scene.home = scene.extent;
  return scene;
}

// From all that there is to a thousandth of it and back, panning at each step.
inline std::vector<TimeRange> walk(const TimeRange& extent) {
  std::vector<TimeRange> ranges;
  TimeRange range = extent;
  for (int i = 0; i < 48; ++i) {
    for (int pan = 0; pan < 3; ++pan) {
      ranges.push_back(range);
      range = kept_within(panned(range, range.length_ns() / 9), extent);
    }
    const std::int64_t about = range.from_ns + range.length_ns() / 3;
    range = kept_within(zoomed(range, about, i < 24 ? 0.75 : 1 / 0.75), extent);
  }
  return ranges;
}

// Of the processor by this thread: what else the machine does is no part of it.
inline double milliseconds_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

}  // namespace pipesim::gui
