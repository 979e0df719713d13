// What the compute streams of two runs of an input pipeline did and waited for, side by side.
//
// Every number is defined in traces/METRICS.md, "Input pipelines". Plain values that depend only on
// the arguments; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/comparison.h"
#include "traces/base/json.h"
#include "traces/input_run.h"
#include "traces/print/report_table.h"

namespace pipesim {

// The same quantity of both runs, by Side.
using BothTimes = std::array<std::int64_t, 2>;

// Means over ranks, for the whole run.
struct Exposures {
  struct KindRow {
    Kind kind = Kind::NEXT;
    BothTimes total{}, busy{}, exposed{}, hidden{};
  };
  struct WaitRow {
    std::string_view key;   // as in JSON: host, skew, other, drain
    std::string_view name;  // for display
    BothTimes exposed{};
  };

  int batches = 1;
  BothTimes makespan{}, steady_iteration{}, busy{};
  std::vector<KindRow> kinds;  // that either run has
  std::vector<WaitRow> waits;
};

// Expects runs of one program.
Exposures exposures_of(const InputRun& predicted, const InputRun& measured);

// The run as a whole, and per batch what each kind takes and what of that is on compute streams.
ReportTable batch_table(const Exposures& exposures, const Comparison& comparison);
ReportTable exposure_table(const Exposures& exposures, const Comparison& comparison);
// Adds the keys that a `pipesim-comparison` of input pipelines has beside others.
void add_exposures(Json& json, const Exposures& exposures, const InputProgram& program);

}  // namespace pipesim
