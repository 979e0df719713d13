// Rounds floating-point estimates to the integers of costs.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

// Nanoseconds; refuses values that are out of range.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

inline std::int64_t to_ns(double seconds) {
  const double ns = seconds * 1e9;
  if (!(ns >= 0 && ns <= static_cast<double>(max_time_ns))) {
    throw input_error(fmt::format(
        "--model, --cluster: a part of the model takes {:g} s, and at most {:g} are valid; use "
        "smaller layers or batches, or faster devices and links",
        seconds, static_cast<double>(max_time_ns) * 1e-9));
  }
  return std::llround(ns);
}

inline std::int64_t to_bytes(double bytes) {
  if (!(bytes >= 0 && bytes <= static_cast<double>(max_bytes))) {
    throw input_error(fmt::format(
        "--model: a layer has {:g} bytes, and at most {:g} are valid; use smaller layers or "
        "batches",
        bytes, static_cast<double>(max_bytes)));
  }
  return std::llround(bytes);
}

}  // namespace pipesim
