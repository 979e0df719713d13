// Where the critical paths of runs are on their lanes.
#include <algorithm>
#include <limits>

#include "gui/scene/scene_parts.h"

namespace pipesim::gui {
namespace {

Lane* lane_of_work(Group& group, int trace) {
  const auto found = std::ranges::find_if(group.lanes, [&](const Lane& lane) {
    return lane.trace == trace &&
           (lane.kind == LaneKind::work || lane.kind == LaneKind::difference);
  });
  return found == group.lanes.end() ? nullptr : &*found;
}

void add_path(Scene& scene, const Document& document, int trace) {
  const bool slots = scene.options.alignment == Alignment::slot;
  std::vector<std::int64_t> free_ns(scene.groups.size(), std::numeric_limits<std::int64_t>::min());
  for (const PathStep& step : scene.paths[static_cast<std::size_t>(trace)]) {
    const auto rank = static_cast<std::size_t>(step.rank);
    Lane* lane = lane_of_work(scene.groups[rank], trace);
    if (lane == nullptr || (slots && step.transfers)) continue;
    const auto ref = static_cast<Ref>(step.span);
    Bar bar{step.start_ns, step.end_ns, ref, critical_shade};
    if (slots) {
      const auto place = find(scene, document, {trace, ref, false});
      if (!place) continue;
      bar.start_ns = place->range.from_ns;
      bar.end_ns = place->range.to_ns;
    }
    bar.start_ns = std::max(bar.start_ns, free_ns[rank]);
    if (bar.start_ns > bar.end_ns) continue;
    free_ns[rank] = bar.end_ns;
    lane->critical.add(bar);
  }
}

// On the slices of an input pipeline's run.
std::vector<PathStep> path_of_input(const Document& document, int trace) {
  const OpenTrace& own = document.trace(trace);
  const auto side = document.side_of(trace);
  const Comparison alone = side ? Comparison() : compare_traces(own, own);
  const Comparison& comparison = side ? document.pair->comparison : alone;
  const std::vector<Ref> slices = own.input->slices_of(comparison.operations);
  std::vector<PathStep> path;
  for (const OperationId id : comparison.sides[side.value_or(measured_side)].played.critical_path) {
    const Ref ref = slices[id];
    if (ref == no_ref) continue;  // a call that takes no time
    const Slice& slice = own.events->slices[ref];
    path.push_back({ref, own.input->slices[ref].rank, slice.start_ns, slice.end_ns});
  }
  return path;
}

void add_path_of_input(Scene& scene, const Document& document, int trace) {
  const auto& groups = scene.group_of_track[static_cast<std::size_t>(trace)];
  if (groups.empty()) return;
  const bool slots = scene.options.alignment == Alignment::slot;
  for (const PathStep& step : scene.paths[static_cast<std::size_t>(trace)]) {
    const auto ref = static_cast<Ref>(step.span);
    const auto place = find(scene, document, {trace, ref, false});
    if (!place) continue;
    Bar bar{step.start_ns, step.end_ns, ref, critical_shade};
    if (slots) {
      bar.start_ns = place->range.from_ns;
      bar.end_ns = place->range.to_ns;
    }
    BarRow& critical = scene.groups[static_cast<std::size_t>(place->group)]
                           .lanes[static_cast<std::size_t>(place->lane)]
                           .critical;
    // What a measured run has at once is there once.
    const std::size_t before = critical.size();
    if (before > 0) bar.start_ns = std::max(bar.start_ns, critical.end_ns(before - 1));
    if (bar.start_ns <= bar.end_ns) critical.add(bar);
  }
}

}  // namespace

CriticalPaths critical_paths(const Document& document) {
  CriticalPaths paths;
  for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
    auto& path = paths.emplace_back();
    if (document.trace(trace).input) path = path_of_input(document, trace);
    if (!document.trace(trace).run) continue;
    const RecordedRun& run = *document.trace(trace).run;
    const auto side = document.side_of(trace);
    path = side ? critical_path_of(document.pair->comparison, *side, run) : critical_path_of(run);
  }
  return paths;
}

void set_critical(Scene& scene, const Document& document) {
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) lane.critical = {};
  }
  if (!scene.options.critical) return;
  if (scene.paths.empty()) scene.paths = critical_paths(document);
  for (int trace = 0; trace < static_cast<int>(document.traces.size()); ++trace) {
    if (document.trace(trace).run) add_path(scene, document, trace);
    if (document.trace(trace).input) add_path_of_input(scene, document, trace);
  }
  for (Group& group : scene.groups) {
    for (Lane& lane : group.lanes) lane.critical.finish();
  }
}

}  // namespace pipesim::gui
