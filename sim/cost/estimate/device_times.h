// How long a device takes for an operator: the roofline, with the shape of
// matrix products. Pure functions; any thread.
#pragma once

#include "sim/cost/estimate/operators.h"
#include "sim/cost/hardware/device.h"

namespace pipesim {

// Seconds that so many bytes take through memory, in so many kernels.
double memory_seconds(const DeviceSpec& device, double bytes, int kernels);

// Seconds of a product, one kernel: the best of the device's tiles, whose number
// of waves over the multiprocessors is counted partly in whole waves, longer where
// its dimensions are no multiples of 8 or 64, or the time of its bytes if that is
// longer still. `software_factor` multiplies the rate.
double product_seconds(const DeviceSpec& device, Precision precision, const MatrixProduct& product,
                       double software_factor = 1);

// Seconds of FLOPs that reach `share` of the peak, or of their bytes.
double work_seconds(const DeviceSpec& device, Precision precision, double flops, double share,
                    double bytes, int kernels);

}  // namespace pipesim
