#include "sim/cli/profile_schedule.h"

#include <fmt/format.h>

#include "sim/schedule/description.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"

namespace pipesim::cli {

std::vector<std::string> profile_program(const Flag& schedule) {
  if (!schedule) return {};
  return rows_of(read_schedule(*schedule));
}

void check_profile_schedule(const Flag& schedule, const RecordedRun& run) {
  if (!schedule || run.identified == Identified::inferred) return;
  throw input_error(fmt::format(
      "--schedule: {} says itself which action is which; leave --schedule away", run.name));
}

FlagHelp profile_schedule_flag(Flag* schedule) {
  return {"--schedule", schedule, "FILE", "tells actions that a profile leaves unnamed"};
}

}  // namespace pipesim::cli
