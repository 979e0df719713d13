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

// Takes arrows in any order. Those that come in order, as they do where clocks agree, are
// packed at once.
class ArrowSorter {
 public:
  void add(const Arrow& arrow) {
    if (late_.empty() && (sorted_.empty() || arrow.from_ns >= last_ns_)) {
      sorted_.push_back(arrow);
      last_ns_ = arrow.from_ns;
    } else {
      late_.push_back(arrow);
    }
  }
  ArrowList take() {
    std::ranges::stable_sort(late_, {}, &Arrow::from_ns);
    ArrowList late;
    for (const Arrow& arrow : late_) late.push_back(arrow);
    ArrowList all = late.empty() ? std::move(sorted_) : merged(sorted_, late);
    all.shrink_to_fit();
    return all;
  }

 private:
  ArrowList sorted_;
  std::int64_t last_ns_ = 0;
  std::vector<Arrow> late_;
};

// Slots have no instants, and a view of the difference shows the measured side alone.
bool is_without_arrows(const Scene& scene, const Document& document, int trace) {
  if (document.trace(trace).events && !document.trace(trace).input) return false;
  return scene.options.alignment == Alignment::slot ||
         (scene.options.show == Show::difference && document.side_of(trace) == predicted_side);
}

void add_arrows_of_run(ArrowSorter& arrows, const Scene& scene, const Document& document,
                       int trace) {
  if (is_without_arrows(scene, document, trace)) return;
  const RecordedRun& run = *document.traces[static_cast<std::size_t>(trace)]->run;
  std::span<const RecordedIteration> iterations = run.iterations;
  if (scene.options.show == Show::difference && document.side_of(trace)) {
    iterations = {&compared_iteration(run), 1};
  }
  std::vector<std::int64_t> offsets;
  for (int rank = 0; rank < run.ranks; ++rank) {
    offsets.push_back(offset_ns(document, trace, rank, scene.options.alignment));
  }
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
      arrows.add({sent.start_ns + offsets[static_cast<std::size_t>(sent.rank)],
                  to.input_arrival_ns + offsets[static_cast<std::size_t>(to.rank)], sent.rank,
                  to.rank, trace, static_cast<Ref>(i), waiting});
    }
  }
}

void add_arrows_of_events(ArrowSorter& arrows, const Scene& scene, const Document& document,
                          int trace) {
  const auto& groups = scene.group_of_track[static_cast<std::size_t>(trace)];
  if (groups.empty() || is_without_arrows(scene, document, trace)) return;
  const EventTrace& events = *document.traces[static_cast<std::size_t>(trace)]->events;
  const std::int64_t offset = offset_ns(document, trace, 0, scene.options.alignment);
  for (const EventArrow& arrow : events.arrows) {
    const Slice& from = events.slices[arrow.from];
    const Slice& to = events.slices[arrow.to];
    // From that instant of the first which is nearest to the start of the second.
    const std::int64_t from_ns = std::clamp(to.start_ns, from.start_ns, from.end_ns);
    arrows.add({from_ns + offset, to.start_ns + offset, groups[from.track], groups[to.track], trace,
                arrow.from, arrow.to});
  }
}

}  // namespace

ArrowList merged(const ArrowList& one, const ArrowList& other) {
  ArrowList all;
  std::size_t next = 0;
  for (const Arrow& arrow : other) {
    for (; next < one.size(); ++next) {
      const Arrow first = one[next];
      if (first.from_ns > arrow.from_ns) break;
      all.push_back(first);
    }
    all.push_back(arrow);
  }
  for (; next < one.size(); ++next) all.push_back(one[next]);
  all.shrink_to_fit();
  return all;
}

ArrowList arrows_of(const Scene& scene, const Document& document, int trace) {
  ArrowSorter arrows;
  if (document.traces[static_cast<std::size_t>(trace)]->events) {
    add_arrows_of_events(arrows, scene, document, trace);
  } else {
    add_arrows_of_run(arrows, scene, document, trace);
  }
  return arrows.take();
}

}  // namespace pipesim::gui
