// The name of a file under construction, which must not outlive its maker.
//
// The file is removed when the object goes, and when SIGHUP, SIGINT or SIGTERM ends the
// process: the first object installs handlers where a signal has its default action. At
// most 16 files at once are known to them. One owner; objects in any threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace pipesim {

class PartFile {
 public:
  // Before the file is made, so that at no time one is left.
  explicit PartFile(std::string name);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& name() const { return name_; }
  // It is not there, or no longer under this name: nothing will be removed.
  void forget();

 private:
  std::string name_;
  std::optional<std::size_t> slot_;
};

}  // namespace pipesim
