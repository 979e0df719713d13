// Numbers of flags, within bounds. Pure functions; any thread.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

// From `least` to `most`; the error says that the text is not `meaning`.
template <typename T>
T parse_number(std::string_view text, std::string_view name, T least, T most,
               std::string_view meaning) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    throw input_error(fmt::format("{}: {} is not {}", name, quote(text), meaning));
  }
  return value;
}

inline std::uint64_t parse_seed(std::string_view text) {
  return parse_number<std::uint64_t>(text, "--seed", 0, UINT64_MAX,
                                     "a whole number from 0 below 2^64");
}

inline float parse_learning_rate(std::string_view text) {
  return parse_number(text, "--learning-rate", 0.0F, 1e6F, "a number such as 0.001, up to 1e6");
}

}  // namespace pipesim::exec
