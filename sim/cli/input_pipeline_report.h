// The report of an input pipeline's prediction.
#pragma once

#include <string>
#include <vector>

#include "sim/input_pipeline/predict/input_limits.h"
#include "sim/input_pipeline/predict/input_request.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// Verdict, picture by stream, hidden and exposed times, memory, what limits.
std::string input_prediction_report(const InputPrediction& prediction,
                                    const std::vector<InputLimit>& limits,
                                    const Terminal& terminal);
// The time saved by each part that is worth a line, if it were free.
std::string input_limits_text(const std::vector<InputLimit>& limits, std::int64_t steady_ns);
// All programs, one row each.
std::string input_programs_report(const InputRequest& request,
                                  const std::vector<InputPrediction>& predictions,
                                  const Terminal& terminal);

}  // namespace pipesim::cli
