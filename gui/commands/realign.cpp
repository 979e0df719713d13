#include "gui/commands/realign.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gui/commands/navigation.h"
#include "gui/scene/run_times.h"

namespace pipesim::gui {
namespace {

// The offsets that an alignment adds to times.
class Offsets {
 public:
  Offsets(const Document& document, Alignment alignment)
      : document_(document), alignment_(alignment), of_events_(document.traces.size()) {}

  std::int64_t of(int trace, std::int32_t rank) {
    const auto place = static_cast<std::size_t>(trace);
    if (document_.traces[place]->run) return offset_ns(document_, trace, rank, alignment_);
    if (!of_events_[place]) of_events_[place] = offset_ns(document_, trace, 0, alignment_);
    return *of_events_[place];
  }

 private:
  const Document& document_;
  Alignment alignment_;
  std::vector<std::optional<std::int64_t>> of_events_;  // the same for all tracks
};

// The lane of the bar that stays in place: its group's rank, and its trace.
struct Anchor {
  int trace = 0;
  std::int32_t rank = 0;
};

std::optional<Anchor> anchor_of(const Document& document, const Scene& scene, const View& view,
                                const Picture& picture) {
  const auto lane_of = [&](const Pick& pick) -> std::optional<Anchor> {
    const auto place = find(scene, document, pick);
    if (!place || place->range.to_ns < view.range.from_ns ||
        place->range.from_ns > view.range.to_ns) {
      return std::nullopt;
    }
    return Anchor{pick.trace, scene.groups[static_cast<std::size_t>(place->group)].rank};
  };
  std::optional<Anchor> anchor;
  if (view.picked) anchor = lane_of(*view.picked);
  if (anchor) return anchor;
  View none = view;
  none.picked.reset();
  if (const auto first = neighbour(document, scene, none, picture, 1)) return lane_of(*first);
  return std::nullopt;
}

// The extent of the same rows and curves with other offsets.
TimeRange extent_with(const Scene& scene, Offsets& offsets) {
  std::optional<TimeRange> all;
  const auto add = [&](std::int64_t from_ns, std::int64_t to_ns) {
    if (!all) all = TimeRange{from_ns, to_ns};
    all->from_ns = std::min(all->from_ns, from_ns);
    all->to_ns = std::max(all->to_ns, to_ns);
  };
  for (const Group& group : scene.groups) {
    for (const Lane& lane : group.lanes) {
      const std::int64_t offset = offsets.of(lane.trace, group.rank);
      for (const BarRow& row : lane.rows) {
        if (!row.empty()) add(row.start_ns(0) + offset, row.end_ns(row.size() - 1) + offset);
      }
    }
    for (const CurveLane& lane : group.curves) {
      if (lane.curve.empty()) continue;
      const std::int64_t offset = offsets.of(lane.trace, group.rank);
      add(lane.curve[0].time_ns + offset, lane.curve[lane.curve.size() - 1].time_ns + offset);
    }
  }
  return all.value_or(scene.extent);
}

}  // namespace

View realigned(const Document& document, const Scene& scene, View view, const Picture& picture,
               Alignment alignment) {
  const Alignment before = view.options.alignment;
  if (alignment == before) return view;
  view.options.alignment = alignment;
  const bool by_time = alignment != Alignment::slot && before != Alignment::slot;
  if (const auto anchor = by_time ? anchor_of(document, scene, view, picture) : std::nullopt) {
    Offsets offsets(document, alignment);
    const std::int64_t by = offsets.of(anchor->trace, anchor->rank) -
                            Offsets(document, before).of(anchor->trace, anchor->rank);
    view.range = kept_within(panned(view.range, by), extent_with(scene, offsets));
    if (view.area) view.area = panned(*view.area, by);
    for (std::int64_t& mark : view.marks) mark += by;
    return view;
  }
  SceneOptions plain = view.options;
  plain.transfers = false;
  const Scene next = build_scene(document, plain);
  view.range = kept_within(next.home, next.extent);
  view.area.reset();
  view.marks.clear();
  return view;
}

}  // namespace pipesim::gui
