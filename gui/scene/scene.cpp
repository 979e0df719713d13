#include "gui/scene/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "gui/scene/shading.h"

namespace pipesim::gui {
namespace {

// Runs, predicted ones first, of a pair its prediction; then those of input pipelines; then what
// has no run.
std::vector<int> order_of_traces(const Document& document) {
  std::vector<int> order;
  for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
    order.push_back(trace);
  }
  std::ranges::stable_sort(order, {}, [&](int trace) {
    const OpenTrace& own = *document.traces[static_cast<std::size_t>(trace)];
    if (own.input) return own.source() == Source::predicted ? 4 : 5;
    if (!own.run) return 6;
    if (const auto side = document.side_of(trace)) return side == predicted_side ? 0 : 1;
    return own.run->about.source == Source::predicted ? 2 : 3;
  });
  return order;
}

bool has_run(const Document& document) {
  return std::ranges::any_of(document.traces, [](const auto& trace) {
    return trace->run.has_value() || trace->input.has_value();
  });
}

void set_offsets(Scene& scene, const Document& document) {
  // Of event traces all tracks have the same.
  std::vector<std::optional<std::int64_t>> of_events(document.traces.size());
  const auto offset_of = [&](int trace, std::int32_t rank) {
    const auto place = static_cast<std::size_t>(trace);
    if (document.traces[place]->run) {
      return offset_ns(document, trace, rank, scene.options.alignment);
    }
    if (!of_events[place])
      of_events[place] = offset_ns(document, trace, 0, scene.options.alignment);
    return *of_events[place];
  };
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) lane.offset_ns = offset_of(lane.trace, group.rank);
    for (CurveLane& curve : group.curves) curve.offset_ns = offset_of(curve.trace, group.rank);
  }
}

void set_arrows(Scene& scene, const Document& document) {
  scene.arrows = {};
  for (const int trace : order_of_traces(document)) {
    ArrowList own = arrows_of(scene, document, trace);
    if (own.empty()) continue;
    scene.arrows = scene.arrows.empty() ? std::move(own) : merged(scene.arrows, own);
  }
}

// The range of all that is told of.
class Union {
 public:
  void add(std::int64_t from_ns, std::int64_t to_ns) {
    range_ = range_ ? TimeRange{std::min(range_->from_ns, from_ns), std::max(range_->to_ns, to_ns)}
                    : TimeRange{from_ns, to_ns};
  }
  std::optional<TimeRange> range() const { return range_; }

 private:
  std::optional<TimeRange> range_;
};

TimeRange extent_of(const Scene& scene) {
  Union all;
  for (const Group& group : scene.groups) {
    for (const Lane& lane : group.lanes) {
      for (const BarRow& row : lane.rows) {
        if (row.empty()) continue;
        all.add(row.start_ns(0) + lane.offset_ns, row.end_ns(row.size() - 1) + lane.offset_ns);
      }
    }
    for (const CurveLane& lane : group.curves) {
      all.add(lane.curve[0].time_ns + lane.offset_ns,
              lane.curve[lane.curve.size() - 1].time_ns + lane.offset_ns);
    }
  }
  return all.range().value_or(TimeRange{});
}

// Of the runs that are compared, else of all, the iteration that stands for each.
TimeRange home_of(const Scene& scene, const Document& document) {
  Union all;
  for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
    const OpenTrace& own = *document.traces[static_cast<std::size_t>(trace)];
    const auto side = document.side_of(trace);
    if (!own.run || own.run->iterations.empty() || (document.pair && !side) ||
        document.first_replica_of(trace) != trace) {
      continue;
    }
    if (scene.options.alignment == Alignment::slot) {
      all.add(scene.extent.from_ns, scene.extent.to_ns);
      continue;
    }
    const RecordedIteration& iteration = compared_iteration(*own.run);
    if (side && scene.options.alignment == Alignment::iteration) {
      all.add(0, document.pair->comparison.sides[*side].played.makespan_ns);
      continue;
    }
    const std::int64_t start_ns =
        iteration.start_ns + offset_ns(document, trace, 0, scene.options.alignment);
    all.add(start_ns, start_ns + iteration.makespan_ns);
  }
  TimeRange home = all.range().value_or(scene.extent);
  const std::int64_t margin_ns = home.length_ns() / 50;
  return {home.from_ns - margin_ns, home.to_ns + margin_ns};
}

