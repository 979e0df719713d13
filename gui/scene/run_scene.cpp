// Lanes and curves of runs.
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "gui/scene/run_times.h"
#include "gui/scene/scene_parts.h"
#include "gui/scene/shading.h"
#include "sim/report/words.h"

namespace pipesim::gui {
namespace {

// One rank's work with the idle time before it. Iterations overlap where ranks are through
// at different times: then work goes before idle time, and an earlier iteration's idle
// time before a later one's. Only work that overlaps other work takes a second row.
class WorkRows {
 public:
  explicit WorkRows(std::vector<BarRow>& rows) : packer_(rows) {}

  void reserve(std::size_t bars) { packer_.reserve(bars); }
  // An iteration; its idle times, in order, must stay until its end.
  void start(std::span<const IdleSpan> idle) { idle_ = idle; }
  // Work, and its place among the iteration's spans.
  void add(const Bar& work, std::size_t place) {
    add_drain(work.start_ns);
    for (; !idle_.empty() && idle_.front().ended_by == place; idle_ = idle_.subspan(1)) {
      add_idle(idle_.front(), work.ref);
    }
    packer_.add(work);
    end_ns_ = std::max(end_ns_, work.end_ns);
  }
  void end() {
    covered_ns_ = std::max(covered_ns_, end_ns_);
    // Until the iteration's end; when the next one starts is not known yet.
    for (; !idle_.empty(); idle_ = idle_.subspan(1)) {
      add_drain(idle_.front().start_ns);
      drain_ = idle_.front();
    }
  }
  void finish() {
    add_drain(std::numeric_limits<std::int64_t>::max());
    packer_.finish();
  }

 private:
  void add_drain(std::int64_t before_ns) {
    if (!drain_) return;
    drain_->end_ns = std::min(drain_->end_ns, before_ns);
    add_idle(*drain_, no_ref);
    covered_ns_ = std::max(covered_ns_, drain_->end_ns);
    drain_.reset();
  }
  void add_idle(const IdleSpan& idle, Ref before) {
    const std::int64_t start_ns = std::max(idle.start_ns, covered_ns_);
    packer_.add_where_free({start_ns, idle.end_ns, before, shade_of(idle.kind)});
  }

  RowPacker packer_;
  std::span<const IdleSpan> idle_;
  std::optional<IdleSpan> drain_;
  std::int64_t end_ns_ = std::numeric_limits<std::int64_t>::min();      // of all work
  std::int64_t covered_ns_ = std::numeric_limits<std::int64_t>::min();  // by earlier iterations
};

class RunScene {
 public:
  RunScene(Scene& scene, const Document& document, int trace)
      : scene_(scene),
        document_(document),
        trace_(trace),
        run_(*document.traces[static_cast<std::size_t>(trace)]->run),
        side_(document.side_of(trace)),
        shading_(document, trace, scene.options.colouring) {}

  void add() {
    const bool slots = scene_.options.alignment == Alignment::slot;
    const bool difference = scene_.options.show == Show::difference && side_;
    if (!difference || side_ == measured_side) {
      LaneKind kind = LaneKind::work;
      if (difference) kind = LaneKind::difference;
      const auto work = make_lanes(kind);
      if (slots) {
        fill_slots(work);
      } else {
        const auto iterations = difference ? only_compared() : all_iterations();
        fill_work(work, iterations);
        if (scene_.options.transfers) fill_transfers(make_lanes(LaneKind::transfers), iterations);
      }
    }
    if (slots) return;
    if (difference && side_ == measured_side) add_lateness();
    add_memory();
  }

 private:
  using LanePlaces = std::vector<std::size_t>;  // by rank: the place in its group

  Group& group(std::size_t rank) { return scene_.groups[rank]; }
  Lane& lane(const LanePlaces& places, std::size_t rank) { return group(rank).lanes[places[rank]]; }
  Lane& lane(const LanePlaces& places, std::int32_t rank) {
    return lane(places, static_cast<std::size_t>(rank));
  }
  std::size_t ranks() const { return static_cast<std::size_t>(run_.ranks); }

  std::span<const RecordedIteration> all_iterations() const { return run_.iterations; }
  std::span<const RecordedIteration> only_compared() const {
    return {&compared_iteration(run_), 1};
  }

  LanePlaces make_lanes(LaneKind kind) {
    LanePlaces places;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      Lane made;
      made.kind = kind;
      made.trace = trace_;
      made.label = label_of_lane();
      places.push_back(group(rank).lanes.size());
      group(rank).lanes.push_back(std::move(made));
    }
    return places;
  }

  std::string label_of_lane() const {
    if (document_.traces.size() == 1) return {};
    return name_of_run(document_, trace_);
  }

  std::vector<RowPacker> packers(const LanePlaces& places) {
    std::vector<RowPacker> all;
    all.reserve(ranks());
    for (std::size_t rank = 0; rank < ranks(); ++rank) all.emplace_back(lane(places, rank).rows);
    return all;
  }

  // How many spans of transfers and collectives, or of what is none, each rank has.
  std::vector<std::size_t> counts(std::span<const RecordedIteration> iterations,
                                  bool transfers) const {
    std::vector<std::size_t> counts(ranks());
    for (const RecordedIteration& iteration : iterations) {
      for (const Span& span : run_.spans_of(iteration)) {
        if (is_communication(span.action) == transfers) {
          ++counts[static_cast<std::size_t>(span.rank)];
        }
      }
    }
    return counts;
  }

