// Stacks as files that other programs read; FORMAT.md, "Flame graphs", says what is in them.
//
// Depends on its arguments alone; any thread.
#pragma once

#include <string>
#include <string_view>

#include "traces/base/files.h"
#include "traces/flame/stacks.h"

namespace pipesim {

enum class StackFormat : std::uint8_t {
  folded,      // `a;b;c 123`: stacks with their times, added up and sorted
  speedscope,  // JSON of https://www.speedscope.app: each line in the order of time
};

// By how a file's name ends: .folded or .txt, .speedscope.json or .json, any of them with .gz.
// `where` names the flag in the input error that tells of others.
StackFormat stack_format_of(const std::string& path, std::string_view where);

// `name` is what the stacks are of. Leaves the file to be committed.
void write_stacks(const Stacks& stacks, std::string_view name, StackFormat format,
                  OutputFile& file);

}  // namespace pipesim
