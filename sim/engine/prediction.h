// A prediction: metrics, memory by rank, and the closed form.
//
// What `pipesim --json` prints and the viewer shows. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"

namespace pipesim {

struct PredictedClosedForm {
  ClosedForm form;
  double fraction = 0;  // of the makespan (global) or of the widest span (span)
  bool exact = false;   // the simulated bubble is the same to the nanosecond
};

struct Prediction {
  Transfers transfers;
  Accumulation accumulation;
  Saves saves;
  Metrics metrics;                 // of the first iteration
  std::vector<RankMemory> memory;  // one per rank
  std::optional<PredictedClosedForm> closed_form;
  std::string no_closed_form;  // why there is none, as text

  std::int64_t peak_memory_bytes() const;
  std::int64_t steady_iteration_ns() const {
    return metrics.steady_iteration_ns(accumulation.passes);
  }
  // The iteration that rates are based on: the first, or, if several are one step, a mean one.
  std::int64_t iteration_ns() const {
    return accumulation.passes > 1 ? steady_iteration_ns() : metrics.makespan_ns;
  }
};

// `family` and `shape` are those that `schedule` was generated from; null
// if it was read from a file, which has no closed form.
Prediction predict(const Schedule& schedule, const Costs& costs, const Family* family,
                   const Shape& shape, const SimulationOptions& options = {});

}  // namespace pipesim