void set_ranges(Scene& scene, const Document& document) {
  scene.extent = extent_of(scene);
  scene.home = home_of(scene, document);
}

void reshade(Scene& scene, const Document& document) {
  std::vector<std::unique_ptr<Shading>> shadings(document.traces.size());
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) {
      auto& shading = shadings[static_cast<std::size_t>(lane.trace)];
      if (!shading) {
        shading = std::make_unique<Shading>(document, lane.trace, scene.options.colouring);
      }
      for (BarRow& row : lane.rows) {
        row.reshade([&](const Bar& bar) { return shading->of(bar); });
      }
    }
  }
}

void clear_emphasis(Scene& scene) {
  if (!scene.emphasises) return;
  scene.emphasises = false;
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) lane.emphasis = {};
  }
}

// The place of the first bar whose ref is no less; bars without one are passed over.
std::size_t lower_bound(const BarRow& row, Ref ref) {
  std::size_t first = 0;
  std::size_t last = row.size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    std::size_t known = middle;
    while (known > first && row[known].ref == no_ref) --known;
    const Ref own = row[known].ref;
    if (own != no_ref && own >= ref) {
      last = known;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

}  // namespace

void RowPacker::add_row() {
  rows_->emplace_back();
  end_ns_.push_back(std::numeric_limits<std::int64_t>::min());
}

void RowPacker::add(Bar bar) {
  std::size_t row = 0;
  while (row < end_ns_.size() && end_ns_[row] > bar.start_ns) ++row;
  if (row == max_rows) {
    row = static_cast<std::size_t>(std::ranges::min_element(end_ns_) - end_ns_.begin());
    bar.start_ns = end_ns_[row];
    bar.end_ns = std::max(bar.end_ns, bar.start_ns);
  } else if (row == end_ns_.size()) {
    add_row();
  }
  (*rows_)[row].add(bar);
  end_ns_[row] = bar.end_ns;
}

void RowPacker::add_where_free(Bar bar) {
  bar.start_ns = std::max(bar.start_ns, end_ns_.front());
  if (bar.start_ns >= bar.end_ns) return;
  rows_->front().add(bar);
  end_ns_.front() = bar.end_ns;
}

void RowPacker::finish() {
  for (BarRow& row : *rows_) row.finish();
}

CurveLane lateness_curve(int trace, std::vector<CurvePoint> points) {
  std::ranges::stable_sort(points, {}, &CurvePoint::time_ns);
  CurveLane late;
  late.trace = trace;
  late.label = "lateness";
  for (const CurvePoint& point : points) late.curve.add(point);
  late.curve.finish();
  return late;
}

Scene build_scene(const Document& document, const SceneOptions& options, CriticalPaths paths) {
  Scene scene;
  scene.options = options;
  scene.paths = std::move(paths);
  int ranks = 0;
  for (const auto& trace : document.traces) {
    if (trace->run) ranks = std::max(ranks, trace->run->ranks);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    scene.groups.emplace_back().name = fmt::format("rank {}", rank);
    scene.groups.back().rank = rank;
  }
  // Events have no slots to stand beside those of runs.
  const bool events = options.alignment != Alignment::slot || !has_run(document);
  scene.group_of_track.resize(document.traces.size());
  add_input_groups(scene, document);
  for (const int trace : order_of_traces(document)) {
    const OpenTrace& own = document.trace(trace);
    if (own.run) {
      add_run(scene, document, trace);
    } else if (events || own.input) {
      add_events(scene, document, trace);
    }
  }
  set_offsets(scene, document);
  set_arrows(scene, document);
  set_ranges(scene, document);
  set_critical(scene, document);
  return scene;
}

void change_scene(Scene& scene, const Document& document, const SceneOptions& options) {
  const SceneOptions before = std::exchange(scene.options, options);
  const bool slots = before.alignment == Alignment::slot || options.alignment == Alignment::slot;
  // Events have the same rows in every way of looking.
  if (has_run(document) && (before.show != options.show || before.transfers != options.transfers ||
                            (before.alignment != options.alignment && slots))) {
    scene = build_scene(document, options, std::move(scene.paths));
    return;
  }
  clear_emphasis(scene);
  if (before.colouring != options.colouring) reshade(scene, document);
  if (before.critical != options.critical) set_critical(scene, document);
  if (before.alignment == options.alignment) return;
  set_offsets(scene, document);
  set_arrows(scene, document);
  set_ranges(scene, document);
}

std::optional<Place> find(const Scene& scene, const Document& document, const Pick& pick) {
  if (pick.trace < 0 || pick.ref == no_ref) return {};
  const OpenTrace& trace = *document.traces[static_cast<std::size_t>(pick.trace)];
  std::size_t group = 0;
  bool transfer = false;
  if (trace.run) {
    const Span& span = trace.run->spans[pick.ref];
    group = static_cast<std::size_t>(span.rank);
    transfer = is_communication(span.action);
  } else {
    const auto& groups = scene.group_of_track[static_cast<std::size_t>(pick.trace)];
    if (groups.empty()) return {};
    group = static_cast<std::size_t>(groups[trace.events->slices[pick.ref].track]);
  }
  const auto& lanes = scene.groups[group].lanes;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const Lane& own = lanes[lane];
    if (own.trace != pick.trace || (own.kind == LaneKind::transfers) != transfer) continue;
    for (std::size_t row = 0; row < own.rows.size(); ++row) {
      const BarRow& bars = own.rows[row];
      std::optional<Place> place;
      for (std::size_t bar = lower_bound(bars, pick.ref);
           bar < bars.size() && bars[bar].ref == pick.ref; ++bar) {
        if (is_bubble(bars[bar].shade) != pick.bubble) continue;
        // Idle time before a bar may be of several kinds, one after the other.
        if (!place) {
          place = Place{static_cast<int>(group),
                        static_cast<int>(lane),
                        static_cast<int>(row),
                        bar,
                        {bars.start_ns(bar) + own.offset_ns, 0}};
        }
        place->range.to_ns = bars.end_ns(bar) + own.offset_ns;
      }
      if (place) return place;
    }
  }
  return {};
}

