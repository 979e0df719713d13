// The description of a schedule in results and traces: its keys are stable.
#pragma once

#include <string>
#include <vector>

#include "sim/schedule/schedule.h"
#include "traces/base/json.h"

namespace pipesim {

// Appends the schedule's name and shape to an object.
void describe(const Schedule& schedule, Json& json);

// Its rows, as a CSV file has them.
std::vector<std::string> rows_of(const Schedule& schedule);
// Its actions' extra dependencies, each as "0F3 after 1B0".
std::vector<std::string> dependencies_of(const Schedule& schedule);

}  // namespace pipesim
