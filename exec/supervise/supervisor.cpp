#include "exec/supervise/supervisor.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "exec/supervise/processes.h"
#include "exec/supervise/progress_file.h"
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

// As the process got it: empty if it has ended, or is another user's.
std::string environment_of(pid_t id) {
  try {
    return read_file(fmt::format("/proc/{}/environ", id));
  } catch (const Error&) {
    return "";
  }
}

std::string variable_in(const std::string& environment, std::string_view name) {
  for (const std::string_view variable : split(environment, '\0')) {
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      return std::string(variable.substr(name.size() + 1));
    }
  }
  return "";
}

}  // namespace

std::vector<pid_t> left_behind(const std::string& progress) {
  std::vector<pid_t> left;
  for (const RunningProcess& process : Processes::all()) {
    if (process.id == ::getpid()) continue;
    const std::string environment = environment_of(process.id);
    if (variable_in(environment, progress_variable) != progress) continue;
    const std::string supervisor = variable_in(environment, supervisor_variable);
    if (supervisor.empty()) continue;
    const pid_t id = std::atoi(supervisor.c_str());
    if (identity_of(id) == supervisor) {
      throw input_error(
          fmt::format("process {} supervises this training already; end it, or give another "
                      "--progress",
                      id));
    }
    left.push_back(process.id);
  }
  return left;
}

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
