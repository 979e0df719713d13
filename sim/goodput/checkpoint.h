// How large a checkpoint is, and how long it takes to move.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/cost/hardware/device.h"
#include "sim/cost/model.h"

namespace pipesim {

// All state needed to resume training, once, however many devices hold a copy: per parameter Adam's
// two moments in fp32, 8 bytes, its weight in fp32, 4, and, at a precision of 16 or fewer bits, the
// weight used in compute, 2. 14 bytes, or 12. Gradients are not saved.
std::int64_t checkpoint_bytes(const Model& model, Precision precision);

// A rate of all devices together, or of each.
struct SaveRate {
  std::int64_t bytes_per_second = 0;
  bool of_each_device = false;
};

// "2GB/s" or "2GB/s/device", more than 0.
SaveRate parse_save_rate(std::string_view text, std::string_view where);

// Devices hold equal shares. For a rate per device their number must be known, or it is an input
// error at `where`, as is a time that is too long.
std::int64_t moving_ns(std::int64_t bytes, const SaveRate& rate, std::optional<int> devices,
                       std::string_view where);

}  // namespace pipesim
