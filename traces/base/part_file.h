// The name of a file under construction, which must not outlive its maker.
//
// The file is removed when the object is destroyed, and when SIGHUP, SIGINT or SIGTERM ends the
// process: the first object installs handlers for signals with the default action. They know at
// most 16 files at once. One owner; objects in any threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace pipesim {

class PartFile {
 public:
  // Call before the file is made, so none is ever left behind.
  explicit PartFile(std::string name);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& name() const { return name_; }
  // The file is gone or renamed: nothing will be removed.
  void forget();

 private:
  std::string name_;
  std::optional<std::size_t> slot_;
};

// From now on this signal ends the process after a removal of such files. Handlers may call it.
void remove_parts_on(int signal);

}  // namespace pipesim
