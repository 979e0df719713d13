// Where tests find the project's data, and a folder of their own.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "traces/base/files.h"

namespace pipesim::testing {

inline std::string source_file(const std::string& relative) {
  return std::string(PIPESIM_SOURCE_DIR) + "/" + relative;
}
inline std::string golden(const std::string& name) {
  return source_file("tests/data/schedules/" + name);
}

// The first JSON example below a heading of traces/FORMAT.md.
inline std::string format_example(const std::string& heading) {
  const std::string text = read_file(source_file("traces/FORMAT.md"));
  const std::string fence = "```json\n";
  const std::size_t begin = text.find(fence, text.find("\n## " + heading + "\n")) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

// Where folders come and go without a disk, if there is such a place.
inline std::filesystem::path memory_folder() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
}

// A fresh folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "pipesim.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace pipesim::testing