  void fill_work(const LanePlaces& places, std::span<const RecordedIteration> iterations) {
    std::vector<WorkRows> rows;
    rows.reserve(ranks());
    for (std::size_t rank = 0; rank < ranks(); ++rank) rows.emplace_back(lane(places, rank).rows);
    const auto spans_of_rank = counts(iterations, false);
    for (const RecordedIteration& iteration : iterations) {
      const auto idle = idle_times(document_, trace_, iteration);
      auto first = idle.begin();
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        const auto last = std::find_if(first, idle.end(), [&](const IdleSpan& one) {
          return static_cast<std::size_t>(one.rank) != rank;
        });
        const std::span own(first, last);
        if (&iteration == &iterations.front()) {
          rows[rank].reserve(spans_of_rank[rank] + own.size() * iterations.size());
        }
        rows[rank].start(own);
        first = last;
      }
      for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
        const Span& span = run_.spans[i];
        if (is_communication(span.action)) continue;
        const Ref ref = static_cast<Ref>(i);
        rows[static_cast<std::size_t>(span.rank)].add(
            {span.start_ns, span.end_ns, ref, shading_.of(ref)}, i - iteration.begin);
      }
      for (WorkRows& own : rows) own.end();
    }
    for (WorkRows& own : rows) own.finish();
  }

  void fill_transfers(const LanePlaces& places, std::span<const RecordedIteration> iterations) {
    auto packer = packers(places);
    const auto spans_of_rank = counts(iterations, true);
    for (std::size_t rank = 0; rank < ranks(); ++rank) packer[rank].reserve(spans_of_rank[rank]);
    for (const RecordedIteration& iteration : iterations) {
      for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
        const Span& span = run_.spans[i];
        if (!is_communication(span.action)) continue;
        const Ref ref = static_cast<Ref>(i);
        packer[static_cast<std::size_t>(span.rank)].add(
            {span.start_ns, span.end_ns, ref, shading_.of(ref)});
      }
    }
    for (RowPacker& one : packer) one.finish();
  }

  // What each rank computes, in its order.
  void fill_slots(const LanePlaces& places) {
    auto packer = packers(places);
    std::vector<std::int64_t> next(ranks());
    const auto add = [&](std::size_t rank, Ref ref) {
      const std::int64_t slot = next[rank]++;
      packer[rank].add({slot * slot_ns, (slot + 1) * slot_ns, ref, shading_.of(ref)});
    };
    if (side_) {
      const auto& lists = document_.pair->comparison.operations.lists[*side_];
      for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        for (const OperationId id : lists[rank]) add(rank, document_.pair->span_of[*side_][id]);
      }
    } else if (!run_.iterations.empty()) {
      const RecordedIteration& iteration = compared_iteration(run_);
      for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
        const Span& span = run_.spans[i];
        if (!is_communication(span.action)) {
          add(static_cast<std::size_t>(span.rank), static_cast<Ref>(i));
        }
      }
    }
    for (RowPacker& one : packer) one.finish();
  }

  void add_lateness() {
    const Comparison& comparison = document_.pair->comparison;
    const Operations& operations = comparison.operations;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::int64_t zero = comparison.sides[measured_side].start_ns +
                                clock_ahead_ns(document_, trace_, static_cast<std::int32_t>(rank));
      std::vector<CurvePoint> points;
      for (const OperationId id : operations.lists[measured_side][rank]) {
        if (!operations.matched(id) || operations.opens_cell[id]) continue;
        points.push_back({operations.sides[measured_side][id].end_ns + zero,
                          comparison.lateness[id].total_ns()});
      }
      CurveLane late = lateness_curve(trace_, std::move(points));
      if (!late.curve.empty()) group(rank).curves.push_back(std::move(late));
    }
  }

  void add_memory() {
    const auto total = [](const MemorySample& sample) {
      return sample.states.total() + sample.working.total();
    };
    const bool bytes = std::ranges::any_of(
        run_.samples, [&](const MemorySample& sample) { return total(sample) != 0; });
    std::vector<CurveLane> curves(ranks());
    for (const MemorySample& sample : run_.samples) {
      curves[static_cast<std::size_t>(sample.rank)].curve.add(
          {sample.time_ns, bytes ? total(sample) : sample.chunks});
    }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      CurveLane& own = curves[rank];
      own.curve.finish();
      if (own.curve.empty()) continue;
      own.trace = trace_;
      own.label = bytes ? "memory" : "in flight";
      own.bytes = bytes;
      if (bytes) own.capacity = document_.capacity_bytes;
      own.peak = filled_by(static_cast<std::int32_t>(rank), own.curve.peak().time_ns);
      group(rank).curves.push_back(std::move(own));
    }
  }

  // What a rank had started last by then.
  std::string filled_by(std::int32_t rank, std::int64_t time_ns) const {
    for (auto iteration = run_.iterations.rbegin(); iteration != run_.iterations.rend();
         ++iteration) {
      const auto spans = run_.spans_of(*iteration);
      auto after = std::ranges::upper_bound(spans, time_ns, {}, &Span::start_ns);
      while (after != spans.begin()) {
        const Span& span = *--after;
        if (span.rank != rank || is_communication(span.action)) continue;
        return to_text(make_action(span.action.stage, span.action.kind, span.action.microbatch));
      }
    }
    return {};
  }

  Scene& scene_;
  const Document& document_;
  int trace_;
  const RecordedRun& run_;
  std::optional<Side> side_;
  Shading shading_;
};

}  // namespace

void add_run(Scene& scene, const Document& document, int trace) {
  RunScene(scene, document, trace).add();
}

}  // namespace pipesim::gui
