// What limits an iteration, as text, with the commands that try alternatives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/advice/limits.h"

namespace pipesim::cli {

// The request, and how commands request something else.
struct LimitsContext {
  std::int64_t makespan_ns = 0;
  bool is_async = true;  // transfers are asynchronous
  int microbatches = 0;
  // A rank's number, if costs are per chunk. Trying another number takes a comparison, whose flags
  // give the costs of a whole rank; so that is possible only if this is 1.
  std::optional<int> chunks;
  std::optional<std::int64_t> memory_cap_bytes;
  // The words of the shell command before the flags below: "pipesim"; and those of a partition.
  // Empty if there is no such command, as for costs without layers.
  std::vector<std::string> program, partition;
  std::vector<std::string> arguments;  // of the whole command line
  // The schedule's file, if its order was taken as given and not compared with others.
  std::optional<std::string> file;
};

// A word quoted for a shell.
std::string shell_word(const std::string& text);

// Lines of at most `width`; a longer command continues after a backslash.
std::string limits_report(const std::vector<Limit>& limits, const LimitsContext& context,
                          int width);

}  // namespace pipesim::cli
