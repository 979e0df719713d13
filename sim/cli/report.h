// A prediction's report: verdict, picture, table, what to do.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/limits_report.h"
#include "sim/cli/setup.h"
#include "sim/cli/switches.h"
#include "sim/engine/prediction.h"
#include "sim/engine/save_effect.h"
#include "sim/request/request.h"
#include "traces/print/terminal.h"
#include "traces/print/timeline_panel.h"

namespace pipesim::cli {

// "1F1B, 4 stages, 8 microbatches".
std::string schedule_text(const ScheduleChoice& choice, const Transfers& transfers);

// It replays from both.
TimelinePanel timeline_of(const PreparedPrediction& prepared, const Prediction& prediction);

// `prediction`: what `prepared` predicts, with `saves`, if there are any. `arguments`: the command
// line.
std::string report(const PreparedPrediction& prepared, const Prediction& prediction,
                   const std::optional<SaveEffect>& saves, const ScheduleFlags& flags,
                   const std::vector<std::string>& arguments, const OtherFlags& other,
                   const Terminal& terminal);

}  // namespace pipesim::cli
