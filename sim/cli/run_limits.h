// What limits a recorded run, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/limits_report.h"
#include "sim/flags/profile_flags.h"
#include "traces/base/json.h"
#include "traces/recorded_run.h"

namespace pipesim::cli {

struct RunLimits {
  std::vector<Limit> limits;  // largest gain first
  LimitsContext context;      // with the commands that try alternatives
  std::string failure;        // why they could not be estimated, or empty
};

// Whether an iteration is short enough to be simulated again and again.
bool has_few_spans(const RecordedRun& run);

// From costs calibrated on the run (sim/request/what_if.h), whose `files` were read as `profile`
// says. Nothing for a run so long that simulations would take long.
std::optional<RunLimits> run_limits(const RecordedRun& run, const std::vector<std::string>& files,
                                    const ProfileFlags& profile);

std::string run_limits_report(const RunLimits& limits, int width);
// Those that gain anything; see FORMAT.md.
Json run_limits_json(const RunLimits& limits);

}  // namespace pipesim::cli
