// Arrows between the groups of a scene.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "traces/arrivals.h"

namespace pipesim::gui {
namespace {

// Finds, within an iteration, what waits for a SEND.
class Receivers {
 public:
  explicit Receivers(std::size_t stages) : waiting_(2 * stages) {}

  void fill(const RecordedRun& run, const RecordedIteration& iteration) {
    for (auto& bucket : waiting_) bucket.clear();
    for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
      const Span& span = run.spans[i];
      if (!span.has_input()) continue;
      waiting_[place(span.action.stage, span.action.kind == Kind::F)].emplace_back(
          span.action.microbatch, static_cast<Ref>(i));
    }
    for (auto& bucket : waiting_) {
      if (!std::ranges::is_sorted(bucket)) std::ranges::sort(bucket);
    }
  }

  Ref find(const Action& send) const {
    const bool forward = send.kind == Kind::SEND_F;
    const std::int32_t stage = send.stage + (forward ? 1 : -1);
    if (stage < 0 || place(stage, forward) >= waiting_.size()) return no_ref;
    const auto& bucket = waiting_[place(stage, forward)];
    const auto found = std::ranges::lower_bound(bucket, std::pair(send.microbatch, Ref{0}));
    return found == bucket.end() || found->first != send.microbatch ? no_ref : found->second;
  }

 private:
  static std::size_t place(std::int32_t stage, bool forward) {
    return 2 * static_cast<std::size_t>(stage) + (forward ? 1 : 0);
  }

  // By receiving stage and direction, sorted by microbatch.
  std::vector<std::vector<std::pair<std::int32_t, Ref>>> waiting_;
};

void add_arrows_of_run(Scene& scene, const Document& document, int trace) {
  if (scene.options.alignment == Alignment::slot) return;
  const RecordedRun& run = *document.traces[static_cast<std::size_t>(trace)]->run;
  std::span<const RecordedIteration> iterations = run.iterations;
  const auto side = document.side_of(trace);
  if (scene.options.show == Show::difference && side) {
    if (side == predicted_side) return;
    iterations = {&compared_iteration(run), 1};
  }
  std::vector<std::int64_t> offsets;
  for (int rank = 0; rank < run.ranks; ++rank) {
    offsets.push_back(offset_ns(document, trace, rank, scene.options.alignment));
  }
  // Growing by and by would hold all of them twice for a while.
  std::size_t sends = 0;
  for (const RecordedIteration& iteration : iterations) {
    sends += static_cast<std::size_t>(std::ranges::count_if(
        run.spans_of(iteration), [](const Span& span) { return is_send(span.action.kind); }));
  }
  scene.arrows.reserve(scene.arrows.size() + sends);
  Receivers receivers(run.chunk_of_stage.size());
  std::vector<Span> storage;
  for (const RecordedIteration& iteration : iterations) {
    receivers.fill(run, iteration);
    const auto told = told_spans(run, iteration, storage);
    for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
      const Span& sent = run.spans[i];
      if (!is_send(sent.action.kind)) continue;
      const Ref waiting = receivers.find(sent.action);
      if (waiting == no_ref) continue;
      const Span& to = told[waiting - iteration.begin];
      scene.arrows.push_back({sent.start_ns + offsets[static_cast<std::size_t>(sent.rank)],
                              to.input_arrival_ns + offsets[static_cast<std::size_t>(to.rank)],
                              sent.rank, to.rank, trace, static_cast<Ref>(i), waiting});
    }
  }
}

void add_arrows_of_events(Scene& scene, const Document& document, int trace) {
  const auto& groups = scene.group_of_track[static_cast<std::size_t>(trace)];
  if (groups.empty()) return;
  const EventTrace& events = *document.traces[static_cast<std::size_t>(trace)]->events;
  const std::int64_t offset = offset_ns(document, trace, 0, scene.options.alignment);
  scene.arrows.reserve(scene.arrows.size() + events.arrows.size());
  for (const EventArrow& arrow : events.arrows) {
    const Slice& from = events.slices[arrow.from];
    const Slice& to = events.slices[arrow.to];
    // From that instant of the first which is nearest to the start of the second.
    const std::int64_t from_ns = std::clamp(to.start_ns, from.start_ns, from.end_ns);
    scene.arrows.push_back({from_ns + offset, to.start_ns + offset, groups[from.track],
                            groups[to.track], trace, arrow.from, arrow.to});
  }
}

}  // namespace

void add_arrows(Scene& scene, const Document& document, int trace) {
  const auto begin = static_cast<std::ptrdiff_t>(scene.arrows.size());
  if (document.traces[static_cast<std::size_t>(trace)]->events) {
    add_arrows_of_events(scene, document, trace);
  } else {
    add_arrows_of_run(scene, document, trace);
  }
  const auto own = scene.arrows.begin() + begin;
  if (!std::is_sorted(own, scene.arrows.end(),
                      [](const Arrow& a, const Arrow& b) { return a.from_ns < b.from_ns; })) {
    std::ranges::stable_sort(own, scene.arrows.end(), {}, &Arrow::from_ns);
  }
  std::ranges::inplace_merge(scene.arrows, own, {}, &Arrow::from_ns);
}

}  // namespace pipesim::gui
