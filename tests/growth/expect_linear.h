// Growth as an expectation of a test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tests/growth/linear.h"

namespace pipesim::testing {

enum class Outcome { read, refused };

// See growth_of(). With PIPESIM_GROWTH in the environment, prints the figures.
inline void expect_linear(const Growing& input, double most_bytes, Outcome outcome,
                          const std::function<void(const std::string& text)>& call) {
  const Growth growth = growth_of(input, most_bytes, std::size_t{64} << 20, call);
  EXPECT_EQ(growth.fault, "");
  EXPECT_EQ(growth.refusal.empty(), outcome == Outcome::read)
      << input.what << ": " << growth.refusal;
  if (std::getenv("PIPESIM_GROWTH") == nullptr) return;
  const auto bytes = static_cast<double>(growth.bytes);
  fmt::print("{:<40} {:>8} bytes, {:>6.1f} steps and {:>5.1f} bytes a byte  {}\n", input.what,
             growth.bytes, static_cast<double>(growth.work.steps) / bytes,
             static_cast<double>(growth.work.peak_bytes) / bytes, growth.refusal.substr(0, 100));
}

}  // namespace pipesim::testing
