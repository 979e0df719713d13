// Commands on recorded runs, for the run of an input pipeline.
#pragma once

#include <string>
#include <vector>

#include "traces/command/command_line.h"

namespace pipesim::cli {

// `pipesim calibrate`: its costs.
void calibrate_input_run(const std::string& trace, const std::string& output, bool quiet);

// `pipesim whatif`: one row for each change and program.
struct InputWhatIfFlags {
  std::vector<std::string> scales, programs;
  bool json = false;
};
void answer_input_what_if(const std::string& trace, const InputWhatIfFlags& flags);

}  // namespace pipesim::cli
