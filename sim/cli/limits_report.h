// What holds an iteration up, for people, and the commands that try it otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/limits.h"

namespace pipesim::cli {

// What was asked, and how commands ask for something else.
struct LimitsContext {
  std::int64_t makespan_ns = 0;
  bool is_async = true;  // transfers are
  int microbatches = 0;
  // Of a rank, where costs are a chunk's: flags that say the costs of all that a rank computes
  // ask for a schedule with more of them by a comparison; other flags can't.
  std::optional<int> chunks;
  std::optional<std::int64_t> memory_cap_bytes;
  // What the flags below follow, as words of a shell: "pipesim"; and for a partition. Empty where
  // there is no such command, as for costs without layers.
  std::vector<std::string> program, partition;
  std::vector<std::string> arguments;  // all of the command line
  // A schedule's own, against which no other was tried.
  std::optional<std::string> file;
};

// A word as a shell takes it.
std::string shell_word(const std::string& text);

// Lines of at most `width`; a command that is longer goes on behind a backslash.
std::string limits_report(const std::vector<Limit>& limits, const LimitsContext& context,
                          int width);

}  // namespace pipesim::cli
