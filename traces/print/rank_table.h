// What each rank did, waited for and held: of one run, or of several, side by side.
//
// Plain values; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "traces/collective_times.h"
#include "traces/metrics.h"
#include "traces/print/report_table.h"

namespace pipesim {

// A run whose ranks a table is of. What it points to must live as long; a list may be empty where
// nothing is known.
struct RankRun {
  std::string name;
  std::int64_t makespan_ns = 0;
  std::span<const RankMetrics> ranks;
  std::span<const MemoryPeak> peaks = {};
  std::span<const CollectiveTimes> collectives = {};
};

// Busy time, bubble by cause and what was held at most: of each of these ranks a row for each run
// that has it.
ReportTable rank_table(const std::vector<RankRun>& runs, const std::vector<int>& ranks);
// The same of one run as text, of shown_ranks() (timeline_panel.h).
std::string rank_text(const Metrics& metrics, int width);

// The peak memory of ranks by category, with a blank line after it; leaves out a category that no
// rank has. Empty if there are only activations, which the ranks' table has.
std::string memory_text(const std::vector<RankMemory>& memory, int width);

// "16 of 256 ranks; --json lists them all."; empty if all are shown.
std::string left_out_ranks(std::size_t shown, std::size_t all);

}  // namespace pipesim
