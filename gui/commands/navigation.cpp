#include "gui/commands/navigation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "traces/dependency.h"

namespace pipesim::gui {
namespace {

bool is_action(const Bar& bar) { return !is_bubble(bar.shade) && bar.ref != no_ref; }

const BarRow* row_at(const Scene& scene, int group, int lane, int row) {
  const auto in = [](const auto& list, int place) {
    return place >= 0 && place < std::ssize(list);
  };
  if (!in(scene.groups, group)) return nullptr;
  const auto& lanes = scene.groups[static_cast<std::size_t>(group)].lanes;
  if (!in(lanes, lane)) return nullptr;
  const auto& rows = lanes[static_cast<std::size_t>(lane)].rows;
  return in(rows, row) ? &rows[static_cast<std::size_t>(row)] : nullptr;
}

std::optional<Pick> first_in_sight(const Scene& scene, const View& view, const Picture& picture) {
  for (const PlacedRow& placed : picture.rows) {
    const BarRow* const row = row_at(scene, placed.group, placed.lane, placed.row);
    if (row == nullptr) continue;
    const Lane& lane = scene.groups[static_cast<std::size_t>(placed.group)]
                           .lanes[static_cast<std::size_t>(placed.lane)];
    for (std::size_t i = row->first_ending_after(view.range.from_ns - lane.offset_ns);
         i < row->size() && row->start_ns(i) + lane.offset_ns < view.range.to_ns; ++i) {
      const Bar bar = (*row)[i];
      if (is_action(bar)) return Pick{lane.trace, bar.ref};
    }
  }
  return std::nullopt;
}

// The consumer of an action's result, or the producer of its input, transfers aside.
std::optional<Action> neighbour_of(const Action& action, int stages, int direction) {
  if (is_transfer(action.kind)) {
    const bool is_this_end = is_send(action.kind) == (direction < 0);
    return compute_at(is_this_end ? action : peer_of(action));
  }
  return direction > 0 ? consumer_of(action, stages) : producer_of(action, stages);
}

std::optional<Ref> along_microbatch(const RecordedRun& run, Ref ref, int direction) {
  const auto iteration =
      std::ranges::upper_bound(run.iterations, std::size_t{ref}, {}, &RecordedIteration::end);
  if (iteration == run.iterations.end() || ref < iteration->begin) return std::nullopt;
  const auto stages = static_cast<int>(run.chunk_of_stage.size());
  const auto wanted = neighbour_of(run.spans[ref].action, stages, direction);
  if (!wanted) return std::nullopt;
  const std::span<const Span> spans = run.spans_of(*iteration);
  const auto found =
      std::ranges::find_if(spans, [&](const Span& span) { return is_named(span.action, *wanted); });
  if (found == spans.end()) return std::nullopt;
  return static_cast<Ref>(iteration->begin + static_cast<std::size_t>(found - spans.begin()));
}

std::optional<Ref> along_arrow(const Scene& scene, const Pick& pick, int direction) {
  std::optional<Arrow> best;
  for (const Arrow& arrow : scene.arrows) {
    if (arrow.trace != pick.trace || (direction > 0 ? arrow.ref : arrow.to_ref) != pick.ref) {
      continue;
    }
    const bool is_better =
        !best || (direction > 0 ? arrow.to_ns < best->to_ns : arrow.from_ns > best->from_ns);
    if (is_better) best = arrow;
  }
  if (!best) return std::nullopt;
  const Ref ref = direction > 0 ? best->to_ref : best->ref;
  return ref == no_ref ? std::nullopt : std::optional(ref);
}

const OpenTrace* trace_at(const Document& document, int trace) {
  if (trace < 0 || trace >= std::ssize(document.traces)) return nullptr;
  return document.traces[static_cast<std::size_t>(trace)].get();
}

}  // namespace

std::optional<Pick> neighbour(const Document& document, const Scene& scene, const View& view,
                              const Picture& picture, int direction) {
  if (!view.picked) return first_in_sight(scene, view, picture);
  const auto place = find(scene, document, *view.picked);
  if (!place) return std::nullopt;
  const BarRow* const row = row_at(scene, place->group, place->lane, place->row);
  if (row == nullptr) return std::nullopt;
  for (auto at = static_cast<std::ptrdiff_t>(place->bar) + direction;
       at >= 0 && at < static_cast<std::ptrdiff_t>(row->size()); at += direction) {
    const Bar bar = (*row)[static_cast<std::size_t>(at)];
    if (is_action(bar)) return Pick{view.picked->trace, bar.ref};
  }
  return std::nullopt;
}

std::optional<Pick> along_flow(const Document& document, const Scene& scene, const Pick& pick,
                               int direction) {
  const OpenTrace* const trace = trace_at(document, pick.trace);
  if (trace == nullptr) return std::nullopt;
  std::optional<Ref> ref;
  if (!trace->run) {
    ref = along_arrow(scene, pick, direction);
  } else if (pick.ref < trace->run->spans.size()) {
    ref = along_microbatch(*trace->run, pick.ref, direction);
  }
  return ref ? std::optional(Pick{pick.trace, *ref}) : std::nullopt;
}

namespace {

// The next of the input pipelines' runs that has a slice's action.
std::optional<Pick> in_other_input(const Document& document, const Pick& pick) {
  const OpenInput& own = *document.trace(pick.trace).input;
  if (pick.ref >= own.slices.size()) return std::nullopt;
  const InputSlice& slice = own.slices[pick.ref];
  const auto count = static_cast<int>(std::ssize(document.traces));
  for (int step = 1; step < count; ++step) {
    const int trace = (pick.trace + step) % count;
    const auto& other = document.trace(trace).input;
    if (!other) continue;
    const Ref ref = other->find(slice.rank, own.called_by(slice).action);
    if (ref != no_ref) return Pick{trace, ref};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Pick> other_side(const Document& document, const Pick& pick) {
  const OpenTrace* const trace = trace_at(document, pick.trace);
  if (trace != nullptr && trace->input) return in_other_input(document, pick);
  const auto side = document.side_of(pick.trace);
  if (!side) return std::nullopt;
  const Pair& pair = *document.pair;
  const OperationId operation = pair.find(*side, pick.ref);
  if (operation == no_operation) return std::nullopt;
  const Side other = *side == predicted_side ? measured_side : predicted_side;
  const Ref ref = pair.span_of[other][operation];
  if (ref == no_ref) return std::nullopt;
  return Pick{pair.trace[other], ref};
}

std::optional<TimeRange> range_of(const Document& document, const Scene& scene,
                                  const std::vector<Pick>& picks) {
  std::optional<TimeRange> all;
  for (const Pick& pick : picks) {
    const auto place = find(scene, document, pick);
    if (!place) continue;
    if (!all) all = place->range;
    all->from_ns = std::min(all->from_ns, place->range.from_ns);
    all->to_ns = std::max(all->to_ns, place->range.to_ns);
  }
  return all;
}

TimeRange with_margin(const Scene& scene, const TimeRange& range, double share) {
  const auto length = static_cast<double>(range.length_ns());
  const std::int64_t margin = std::max<std::int64_t>(std::llround(length * share),
                                                     (min_range_ns - range.length_ns() + 1) / 2);
  return kept_within({range.from_ns - margin, range.to_ns + margin}, scene.extent);
}

int greatest_scroll(const Picture& picture) {
  const int room =
      picture.list.height - picture.ruler_height - picture.pinned_height - picture.legend_height;
  return std::max(0, picture.content_height - std::max(0, room));
}

}  // namespace pipesim::gui
