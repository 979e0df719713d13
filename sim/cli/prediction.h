// A prediction as flags ask for it, and all that is said about it: what `pipesim predict` prints
// and Python returns.
//
// prepare() checks what was asked, PreparedPrediction::predict() simulates, find_details() adds
// what takes further simulations. Plain values; calls share nothing; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advice/spread.h"
#include "sim/cli/save_flags.h"
#include "sim/cli/setup.h"
#include "sim/cli/spread_flags.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/engine/save_effect.h"
#include "sim/request/notes.h"
#include "sim/request/request.h"
#include "traces/base/files.h"

namespace pipesim::cli {

struct PredictFlags {
  ScheduleFlags schedule;
  CostFlags costs;
  SpreadFlags spread;
  SaveFlags save;
  Flag iterations, accumulate, memory_cap;
  bool explain = false;
};

// Those of how much is predicted: iterations, steps, memory.
std::vector<FlagHelp> extent_flags(PredictFlags& flags);
// Every flag that changes the answer.
std::vector<FlagHelp> answer_flags(PredictFlags& flags);

// Outputs for which memory must suffice.
struct WantedOutputs {
  bool trace = false;
  bool json = false;
};

struct AskedPrediction {
  ScheduleFlags schedule;  // with the microbatches of a global batch
  std::optional<SpreadQuestion> spread;
  bool explain = false;
  PreparedPrediction prepared;
};

// Throws an input error for flags that contradict each other, or need more memory than there is.
AskedPrediction prepare(const PredictFlags& flags, const WantedOutputs& outputs);

struct PredictionDetails {
  std::optional<SaveEffect> saves;
  std::optional<MakespanSpread> spread;
  std::optional<Explanation> explanation;
  std::vector<Note> notes;
};

PredictionDetails find_details(const AskedPrediction& asked, const Prediction& prediction);

// The `pipesim-result` object, with a line end.
std::string json_of(const AskedPrediction& asked, const Prediction& prediction,
                    const PredictionDetails& details);

// Simulates once more. Does not commit the file.
void write_trace(const PreparedPrediction& prepared, OutputFile& file);

}  // namespace pipesim::cli