void emphasise(Scene& scene, const Document& document, const std::vector<Pick>& picks) {
  clear_emphasis(scene);
  if (picks.empty()) return;
  scene.emphasises = true;
  struct Found {
    int group, lane;
    Bar bar;
    bool operator==(const Found&) const = default;
  };
  std::vector<Found> found;
  for (const Pick& pick : picks) {
    const auto place = find(scene, document, pick);
    if (!place) continue;
    const BarRow& row = scene.groups[static_cast<std::size_t>(place->group)]
                            .lanes[static_cast<std::size_t>(place->lane)]
                            .rows[static_cast<std::size_t>(place->row)];
    for (std::size_t bar = place->bar;
         bar < row.size() && row[bar].ref == pick.ref && is_bubble(row[bar].shade) == pick.bubble;
         ++bar) {
      found.push_back({place->group, place->lane, row[bar]});
    }
  }
  std::ranges::sort(found, {}, [](const Found& one) {
    return std::tuple(one.group, one.lane, one.bar.start_ns, one.bar.end_ns, one.bar.ref);
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (Found& one : found) {
    BarRow& row = scene.groups[static_cast<std::size_t>(one.group)]
                      .lanes[static_cast<std::size_t>(one.lane)]
                      .emphasis;
    if (!row.empty()) {
      one.bar.start_ns = std::max(one.bar.start_ns, row.end_ns(row.size() - 1));
      if (one.bar.start_ns > one.bar.end_ns) continue;
    }
    row.add(one.bar);
  }
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) lane.emphasis.finish();
  }
}

}  // namespace pipesim::gui
