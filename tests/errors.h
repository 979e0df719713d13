// What a piece of work complains of.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "traces/base/error.h"

namespace pipesim::testing {

inline const std::string no_error = "no error";

// The message of the Error that `work` throws, or no_error.
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return no_error;
}

// The same, where it must be the input's fault.
template <typename Work>
std::string input_error_of(Work work) {
  return error_of([&] {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 2) << error.what();
      throw;
    }
  });
}

}  // namespace pipesim::testing
