// The output of `pipesim schedules --compare`: a table, pictures, a figure, JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/candidates.h"
#include "sim/cost/estimate/cost_model.h"
#include "traces/base/json.h"
#include "traces/print/small_multiples.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// A candidate, and its entry in the report.
struct ComparedRow {
  Candidate candidate;
  bool is_fastest = false;                 // of those with the same number of microbatches
  std::string why;                         // not; empty if it is left out
  std::optional<ScheduleRequest> nearest;  // if it is left out, a shape that works
};

struct ComparedSchedules {
  std::vector<ComparedRow> rows;  // sorted, see sort_by_time()
  int ranks = 0;
  std::optional<CostModel> model;  // if it gives the costs
  bool by_layer = false;           // or else by a rank's complete part of the model
  std::string measured;            // the run that costs were calibrated on, or empty
  std::optional<std::int64_t> memory_cap_bytes;
};

// Ranks candidates, and finds shapes near those that are left out.
std::vector<ComparedRow> compared_rows(std::vector<Candidate> candidates, const Trial& trial,
                                       std::optional<std::int64_t> memory_cap_bytes);

std::string schedules_table(const ComparedSchedules& all, const Terminal& terminal);
Json schedules_json(const ComparedSchedules& all);

// The timelines of those that are not left out, one group for each number of microbatches. Refers
// to both.
std::vector<TimelineGroup> timelines_of(const ComparedSchedules& all, const Trial& trial);

}  // namespace pipesim::cli
