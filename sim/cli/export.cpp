#include "sim/cli/export.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "sim/flags/schedule_choice.h"
#include "sim/schedule/csv.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

void write_export(const std::vector<ExportedFile>& files, const Flag& folder) {
  if (!folder) {
    if (files.size() > 1) {
      throw input_error(fmt::format(
          "--export: {} names a file of the schedule; give --output FOLDER, which both go to",
          files.front().name));
    }
    print(files.front().text);
    return;
  }
  std::error_code fault;
  std::filesystem::create_directories(*folder, fault);
  if (fault) {
    throw input_error(
        fmt::format("--output {}: {}; give another folder", printable(*folder), fault.message()));
  }
  std::vector<OutputFile> outputs;
  for (const ExportedFile& file : files) outputs.emplace_back(*folder + "/" + file.name);
  for (std::size_t i = 0; i < files.size(); ++i) outputs[i].write(files[i].text);
  for (OutputFile& output : outputs) output.commit();
}

std::vector<ExportedFile> export_layout(std::string_view format, const PlanSpace& space,
                                        const PlanPoint& point, const LayersOfStages& layers) {
  if (format == "megatron") return {{"megatron_args.sh", megatron_arguments(space, point, layers)}};
  const std::string schedule = torchtitan_needs_csv(point) ? "schedule.csv" : "";
  std::vector<ExportedFile> files{
      {"torchtitan.toml", torchtitan_toml(space, point, layers, schedule)}};
  if (!schedule.empty()) {
    files.push_back({schedule, to_csv(choose_schedule(space.schedule(point)).schedule)});
  }
  return files;
}

}  // namespace pipesim::cli
