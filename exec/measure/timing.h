// Times on a device, by its marks, and arrays of random numbers on it.
//
// All times are milliseconds of the device's clock. One device, one thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

inline double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

// How much to measure: the number of repeats, and the total time of the calls in each.
struct Effort {
  int repeats = 15;
  double repeat_ms = 5;
};

// The number of calls in a repeat, estimated from a warm one. run(i) is the i-th call.
using Run = std::function<void(int)>;

// The time per call of consecutive calls, from when the device gets to them to their end. Nothing
// else may be running.
inline double time_of(Device& device, int calls, const Run& run) {
  device.finish();
  const Mark before = device.mark();
  for (int call = 0; call < calls; ++call) run(call);
  const Mark after = device.mark();
  const std::int64_t ns = device.time_of(after) - device.time_of(before);
  device.forget_marks();
  return static_cast<double>(ns) / 1e6 / calls;
}

inline int calls_for(double call_ms, const Effort& effort) {
  return static_cast<int>(
      std::clamp(std::ceil(effort.repeat_ms / std::max(call_ms, 1e-4)), 1.0, 1e4));
}

// The median of the repeats, after a warm-up.
inline double time_of(Device& device, const Effort& effort, const Run& run) {
  time_of(device, 3, run);
  const int calls = calls_for(time_of(device, 3, run), effort);
  time_of(device, calls, run);
  std::vector<double> times;
  for (int repeat = 0; repeat < effort.repeats; ++repeat) {
    times.push_back(time_of(device, calls, run));
  }
  return median(times);
}

// Normally distributed numbers of a type on a device; released with the object.
class RandomNumbers {
 public:
  RandomNumbers(Device& device, std::int64_t count, Number type, std::uint32_t seed,
                float deviation = 1)
      : device_(device), type_(type), data_(device.allocate(count * bytes_of(type))) {
    RandomKey key{.seed = seed, .purpose = Purpose::initial_weights};
    if (type == Number::float32) {
      device.fill_normal(count, static_cast<float*>(data_), key, deviation);
      return;
    }
    const RandomNumbers wide(device, count, Number::float32, seed, deviation);
    device.copy(count, wide.array(), array());
    device.finish();
  }
  RandomNumbers(const RandomNumbers&) = delete;
  RandomNumbers& operator=(const RandomNumbers&) = delete;
  ~RandomNumbers() { device_.release(data_); }

  Array array() const { return {data_, type_}; }
  float* floats() const { return static_cast<float*>(data_); }
  void* data() const { return data_; }

 private:
  Device& device_;
  Number type_;
  void* data_;
};

// Several arrays of the same size, so that no call's inputs are in a cache.
class Rotation {
 public:
  static constexpr int sets = 3;

  Rotation(Device& device, std::int64_t count, Number type, std::uint32_t seed,
           float deviation = 1) {
    for (std::uint32_t set = 0; set < sets; ++set) {
      all_.push_back(
          std::make_unique<RandomNumbers>(device, count, type, seed + 100 * set, deviation));
    }
  }
  const RandomNumbers& operator[](int call) const {
    return *all_[static_cast<std::size_t>(call % sets)];
  }

 private:
  std::vector<std::unique_ptr<RandomNumbers>> all_;
};

}  // namespace pipesim::exec
