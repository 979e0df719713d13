#include "sim/compare/rank_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/base/text.h"

namespace pipesim {
namespace {

int stages_on_a_rank(const RecordedRun& run) {
  return run.chunk_of_stage.empty() ? 0 : std::ranges::max(run.chunk_of_stage) + 1;
}

}  // namespace

std::string stages_differ(const RecordedRun& predicted, const RecordedRun& measured) {
  const auto one = std::ssize(predicted.about.rank_of_stage);
  const auto other = std::ssize(measured.about.rank_of_stage);
  if (one == other) return {};
  const bool may_be_a_part =
      predicted.about.source == Source::profiled || measured.about.source == Source::profiled;
  if (may_be_a_part && stages_on_a_rank(predicted) == stages_on_a_rank(measured)) return {};
  return fmt::format(
      "one has {}, the other {}, so stages of the same number are not the same part of the model",
      plural(one, "virtual stage"), other);
}

Comparison compare_ranks(const RecordedRun& predicted, const RecordedRun& measured) {
  Comparison comparison;
  comparison.sources = {predicted.about.source, measured.about.source};
  comparison.unpaired = stages_differ(predicted, measured);
  for (const Side side : both_sides) {
    const RecordedRun& run = side == predicted_side ? predicted : measured;
    const std::size_t median = run.median_iteration();
    const RecordedIteration& iteration = run.iterations[median];
    const Metrics metrics = run.metrics(median);
    SideResult& own = comparison.sides[side];
    own.makespan_ns = own.played.makespan_ns = metrics.makespan_ns;
    own.start_ns = iteration.start_ns;
    own.ranks = metrics.ranks;
    own.global_bubble = metrics.global_bubble();
    own.critical_path = {metrics.critical_path.compute_ns, metrics.critical_path.p2p_ns,
                         metrics.critical_path.other_ns};
    own.peaks = memory_peaks(run);
    comparison.counts.unmatched[side] = static_cast<std::int64_t>(iteration.end - iteration.begin);
  }
  comparison.gap[Term::unmodelled] =
      comparison.sides[measured_side].makespan_ns - comparison.sides[predicted_side].makespan_ns;
  std::vector<std::int64_t> makespans;
  for (const RecordedIteration& one : measured.iterations) makespans.push_back(one.makespan_ns);
  comparison.iterations = quantiles_of(std::move(makespans));
  return comparison;
}

}  // namespace pipesim
