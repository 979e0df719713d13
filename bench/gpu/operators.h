// A device's memory-bound operators, and how many bytes each must move: every input read once,
// every output written once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exec/device/device.h"

namespace pipesim::exec {

struct OperatorShape {
  std::int64_t rows = 8192;
  std::int64_t columns = 4096;
  std::int64_t sequence = 2048;
  std::int64_t words = 50'304;  // a table's rows, more than `rows`; and classes
  std::int64_t class_rows = 2048;
  Number precision = Number::float32;

  std::int64_t count() const { return rows * columns; }
};

// Calls report(name, bytes of one call, run) for one after the other, copies within the device
// first; the operands of run(call), three sets in turn, exist until report() returns.
using Report = std::function<void(const std::string& name, std::int64_t bytes,
                                  const std::function<void(int)>& run)>;
void each_operator(Device& device, const OperatorShape& shape, const Report& report);

}  // namespace pipesim::exec
