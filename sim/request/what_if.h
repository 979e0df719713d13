// Predicts how long a recorded run would take with something changed.
//
// Costs are calibrated from the run (sim/calibrate), changed and simulated: in the run's own
// order, or by another schedule. Their error on the run as it was
// corrects every answer: losses that costs do not
// capture are assumed to be proportional.
//
// Plain values; reading is const and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/limits.h"
#include "sim/engine/prediction.h"
#include "sim/request/cost_changes.h"
#include "sim/request/cost_source.h"
#include "traces/recorded_run.h"

namespace pipesim {

// The changes, applied together.
struct WhatIf {
  std::vector<TimeChange> times;
  std::vector<LinkChange> links;
  std::optional<std::string> schedule;  // a family by name, or a file
  std::optional<int> chunks;            // per rank, of a family
  std::optional<int> microbatches;
  std::optional<std::vector<int>> layout;  // layers per virtual stage
  // For a run that saved checkpoints: the storage's rate, and how often it saves.
  std::optional<std::int64_t> storage_bytes_per_second;
  std::optional<int> checkpoint_every;
};

class RecordedBasis {
 public:
  // Calibrates. The run must have been read with its layers. Throws if nothing can be determined
  // from it. With `launches_ns`, the time of late launches in an iteration, all answers are for the
  // run without these.
  explicit RecordedBasis(const RecordedRun& run, std::optional<std::int64_t> launches_ns = {});

  struct Answer {
    std::int64_t predicted_ns = 0;  // from the costs
    std::int64_t iteration_ns = 0;  // the same corrected
    int microbatches = 0;
    double bubble = 0;  // of all ranks' time; corrected, too
    std::int64_t peak_memory_bytes = 0;
    std::string schedule;
  };
  // Throws if the costs can't answer the question, or it names something that the pipeline does not
  // have.
  Answer answer(const WhatIf& question) const;

  // The median iteration; for a run that saved, the mean: the median plus its share of a save.
  std::int64_t measured_ns() const { return measured_ns_; }
  const Saves& saves() const { return saves_; }
  const Answer& as_it_ran() const { return as_it_ran_; }
  // What limits the run, by simulation of its costs (sim/advice/limits.h), with gains corrected
  // like answers. For an order that is not a family's, without filling and schedules.
  std::vector<Limit> limits() const;
  bool has_layers() const { return !costs_.layers.empty(); }
  bool is_async() const { return transfers_.p2p.value_or(P2p::async) == P2p::async; }
  // What could not be determined from the run, as text.
  const std::vector<std::string>& notes() const { return costs_.calibration->notes; }

 private:
  static constexpr int steady_iterations = 4;

  // For consecutive iterations, what the last of several adds.
  int iterations() const { return continuous_ ? steady_iterations : 1; }
  BytesNeeded needed_bytes() const;
  ScheduleChoice choice_of(const WhatIf& question) const;
  std::optional<ScheduleRequest> family_request() const;
  CostSource source_for(const std::optional<std::vector<int>>& layout,
                        const SaveRequest& save = {}) const;
  double correction() const;
  Answer simulated(const WhatIf& question) const;

  std::string name_, schedule_name_;
  CostsFile costs_;
  Schedule own_;  // as it ran
  std::optional<std::vector<int>> layout_;
  CostRequest transfers_;             // how results travelled
  std::optional<Training> replicas_;  // that the run had
  bool continuous_ = false;
  Saves saves_;
  std::int64_t measured_ns_ = 0;
  Answer as_it_ran_;
  double busy_correction_ = 1;  // of the busy part of all ranks' time
};

}  // namespace pipesim
