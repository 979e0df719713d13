// A layout as the configuration of other programs.
//
// Features that they lack are an input error that says how to get a plan without them. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/plan/finalists.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ExportedFile {
  std::string name;  // within a folder
  std::string text;
};

// Formats of --export: "megatron" and "torchtitan". The first file is the configuration; a second
// one, if any, the schedule that the first names.
std::vector<ExportedFile> export_layout(std::string_view format, const PlanSpace& space,
                                        const PlanPoint& point, const LayersOfStages& layers);

// Prints a single file, or writes all into a folder, which is created if missing.
void write_export(const std::vector<ExportedFile>& files, const Flag& folder);

// Arguments of Megatron-LM, as a shell array.
std::string megatron_arguments(const PlanSpace& space, const PlanPoint& point,
                               const LayersOfStages& layers);
// TOML of torchtitan; `schedule` names the file of the schedule if it is not one of PyTorch's.
std::string torchtitan_toml(const PlanSpace& space, const PlanPoint& point,
                            const LayersOfStages& layers, const std::string& schedule);
// Whether a point needs such a file.
bool torchtitan_needs_csv(const PlanPoint& point);

}  // namespace pipesim::cli
