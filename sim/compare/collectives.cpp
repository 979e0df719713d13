#include "sim/compare/collectives.h"

#include <map>
#include <utility>

#include "sim/compare/quantiles.h"

namespace pipesim {
namespace {

// Of several iterations.
struct CollectiveSamples {
  std::vector<std::int64_t> total_ns, exposed_ns;

  void add(const CollectiveTimes& times) {
    total_ns.push_back(times.total_ns);
    exposed_ns.push_back(times.exposed_ns());
  }
  CollectiveTimes median() && {
    if (total_ns.empty()) return {};
    const std::int64_t total = quantiles_of(std::move(total_ns)).p50;
    return {total, total - quantiles_of(std::move(exposed_ns)).p50};
  }
};

}  // namespace

CollectiveComparison compare_collectives(const RecordedRun& predicted,
                                         const RecordedRun& measured) {
  CollectiveComparison result;
  std::map<CollectiveOfStage, CollectiveRow> rows;
  for (const Side side : both_sides) {
    const RecordedRun& run = side == predicted_side ? predicted : measured;
    std::map<CollectiveOfStage, CollectiveSamples> by_stage;
    std::vector<CollectiveSamples> by_rank(static_cast<std::size_t>(run.ranks));
    for (const RecordedIteration& iteration : run.iterations) {
      const std::span<const Span> spans = run.spans_of(iteration);
      for (const auto& [of, times] : collective_times_by_stage(spans)) by_stage[of].add(times);
      const std::vector<CollectiveTimes> ranks = collective_times(spans, run.ranks);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) by_rank[rank].add(ranks[rank]);
    }
    for (auto& [of, samples] : by_stage) {
      CollectiveRow& row = rows[of];
      row.rank = of.rank;
      row.stage = of.stage;
      row.kind = of.kind;
      row.times[side] = std::move(samples).median();
    }
    for (CollectiveSamples& samples : by_rank) {
      result.of_ranks[side].push_back(std::move(samples).median());
    }
  }
  for (const auto& [of, row] : rows) result.rows.push_back(row);
  return result;
}

}  // namespace pipesim
