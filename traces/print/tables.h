// What metrics and memory say of each rank, as tables and lines of text.
//
// Of many ranks shown_ranks() (picture.h) stand for all. Pure functions; any
// thread may call them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/metrics.h"
#include "traces/recorded_run.h"

namespace pipesim {

// One unit of time for a whole table, so that its columns stay narrow.
struct TableUnit {
  std::string_view name;
  double ns;
  int decimals;

  std::string text(std::int64_t time_ns) const;  // without nested slices the unit; "-" for 0
};
TableUnit table_unit(std::int64_t longest_ns);

// Busy time, bubble by cause and peak of each rank, with a heading.
std::string rank_table(const Metrics& metrics);

// Both kinds of bubble, a line each.
std::string bubble_lines(const Metrics& metrics);

// What the critical path is made of; empty where no transfer is on it.
std::string critical_path_line(const Metrics& metrics);

// That others had the processors of a run's ranks, and what to do; empty where that was little.
std::string taken_line(const RecordedRun& run);

// What ranks hold at their fullest, by category, with a line before and a blank
// line after it; a category that no rank has is left out. Empty where there is
// nothing but activations, which rank_table() has.
std::string memory_table(const std::vector<RankMemory>& memory, int width);

}  // namespace pipesim
