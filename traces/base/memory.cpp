#include "traces/base/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "traces/base/error.h"

namespace pipesim {

std::int64_t available_memory_bytes() {
  std::int64_t available =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
  std::ifstream info("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  std::string unit;
  while (info >> key >> kib >> unit) {
    if (key == "MemAvailable:") available = std::min(available, kib * 1024);
  }
  std::ifstream group("/sys/fs/cgroup/memory.max");
  std::int64_t limit = 0;
  if (group >> limit) available = std::min(available, limit);
  rlimit process{};
  if (::getrlimit(RLIMIT_AS, &process) == 0 && process.rlim_cur != RLIM_INFINITY) {
    std::ifstream self("/proc/self/statm");
    std::int64_t pages = 0;  // of address space in use
    self >> pages;
    const std::int64_t used = pages * std::int64_t{::sysconf(_SC_PAGESIZE)};
    available = std::min(available, static_cast<std::int64_t>(process.rlim_cur) - used);
  }
  return available;
}

void check_memory(const std::string& what, double bytes) {
  constexpr double slack = 16 << 20;  // what does not grow with the problem
  bytes = bytes * 1.1 + slack;
  const auto available = static_cast<double>(available_memory_bytes());
  if (bytes <= available) return;
  constexpr double gib = 1 << 30;
  throw input_error(fmt::format(
      "{}: needs about {:.3g} GiB of memory, of which {:.3g} GiB are available; use fewer", what,
      bytes / gib, available / gib));
}

}  // namespace pipesim
