// What the prediction of an input pipeline says, for a person.
#pragma once

#include <string>
#include <vector>

#include "sim/input_pipeline/predict/input_limits.h"
#include "sim/input_pipeline/predict/input_request.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

// Verdict, picture by stream, what is hidden and what exposed, memory, what limits.
std::string input_prediction_report(const InputPrediction& prediction,
                                    const std::vector<InputLimit>& limits,
                                    const Terminal& terminal);
// All programs, a row each.
std::string input_programs_report(const InputRequest& request,
                                  const std::vector<InputPrediction>& predictions,
                                  const Terminal& terminal);

}  // namespace pipesim::cli
