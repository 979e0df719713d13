#include "sim/compare/saves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/compare/quantiles.h"
#include "traces/intervals.h"

namespace pipesim {
namespace {

struct SavesOfRank {
  std::vector<std::int64_t> save_ns, beside_ns, hidden_ns;
  std::int64_t bytes = 0;
};

// `computing` is united; only what lies within the span is looked at.
std::int64_t common_with(const Span& span, const std::vector<Interval>& computing) {
  std::int64_t sum = 0;
  for (auto at = std::ranges::upper_bound(computing, span.start_ns, {}, &Interval::end_ns);
       at != computing.end() && at->start_ns < span.end_ns; ++at) {
    sum += std::min(at->end_ns, span.end_ns) - std::max(at->start_ns, span.start_ns);
  }
  return sum;
}

std::vector<SavesOfRank> saves_of(const RecordedRun& run) {
  std::vector<SavesOfRank> ranks(static_cast<std::size_t>(run.ranks));
  const auto of = [&](const Span& span) -> SavesOfRank& {
    return ranks[static_cast<std::size_t>(span.rank)];
  };
  std::map<std::int32_t, std::vector<Interval>> computing;  // of ranks that write beside
  for (const Span& span : run.spans) {
    if (is_save_beside(span.action)) computing[span.rank];
  }
  for (const Span& span : run.spans) {
    if (!is_compute(span.action.kind)) continue;
    const auto at = computing.find(span.rank);
    if (at != computing.end()) at->second.push_back({span.start_ns, span.end_ns});
  }
  for (auto& [rank, intervals] : computing) intervals = united(std::move(intervals));
  for (const Span& span : run.spans) {
    if (span.action.kind != Kind::SAVE) continue;
    SavesOfRank& own = of(span);
    if (span.bytes > 0) own.bytes = span.bytes;
    const std::int64_t took_ns = span.end_ns - span.start_ns;
    if (!is_save_beside(span.action)) {
      own.save_ns.push_back(took_ns);
      continue;
    }
    own.beside_ns.push_back(took_ns);
    own.hidden_ns.push_back(common_with(span, computing[span.rank]));
  }
  return ranks;
}

std::int64_t median_ns(std::vector<std::int64_t> samples) {
  return samples.empty() ? 0 : quantiles_of(std::move(samples)).p50;
}

}  // namespace

std::vector<SaveRow> compare_saves(const RecordedRun& predicted, const RecordedRun& measured) {
  std::vector<SaveRow> rows;
  bool any = false;
  for (const Side side : both_sides) {
    const std::vector<SavesOfRank> ranks = saves_of(side == predicted_side ? predicted : measured);
    rows.resize(std::max(rows.size(), ranks.size()));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const SavesOfRank& own = ranks[rank];
      any = any || !own.save_ns.empty();
      rows[rank].rank = static_cast<std::int32_t>(rank);
      rows[rank].times[side] = {std::ssize(own.save_ns), own.bytes, median_ns(own.save_ns),
                                median_ns(own.beside_ns), median_ns(own.hidden_ns)};
    }
  }
  if (!any) rows.clear();
  return rows;
}

}  // namespace pipesim
