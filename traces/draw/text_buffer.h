// Text built piece by piece, for large outputs.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace pipesim {

using Buffer = fmt::memory_buffer;

template <typename... Arguments>
void add(Buffer& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

}  // namespace pipesim
