// How tests of operators go over devices and shapes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/devices.h"

namespace pipesim::testing {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// OverlappedCollectives, below and above the widths of vectors and of internal chunks.
inline const std::vector<Shape> shapes{{1, 1},  {3, 1},   {1, 7},   {5, 15}, {2, 16},
                                       {9, 17}, {4, 100}, {3, 129}, {2, 515}};

inline void on_every_device(const std::function<void(exec::Device&)>& check) {
  for (const auto& device : every_device()) {
    SCOPED_TRACE(device->description());
    check(*device);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline void on_every_shape(
    const std::function<void(exec::Device&, std::int64_t rows, std::int64_t columns)>& check) {
  on_every_device([&](exec::Device& device) {
    for (const auto& [rows, columns] : shapes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      check(device, rows, columns);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace pipesim::testing
