// The tables of a comparison, each said once for all its faces: text, JSON, the page, the viewer.
#pragma once

#include <array>
#include <string_view>

#include "sim/compare/comparison.h"
#include "traces/print/report_table.h"

namespace pipesim {

// Both sides in JSON, whatever their source.
inline constexpr std::array<std::string_view, 2> side_keys{"predicted", "measured"};

// Durations by stage and kind, and lateness by cause: a row for each of stage_kinds.
ReportTable kind_table(const Comparison& comparison);
// Exchanges with replicas, and how much of them is hidden behind compute.
ReportTable collective_table(const Comparison& comparison);
// Checkpoints by rank.
ReportTable save_table(const Comparison& comparison);
// How far each rank's clock was off.
ReportTable clock_table(const RecordedRun& measured, const Comparison& comparison);

}  // namespace pipesim
