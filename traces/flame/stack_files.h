// Stacks as files for other programs; FORMAT.md, "Flame graphs", defines their contents.
//
// Depends on its arguments alone; any thread.
#pragma once

#include <string>
#include <string_view>

#include "traces/base/files.h"
#include "traces/flame/stacks.h"

namespace pipesim {

enum class StackFormat : std::uint8_t {
  folded,      // `a;b;c 123`: stacks with their times, summed and sorted
  speedscope,  // JSON of https://www.speedscope.app: each line in the order of time
};

// By file name: .folded or .txt, .speedscope.json or .json, any of them with .gz.
// `where` names the flag in the input error for others.
StackFormat stack_format_of(const std::string& path, std::string_view where);

// `name` is the title. Does not commit the file.
void write_stacks(const Stacks& stacks, std::string_view name, StackFormat format,
                  OutputFile& file);

}  // namespace pipesim
