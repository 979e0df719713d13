// Predictions of input pipelines as JSON: `pipesim-result`, in traces/FORMAT.md.
#pragma once

#include <string>
#include <vector>

#include "sim/input_pipeline/predict/input_limits.h"
#include "sim/input_pipeline/predict/input_request.h"
#include "traces/base/json.h"

namespace pipesim {

std::string input_result_json(const InputRequest& request, const InputPrediction& prediction,
                              const std::vector<InputLimit>& limits);
// `pipesim-schedules-comparison`: results of several side by side, without limits.
std::string input_programs_json(const InputRequest& request,
                                const std::vector<InputPrediction>& predictions);

// As `limits` of such a result, or of a report.
Json input_limits_json(const std::vector<InputLimit>& limits);

}  // namespace pipesim
