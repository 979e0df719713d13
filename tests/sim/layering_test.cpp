// The direction of includes: which room may use which.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

// Folder -> the folders of ours that its files may include, itself aside; a star
// stands for all that is in one. The longest matching folder counts.
const std::map<std::string, std::vector<std::string>> allowed{
    {"traces/base", {}},
    {"traces", {"traces/base", "traces/event"}},
    {"traces/event", {"traces/base"}},
    {"traces/read", {"traces", "traces/base"}},
    {"traces/draw", {"traces/base"}},
    {"traces/print", {"traces", "traces/base", "traces/draw"}},
    {"traces/flame", {"traces", "traces/base", "traces/read"}},
    {"traces/command", {"traces/base", "traces/print"}},
    {"sim/schedule", {"traces", "traces/base", "traces/event"}},
    {"sim/cost", {"traces", "traces/base", "sim/schedule"}},
    {"sim/engine", {"traces", "traces/base", "sim/schedule", "sim/cost", "traces/event"}},
    {"sim/calibrate", {"traces", "traces/base", "sim/schedule", "sim/cost"}},
    {"sim/compare", {"traces", "traces/base", "sim/engine"}},
    {"sim/partition", {"traces", "traces/base", "sim/schedule", "sim/cost", "sim/engine"}},
    {"sim/advice",
     {"traces", "traces/base", "sim/schedule", "sim/cost", "sim/engine", "sim/flags"}},
    {"sim/goodput", {"traces/base", "sim/cost"}},
    {"sim/import", {"traces/base", "sim/cost", "sim/schedule"}},
    {"sim/fit", {"traces", "traces/base", "sim/cost", "sim/engine", "sim/schedule", "sim/request"}},
    {"sim/request",
     {"traces", "traces/base", "sim/schedule", "sim/cost", "sim/engine", "sim/flags",
      "sim/partition", "sim/advice", "sim/calibrate"}},
    {"sim/report",
     {"traces", "traces/base", "traces/read", "traces/flame", "traces/print", "traces/draw",
      "sim/compare"}},
    {"sim/flags",
     {"traces", "traces/base", "traces/read", "traces/command", "sim/schedule", "sim/cost"}},
    {"sim/input_pipeline",
     {"traces", "traces/base", "sim/cost", "sim/cost/hardware", "sim/cost/estimate"}},
    {"sim/input_pipeline/predict",
     {"traces", "traces/base", "sim/cost", "sim/cost/hardware", "traces/event",
      "sim/input_pipeline"}},
    {"sim", {"traces/*", "sim/*"}},
    {"exec/device", {"traces/base", "exec/device/cpu", "exec/device/gpu"}},
    {"exec/device/cpu", {"traces/base", "exec/device"}},
    {"exec/device/gpu", {"traces/base", "exec/device"}},
    {"exec/transport", {"traces", "traces/base", "exec/device"}},
    {"exec/data", {"traces/base", "exec/device"}},
    {"exec/model", {"traces", "traces/base", "sim/cost", "exec/device"}},
    {"exec/checkpoint", {"traces/base", "exec/device", "exec/transport", "exec/model"}},
    {"exec/run",
     {"traces", "traces/base", "sim/schedule", "sim/cost", "exec/device", "exec/transport",
      "exec/data", "exec/model", "exec/checkpoint"}},
    {"exec/input_pipeline",
     {"traces", "traces/base", "traces/event", "sim/input_pipeline", "exec/device",
      "exec/transport", "exec/run", "exec/model", "exec/checkpoint"}},
    {"exec/supervise", {"traces/base", "exec/run"}},
    {"exec/saved",
     {"traces/base", "sim/cost", "sim/input_pipeline", "exec/device/cpu", "exec/model",
      "exec/checkpoint", "exec/run"}},
    {"exec", {"traces/*", "sim/schedule", "sim/cost", "sim/flags", "sim/input_pipeline", "exec/*"}},
    {"gui/scene",
     {"traces", "traces/base", "traces/read", "traces/flame", "sim/compare", "sim/report"}},
    {"gui/layout",
     {"traces", "traces/base", "traces/draw", "traces/flame", "traces/print", "sim/report",
      "gui/scene"}},
    {"gui/commands", {"traces", "traces/base", "gui/scene", "gui/layout"}},
    {"gui/tables",
     {"traces", "traces/base", "traces/flame", "traces/print", "sim/compare", "sim/report",
      "gui/scene"}},
    {"gui/playground", {"traces/*", "sim/*", "gui/scene"}},
    {"gui", {"traces/*", "sim/flags", "gui/*"}},
};

// Headers that stay inside one backend's .cpp files, but for those that give the
// GPU's runtimes and libraries common names, which stay inside the modules.
const std::vector<std::string> common_names{"exec/device/gpu/gpu.h", "exec/device/gpu/nccl.h"};
const std::vector<std::string> confined{"<mpi.h>", "<dnnl", "<cuda", "<nccl", "<hip/", "<rccl/"};

// Headers that take seconds to compile, and the sources that may include them.
const std::map<std::string, std::vector<std::string>> costly{
    {"<CLI/", {"traces/command/command_line.cpp"}},
    {"<asio", {"exec/transport/tcp.cpp"}},
    {"<nlohmann/", {}},  // an oracle of the tests
    {"<toml++/", {"sim/import/toml.cpp"}}};

// The viewer's window is the one place that knows Qt.
bool may_use_qt(const std::string& path) {
  return path.starts_with("gui/window/") || path == "gui/pipeview.cpp";
}

std::string folder_of(const std::string& path) {
  std::string best;
  for (const auto& [folder, unused] : allowed) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

TEST(Layering, IncludesPointDownwards) {
  const std::filesystem::path root = PIPESIM_SOURCE_DIR;
  int files = 0;
  for (const char* top : {"traces", "sim", "exec", "gui"}) {
    if (!std::filesystem::exists(root / top)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      ++files;
      const std::string path = std::filesystem::relative(entry.path(), root).string();
      const std::string from = folder_of(path);
      ASSERT_NE(from, "") << path;
      std::istringstream lines(read_file(entry.path().string()));
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("#include ")) continue;
        const std::string target = line.substr(9);
        if (extension == ".h" && std::ranges::count(common_names, path) == 0) {
          for (const std::string& header : confined) {
            EXPECT_FALSE(target.starts_with(header)) << path << " includes " << target;
          }
        }
        for (const auto& [header, sources] : costly) {
          EXPECT_TRUE(!target.starts_with(header) || std::ranges::count(sources, path) == 1)
              << path << " includes " << target;
        }
        if (target.starts_with("<Q")) {
          EXPECT_TRUE(may_use_qt(path)) << path << " includes " << target;
        }
        if (!target.starts_with('"')) continue;
        const std::string to = folder_of(target.substr(1));
        ASSERT_NE(to, "") << path << " includes " << target;
        const bool fine =
            to == from || std::ranges::any_of(allowed.at(from), [&](const std::string& ok) {
              return ok.ends_with("/*") ? (to + "/").starts_with(ok.substr(0, ok.size() - 1))
                                        : to == ok;
            });
        EXPECT_TRUE(fine) << path << " (" << from << ") includes " << target << " (" << to << ")";
      }
    }
  }
  EXPECT_GT(files, 20);
}

}  // namespace
}  // namespace pipesim
