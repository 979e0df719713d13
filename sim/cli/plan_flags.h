// The flags of `pipesim plan`, and what they ask for.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "sim/cli/model_flags.h"
#include "sim/cli/plan_report.h"
#include "sim/cli/setup.h"
#include "sim/plan/space.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

inline constexpr std::size_t plan_axis_count = 16;

struct PlanFlags {
  ModelFlags model;  // those that no axis has
  std::array<Flag, plan_axis_count> axes;
  std::vector<std::string> only, fix;
  Flag objective, memory_cap, budget, threads, top, why, csv, export_format, output;
  Flag from, vocabulary;
  FlagValues allowed;  // values that axes have besides the usual ones
  std::vector<std::string> ignored;
  bool json = false;
};

void add_plan_flags(CommandLine& command, PlanFlags& flags);

// The flag of an axis. Expects that there is one.
Flag& axis_flag(PlanFlags& flags, std::string_view axis);
// Those of the question, which no axis has.
std::vector<FlagHelp> question_flags(PlanFlags& flags);
// Flags as they were given, with their values, but for one number of devices.
std::vector<std::string> given_flags(PlanFlags flags, int devices);
// Numbers of devices, or a range of them: doubled from its first on, and its last.
std::vector<int> numbers_of_devices(const Flag& flag);
PlanObjective objective_of(const Flag& flag);
int threads_of(const Flag& flag);
void check_export_flags(const PlanFlags& flags);

PlanQuestion question_of(const PlanFlags& flags);
// `trainer`: restricts it, unless null.
PlanSpace space_of(const PlanFlags& flags, PlanQuestion question, int devices,
                   const PlanTrainer* trainer);

// `where`: of errors.
FlagValues flag_values(const std::string& text, std::string_view where);
// Sets the question's flags from those of `values`, which lose them. Throws if one was given
// otherwise.
void take_question(FlagValues& values, PlanFlags& flags, std::string_view where);
// A layout, whose flags have defaults, as what is left of the axes.
PlanPoint point_of(PlanSpace space, FlagValues values, std::string_view where);

}  // namespace pipesim::cli
