// What `pipesim schedules --compare` says: a table, pictures, a figure, JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate/cost_model.h"
#include "sim/plan/candidates.h"
#include "traces/base/json.h"
#include "traces/print/small_multiples.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// A candidate, and what is said of it.
struct ComparedRow {
  Candidate candidate;
  bool is_fastest = false;                 // of those with as many microbatches
  std::string why;                         // not; empty where it is left out
  std::optional<ScheduleRequest> nearest;  // of what is left out, a shape that works
};

struct ComparedSchedules {
  std::vector<ComparedRow> rows;  // sorted, see sort_by_time()
  int ranks = 0;
  std::optional<CostModel> model;  // where it gives the costs
  bool by_layer = false;           // or else by a rank's whole part of the model
  std::string measured;            // the run that costs were calibrated on, or empty
  std::optional<std::int64_t> memory_cap_bytes;
};

// Ranks candidates, and looks for shapes near those that are left out.
std::vector<ComparedRow> compared_rows(std::vector<Candidate> candidates, const Trial& trial,
                                       std::optional<std::int64_t> memory_cap_bytes);

std::string schedules_table(const ComparedSchedules& all, const Terminal& terminal);
Json schedules_json(const ComparedSchedules& all);

// The timelines of those that are not left out, a group for each number of microbatches. Refers
// to both.
std::vector<TimelineGroup> timelines_of(const ComparedSchedules& all, const Trial& trial);

}  // namespace pipesim::cli
