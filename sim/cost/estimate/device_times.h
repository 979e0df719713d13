// How long a device takes for an operator: the roofline, with the shape of
// matrix products. Pure functions; any thread.
#pragma once

#include "sim/cost/estimate/operators.h"
#include "sim/cost/hardware/device.h"

namespace pipesim {

// Seconds to move so many bytes through memory, in so many kernels.
double memory_seconds(const DeviceSpec& device, double bytes, int kernels);

// Seconds of a GEMM, one kernel: with the best of the device's tiles, whose number of waves over
// the multiprocessors is partly rounded up; longer if its dimensions are not multiples of 8 or 64;
// or the time of its bytes if that is longer still. `software_factor` multiplies the rate.
double product_seconds(const DeviceSpec& device, Precision precision, const MatrixProduct& product,
                       double software_factor = 1);

// Seconds of FLOPs at `share` of the peak, or of their bytes if that is longer.
double work_seconds(const DeviceSpec& device, Precision precision, double flops, double share,
                    double bytes, int kernels);

}  // namespace pipesim
