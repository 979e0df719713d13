#include "traces/base/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include "traces/base/error.h"

namespace pipesim {

namespace {

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Pages of files that the system gives up before it lacks memory.
std::int64_t cached_bytes(const std::filesystem::path& statistics) {
  std::ifstream in(statistics);
  std::string key;
  std::int64_t value = 0;
  while (in >> key >> value) {
    if (key == "inactive_file") return value;
  }
  return 0;
}

}  // namespace

std::int64_t group_memory_bytes(const std::string& groups, const std::filesystem::path& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/a/b" or "9:memory:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_second_version = controllers.empty();
    if (!is_second_version && controllers != "memory") continue;
    const std::filesystem::path mounted = is_second_version ? root : root / "memory";
    std::filesystem::path group(line.substr(second + 1));
    for (;; group = group.parent_path()) {
      const std::filesystem::path folder = mounted / group.relative_path();
      const auto limit =
          number_in(folder / (is_second_version ? "memory.max" : "memory.limit_in_bytes"));
      const auto used =
          number_in(folder / (is_second_version ? "memory.current" : "memory.usage_in_bytes"));
      if (limit) {
        const std::int64_t in_use = used.value_or(0) - cached_bytes(folder / "memory.stat");
        least =
            std::min(least, std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, in_use)));
      }
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

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
  std::ifstream group_file("/proc/self/cgroup");
  const std::string groups(std::istreambuf_iterator<char>(group_file), {});
  available = std::min(available, group_memory_bytes(groups, "/sys/fs/cgroup"));
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
