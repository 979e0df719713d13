// Lines of text on a run's metrics, and the unit of time of a table. rank_table.h has its ranks.
//
// Pure functions; any thread may call them.
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

// Both kinds of bubble, one line each.
std::string bubble_lines(const Metrics& metrics);

// The composition of the critical path; empty if it has no transfer.
std::string critical_path_line(const Metrics& metrics);

// Says that other processes used the processors of a run's ranks, and what to do; empty if it was
// little.
std::string taken_line(const RecordedRun& run);

}  // namespace pipesim
