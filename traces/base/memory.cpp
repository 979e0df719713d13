#include "traces/base/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

namespace {

// The contents of a file that the kernel generates; empty if there is none.
std::string text_in(const std::string& file) {
  std::string text;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return text;
  std::array<char, 4096> part;
  for (ssize_t size = 0; (size = ::read(descriptor, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  ::close(descriptor);
  return text;
}

// The number at the start of a text, after blanks.
std::optional<std::int64_t> number_of(std::string_view text) {
  text = strip(text);
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// The same after `key`, at the start of one of the lines.
std::optional<std::int64_t> number_behind(std::string_view key, std::string_view lines) {
  for (const std::string_view line : split(lines, '\n')) {
    if (line.starts_with(key)) return number_of(line.substr(key.size()));
  }
  return std::nullopt;
}

// The free memory of a cgroup, if less than `most`. `second`: a version 2 cgroup.
std::int64_t left_by(const std::string& folder, bool second, std::int64_t most) {
  const auto limit = number_of(text_in(folder + (second ? "memory.max" : "memory.limit_in_bytes")));
  if (!limit) return most;
  std::int64_t used =
      number_of(text_in(folder + (second ? "memory.current" : "memory.usage_in_bytes")))
          .value_or(0);
  if (*limit - used >= most) return most;  // its statistics are slow
  // File pages, which the system drops before it runs out of memory.
  used -= number_behind("inactive_file ", text_in(folder + "memory.stat")).value_or(0);
  return std::clamp<std::int64_t>(*limit - std::max<std::int64_t>(0, used), 0, most);
}

}  // namespace

std::int64_t group_memory_bytes(std::string_view groups, const std::string& root,
                                std::int64_t most) {
  for (const std::string_view line : split(groups, '\n')) {  // "0::/a/b" or "9:memory:/a/b"
    const std::vector<std::string_view> parts = split(line, ':');
    if (parts.size() < 3) continue;
    const bool second = parts[1].empty();
    if (!second && parts[1] != "memory") continue;
    std::string_view group = line.substr(parts[0].size() + parts[1].size() + 2);
    for (;;) {
      most = left_by(fmt::format("{}{}{}/", root, second ? "" : "/memory", group), second, most);
      if (group.size() <= 1) break;
      group = group.substr(0, group.rfind('/') == group.npos ? 0 : group.rfind('/'));
    }
  }
  return most;
}

std::int64_t available_memory_bytes() {
  std::int64_t available =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
  if (const auto kib = number_behind("MemAvailable:", text_in("/proc/meminfo"))) {
    available = std::min(available, *kib * 1024);
  }
  available = group_memory_bytes(text_in("/proc/self/cgroup"), "/sys/fs/cgroup", available);
  rlimit process{};
  if (::getrlimit(RLIMIT_AS, &process) == 0 && process.rlim_cur != RLIM_INFINITY) {
    const std::int64_t pages = number_of(text_in("/proc/self/statm")).value_or(0);
    const std::int64_t used = pages * std::int64_t{::sysconf(_SC_PAGESIZE)};  // address space
    available = std::min(available, static_cast<std::int64_t>(process.rlim_cur) - used);
  }
  return available;
}

void check_memory(const std::string& what, double bytes) {
  if (bytes <= little_memory) return;
  bytes = bytes * 1.1 + little_memory;  // the latter for what does not grow with the problem
  const auto available = static_cast<double>(available_memory_bytes());
  if (bytes <= available) return;
  constexpr double gib = 1 << 30;
  throw input_error(fmt::format(
      "{}: needs about {:.3g} GiB of memory, of which {:.3g} GiB are available; use fewer", what,
      bytes / gib, available / gib));
}

}  // namespace pipesim
