// Commands on recorded runs, for the run of an input pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/command/command_line.h"

namespace pipesim::cli {

// `pipesim calibrate`: costs as `pipesim-input-costs`.
void calibrate_input_run(const std::string& trace, const std::string& output, bool quiet);

// `pipesim whatif`: one row for each change and program.
struct InputWhatIfFlags {
  std::vector<std::string> scales, programs;
  bool json = false;
};
void answer_input_what_if(const std::string& trace, const InputWhatIfFlags& flags);

// `pipesim report`: one run.
void report_input_run(const std::string& trace, bool json);

// `pipesim compare`: two runs of one program; `operations` is a CSV of them, if wanted.
void compare_input_runs(const std::string& predicted, const std::string& measured, bool json,
                        const std::optional<std::string>& operations);

}  // namespace pipesim::cli
