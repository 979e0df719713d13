// The flags of `pipesim goodput`, and the jobs they describe: one of one or several sizes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/setup.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/goodput/answer.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct GoodputFlags {
  ScheduleFlags schedule;
  CostFlags costs;
  Flag mtbf, device_mtbf, restart;
  Flag checkpoint_bytes, storage, copy, save_time;
  Flag iteration_time, interval;
  Flag work, trials, seed;
  bool async_checkpoint = false;
  bool json = false;
};

void add_goodput_flags(CommandLine& command, GoodputFlags& flags);

// A job on a number of devices.
struct GoodputJob {
  std::optional<int> devices;
  std::string name;                              // of what is trained; empty if not given
  std::optional<std::int64_t> checkpoint_bytes;  // if they determine how long a save takes
  std::optional<ErrorBand> error_band;           // of the iteration predicted from a model
  GoodputQuestion question;
};

// One per number in --devices, in their order. Predicts the iteration if flags give a schedule.
std::vector<GoodputJob> goodput_jobs(const GoodputFlags& flags);

}  // namespace pipesim::cli
