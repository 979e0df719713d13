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

// The same by a device's measured rates, for software that lists its kernels (FORMAT.md,
// "pipesim-device", `kernels`). Of fused attention `sequence` is the length; FLOPs are those of the
// pairs of tokens that it looks at.
class ListedTimes {
 public:
  // The device outlives it. `pace` is what products and attention keep of the sustained rate.
  ListedTimes(const DeviceSpec& device, const KernelList& list, double pace = 1);

  double memory_seconds(Traffic traffic, double bytes, int launches) const;
  // `factor` multiplies the rate, as do those of product_seconds() above.
  double product_seconds(Precision precision, const MatrixProduct& product,
                         double factor = 1) const;
  double attention_seconds(Precision precision, Pass pass, double flops, std::int64_t sequence,
                           double factor = 1) const;

 private:
  // Of this precision's rate relative to that of the measured 16 bits.
  double share_of(Precision precision) const;

  const DeviceSpec& device_;
  KernelRates rates_;
  AttentionRates attention_;
};

}  // namespace pipesim
