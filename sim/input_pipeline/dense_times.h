// The time of the dense part of a recommendation model on a device: its layers as GEMMs and as
// bytes through memory (sim/cost/estimate/device_times.h). Pure functions; any thread.
#pragma once

#include <cstdint>

#include "sim/cost/hardware/device.h"
#include "sim/input_pipeline/recommendation_model.h"

namespace pipesim {

struct KernelTimes {
  double seconds = 0;
  int kernels = 0;
};

// For a batch on one rank.
struct DenseTimes {
  KernelTimes bottom;
  KernelTimes top;  // interaction and loss included
  KernelTimes top_backward;
  KernelTimes bottom_backward;
  double activation_bytes = 0;  // kept from forward to backward
};

// The device must have a rate for that precision.
DenseTimes dense_times(const RecommendationModel& model, const DeviceSpec& device,
                       Precision precision, std::int64_t batch_size);

}  // namespace pipesim
