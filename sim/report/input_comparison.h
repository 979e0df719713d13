// Two runs of one input program side by side, such as a prediction and a measurement.
//
// Every number is defined in traces/METRICS.md, "Comparing input pipelines". Plain values that
// depend only on the arguments; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/json.h"
#include "traces/input_pipeline/input_run.h"
#include "traces/print/terminal.h"

namespace pipesim {

// The same quantity of both runs.
struct InputPair {
  std::int64_t predicted_ns = 0;  // of the first run
  std::int64_t measured_ns = 0;   // of the second one

  std::int64_t difference_ns() const { return measured_ns - predicted_ns; }
};

struct InputComparison {
  // Means over ranks, for the whole run.
  struct KindRow {
    Kind kind = Kind::NEXT;
    InputPair total, busy, exposed, hidden;
  };
  struct WaitRow {
    std::string_view key;   // as in JSON: host, skew, other, drain
    std::string_view name;  // for display
    InputPair exposed;
  };
  struct Difference {
    int rank = 0;
    Action action;
    InputStream stream = InputStream::compute;
    InputPair duration;
  };
  // The absolute error of durations, as fractions of those predicted; leaves out what was predicted
  // to take no time.
  struct OperationError {
    std::int64_t count = 0;
    double mean = 0, p50 = 0, p90 = 0;
  };

  InputPair makespan, steady_iteration, busy;
  std::vector<KindRow> kinds;
  std::vector<WaitRow> waits;
  OperationError error;
  std::vector<Difference> worst;  // single actions, the largest difference first; at most 10
};

// Throws an input error that says what differs if the runs are of different programs; `first` and
// `second` are their names.
InputComparison compare_inputs(const InputRun& predicted, const InputRun& measured,
                               const std::string& first, const std::string& second);

std::string input_comparison_report(const InputRun& predicted, const InputRun& measured,
                                    const InputComparison& comparison, const Terminal& terminal);
// `pipesim-input-comparison`, in traces/FORMAT.md, without causes.
Json input_comparison_json(const InputRun& predicted, const InputRun& measured,
                           const InputComparison& comparison, const std::string& first,
                           const std::string& second);

}  // namespace pipesim
