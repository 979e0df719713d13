// What a recorded run would take were something of it otherwise.
//
// Costs are calibrated on the run (sim/calibrate), changed, and simulated: by the order that the
// run had, or by another schedule. What they predict for the run as it was is held against what
// it took, and every answer is corrected by as much: what a pipeline loses to things that no
// costs know, it is taken to lose in proportion.
//
// Plain values; reading is const and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/prediction.h"
#include "sim/plan/limits.h"
#include "sim/request/cost_changes.h"
#include "sim/request/cost_source.h"
#include "traces/recorded_run.h"

namespace pipesim {

// What is otherwise, all at once.
struct WhatIf {
  std::vector<TimeChange> times;
  std::vector<LinkChange> links;
  std::optional<std::string> schedule;  // a family by name, or a file
  std::optional<int> chunks;            // a rank, of a family
  std::optional<int> microbatches;
  std::optional<std::vector<int>> layout;  // layers a virtual stage
  // Of a run that saved checkpoints: how fast storage is, and how often it is asked.
  std::optional<std::int64_t> storage_bytes_per_second;
  std::optional<int> checkpoint_every;
};

class RecordedBasis {
 public:
  // Calibrates. The run was read with its layers. Throws where nothing can be told from it.
  explicit RecordedBasis(const RecordedRun& run);

  struct Answer {
    std::int64_t predicted_ns = 0;  // by the costs
    std::int64_t iteration_ns = 0;  // the same corrected
    int microbatches = 0;
    double bubble = 0;  // of all ranks' time
    std::int64_t peak_memory_bytes = 0;
    std::string schedule;
  };
  // Throws where the costs don't answer that, or name what the pipeline does not have.
  Answer answer(const WhatIf& question) const;

  // The median iteration; of a run that saved, a mean one: that and its part of a save.
  std::int64_t measured_ns() const { return measured_ns_; }
  const Saves& saves() const { return saves_; }
  const Answer& as_it_ran() const { return as_it_ran_; }
  // What holds the run up, by simulation of its costs (sim/plan/limits.h), gains corrected as
  // answers are. Of an order that is no family's, without filling and schedules.
  std::vector<Limit> limits() const;
  bool has_layers() const { return !costs_.layers.empty(); }
  bool is_async() const { return transfers_.p2p.value_or(P2p::async) == P2p::async; }
  // What could not be told from the run, for people.
  const std::vector<std::string>& notes() const { return costs_.calibration->notes; }

 private:
  static constexpr int steady_iterations = 4;

  // Of a run whose iterations follow each other, what the last of several adds.
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
};

}  // namespace pipesim
