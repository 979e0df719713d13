// What the kernels of a device reach, measured one by one, as the section `kernels` of a
// pipesim-device has it (FORMAT.md): rates that hold for every model, with how steady they were.
//
// The caller's thread owns the device, and nothing else uses it meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

struct MeasuringEffort {
  double seconds = 2;       // of the product that is repeated until power lowers the clock
  std::int64_t scale = 1;   // divides sizes: 1 for a GPU
  double repeat_ms = 5;     // of each of 15 repeats
  double most_spread = 15;  // in percent; a kernel that is less steady is refused
};

// Of a fused attention in one direction: its rate is `flops_per_second` / (1 + ramp / sequence).
struct MeasuredAttention {
  double flops_per_second = 0;
  std::int64_t ramp = 0;
};

// How far the middle half of a kernel's times lies apart, relative to their median.
struct MeasuredSpread {
  std::string kernel;
  double percent = 0;
};

struct DeviceRates {
  Number precision = Number::float32;
  double product_flops_per_second = 0;  // / (1 + product_ramp / k)
  std::int64_t product_ramp = 0;
  double sustained = 1;
  double stream = 0, norm = 0, optimizer = 0;  // bytes a second
  std::int64_t start_ns = 0;
  MeasuredAttention forward, backward;
  std::vector<MeasuredSpread> spreads;  // in the order of measuring
};

// Throws a work error that names the kernel if one is less steady than the effort allows, or if
// copies are slower at the end than they were at the beginning: another process uses the device,
// or it throttles.
DeviceRates measure_rates(Device& device, Number precision, const MeasuringEffort& effort);

}  // namespace pipesim::exec
