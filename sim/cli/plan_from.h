// Where `pipesim plan --from` starts: the training of a script, and the way from there to a better
// layout.
//
// Plain values; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cli/plan_flags.h"
#include "sim/import/imported.h"
#include "traces/base/json.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// A training as predict takes it: the question, and a layout's own flags. The number of
// microbatches follows from the global batch. Throws what predict refuses.
FlagsOutcome predicted(const PlanFlags& question, const FlagValues& layout);

struct PlanStart {
  std::string file;
  Imported imported;
  const PlanTrainer* trainer = nullptr;
  FlagValues layout;
  std::vector<Remark> assumed;    // flags that the script does not say
  bool writes_model = false;      // to model.json, to be predicted
  bool has_microbatches = false;  // instead of a global batch
};

// Reads --from, and gives `flags` the question's flags and the number of devices, where it has
// them. Throws if something of the script is neither modelled nor ignored, or missing.
PlanStart read_start(PlanFlags& flags);

// A change on the way, on top of those before.
struct PlanStep {
  FlagValues changed;                // the flags, "" where one is left out
  std::vector<std::string> set;      // arguments of the trainer, or its settings
  std::vector<std::string> without;  // those that are left out
  FlagsOutcome outcome;
};

// The first is the start itself, which changes nothing; the last is `best`, with its own `layers`,
// if it has some. Each is the one of all that are left that saves most, with a memory that fits or
// is no larger than before; where none saves anything alone, or the time is over, all that are left
// are one.
std::vector<PlanStep> steps_to(const PlanFlags& question, const PlanStart& start,
                               const PlanSpace& space, const PlanPoint& best,
                               const LayersOfStages& layers, std::int64_t memory_cap_bytes,
                               const PlanLimits& limits);

// `is_certain`: the last is sure to fit.
std::string steps_report(const PlanStart& start, const std::vector<PlanStep>& steps,
                         std::int64_t memory_cap_bytes, bool is_certain, int width);
Json steps_json(const PlanStart& start, const std::vector<PlanStep>& steps);

}  // namespace pipesim::cli
