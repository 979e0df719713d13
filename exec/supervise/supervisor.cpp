#include "exec/supervise/supervisor.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// Nothing if there is no such process. Its name, in parentheses, may contain anything.
std::string identity_of(pid_t id) {
  try {
    const std::string line = read_file(fmt::format("/proc/{}/stat", id));
    constexpr std::size_t start = 20;  // the 22nd word of the line
    const std::vector<std::string_view> behind =
        split(std::string_view(line).substr(line.rfind(')') + 1), ' ');
    return start < behind.size() ? fmt::format("{} {}", id, behind[start]) : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string supervisor_value() { return identity_of(::getpid()); }

Supervisor::Supervisor() {
  const char* value = std::getenv(supervisor_variable);
  if (value == nullptr) return;
  const pid_t id = std::atoi(value);
  descriptor_ = static_cast<int>(::syscall(SYS_pidfd_open, id, 0U));
  // Another host's process, or a later one with its number.
  if (descriptor_ >= 0 && identity_of(id) != value) ::close(std::exchange(descriptor_, -1));
}

Supervisor::~Supervisor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace pipesim::exec
