#include "sim/calibrate/rank_work.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pipesim {
namespace {

// One rank's work, in the order of its spans.
struct RankSpans {
  std::vector<const Span*> compute;
  std::vector<std::int64_t> arrivals;   // ends of RECVs, sorted
  std::vector<std::int64_t> exchanged;  // ends of collectives, sorted
};

// Messages that arrived after `start_ns` and no later than `end_ns`.
std::int64_t count_arrivals(const std::vector<std::int64_t>& arrivals, std::int64_t start_ns,
                            std::int64_t end_ns) {
  return std::ranges::upper_bound(arrivals, end_ns) - std::ranges::upper_bound(arrivals, start_ns);
}

void add_rank(const RecordedRun& run, const RankSpans& rank, bool launches, IterationWork& all) {
  const bool measured = run.about.source == Source::measured;
  std::set<std::pair<std::int32_t, Kind>> seen;
  const auto& compute = rank.compute;
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const Span& span = *compute[i];
    if (span.action.joined && i + 1 < compute.size()) {
      const Span* other = compute[++i];
      const bool forward_first = span.action.kind == Kind::F;
      all.overlapped.push_back({forward_first ? &span : other, forward_first ? other : &span});
      continue;
    }
    ComputeWork work{&span, span.end_ns - span.start_ns, span.end_ns, 0, false};
    if (measured) {
      if (i + 1 < compute.size()) {
        const Span& next = *compute[i + 1];
        work.released_ns = std::max(work.released_ns, next.start_ns - next.queued_ns);
      }
      work.occupied_ns = work.released_ns - span.start_ns - span.preempted_ns;
      std::int64_t reached_ns = span.start_ns - span.queued_ns;
      const auto after = std::ranges::upper_bound(rank.exchanged, span.start_ns);
      if (after != rank.exchanged.begin()) reached_ns = std::max(reached_ns, *(after - 1));
      if (launches && (!span.has_input() || span.input_arrival_ns <= reached_ns)) {
        work.occupied_ns += span.start_ns - reached_ns;
      }
      work.received = count_arrivals(rank.arrivals, span.start_ns, work.released_ns);
    }
    work.is_first = seen.emplace(span.action.stage, span.action.kind).second;
    all.work.push_back(work);
  }
}

}  // namespace

std::int64_t OverlappedWork::duration_ns() const {
  return std::max(forward->end_ns, backward->end_ns) -
         std::min(forward->start_ns, backward->start_ns);
}

IterationWork work_of(const RecordedRun& run, const RecordedIteration& iteration, bool launches) {
  std::vector<RankSpans> ranks(static_cast<std::size_t>(run.ranks));
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
    const Span& span = run.spans[i];
    RankSpans& rank = ranks[static_cast<std::size_t>(span.rank)];
    if (is_compute(span.action.kind)) rank.compute.push_back(&span);
    if (is_receive(span.action.kind)) rank.arrivals.push_back(span.end_ns);
    if (is_collective(span.action)) rank.exchanged.push_back(span.end_ns);
  }
  IterationWork all;
  for (RankSpans& rank : ranks) {
    std::ranges::sort(rank.arrivals);
    std::ranges::sort(rank.exchanged);
    add_rank(run, rank, launches, all);
  }
  return all;
}

}  // namespace pipesim
