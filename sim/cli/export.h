// A layout as what other programs are started with.
//
// What they can't do is an input error that says how to have a plan without it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/planner/finalists.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct ExportedFile {
  std::string name;  // within a folder
  std::string text;
};

// Formats, as --export names them: "megatron" and "torchtitan". The first file is the
// configuration; a second one, if there is any, the schedule that the first names.
std::vector<ExportedFile> export_layout(std::string_view format, const PlanSpace& space,
                                        const PlanPoint& point, const LayersOfStages& layers);

// An input error where there is no such format.
void check_export_format(std::string_view format);

// Prints what is one file, or writes all into a folder, which is made where there is none.
void write_export(const std::vector<ExportedFile>& files, const Flag& folder);

// Arguments of Megatron-LM, as an array of a shell.
std::string megatron_arguments(const PlanSpace& space, const PlanPoint& point,
                               const LayersOfStages& layers);
// TOML of torchtitan; `schedule` names the file of the schedule, where PyTorch knows none.
std::string torchtitan_toml(const PlanSpace& space, const PlanPoint& point,
                            const LayersOfStages& layers, const std::string& schedule);
// Whether it needs such a file.
bool torchtitan_needs_csv(const PlanPoint& point);

}  // namespace pipesim::cli
