#include "traces/command/outputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {

void check_outputs(const std::vector<NamedFile>& files) {
  std::vector<std::pair<std::string_view, std::filesystem::path>> taken;
  for (const NamedFile& file : files) {
    if (!file.path) continue;
    std::error_code failed;  // a path that can't be resolved fails where it is opened
    const auto path =
        std::filesystem::weakly_canonical(std::filesystem::absolute(*file.path, failed), failed);
    const bool regular =
        !std::filesystem::exists(path, failed) || std::filesystem::is_regular_file(path, failed);
    for (const auto& [other, other_path] : taken) {
      if (file.written && regular && path == other_path) {
        throw input_error(
            fmt::format("{} and {} name the same file; write to another", other, file.name));
      }
    }
    taken.emplace_back(file.name, path);
  }
}

}  // namespace pipesim
