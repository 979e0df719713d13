// The tables of a comparison, each said once for all its faces: text, JSON, the page, the viewer.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/compare/comparison.h"
#include "sim/report/words.h"
#include "traces/print/report_table.h"

namespace pipesim {

// Both sides in JSON, whatever their source.
inline constexpr std::array<std::string_view, 2> side_keys{"predicted", "measured"};

// What each term adds to the difference, and their total; terms that concern neither run are left
// out.
ReportTable term_table(const Comparison& comparison);
// The worst causes, as many as ShownCauses has: a row for each of its places; then the others, and
// noise, if there are any.
ReportTable cause_table(const Comparison& comparison, const ShownCauses& shown);
// Durations by stage and kind, and lateness by cause: a row for each of stage_kinds.
ReportTable kind_table(const Comparison& comparison);
// Exchanges with replicas, and how much of them is hidden behind compute.
ReportTable collective_table(const Comparison& comparison);
// Checkpoints by rank.
ReportTable save_table(const Comparison& comparison);
// What the ranks did on both sides.
ReportTable rank_table(const Comparison& comparison, const std::vector<int>& ranks);
// The same on one side, of all its ranks.
ReportTable rank_table(const Comparison& comparison, Side side);
// What each side's critical path is made of, and where they part.
ReportTable path_table(const Comparison& comparison);
// How far each rank's clock was off.
ReportTable clock_table(const RecordedRun& measured, const Comparison& comparison);

}  // namespace pipesim
