// Numbers of either type on a device: the same operator is asked for float32 and
// bfloat16, and compared with the CPU's in float32 on the same numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/device/device.h"
#include "tests/devices.h"

namespace pipesim::testing {

// By arithmetic that is exact but for the one rounding, to nearest and even.
inline float nearest_bfloat16(double x) {
  if (!std::isfinite(x)) return static_cast<float>(x);
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 8, -133));
  const double nearest = std::nearbyint(x / step) * step;
  const bool fits = std::abs(nearest) < 0x1p128;
  return std::copysign(fits ? static_cast<float>(nearest) : INFINITY, static_cast<float>(x));
}

inline std::vector<float> rounded(exec::Number precision, std::vector<float> x) {
  if (precision == exec::Number::bfloat16) {
    std::ranges::transform(x, x.begin(), [](float value) { return nearest_bfloat16(value); });
  }
  return x;
}

// Where arrays lie, what they are stored as, and the type that all their numbers
// are of, which on the CPU is not what they are stored as.
struct Place {
  exec::Device& device;
  exec::Number precision = exec::Number::float32;
  exec::Number stored = exec::Number::float32;
  int offset = 0;  // numbers past an aligned address

  std::vector<float> normals(std::int64_t count, unsigned seed, float deviation = 1) const {
    return rounded(precision, testing::normals(count, seed, deviation));
  }
  exec::ConstArray none() const { return {nullptr, stored}; }
};

// Numbers between guards that are checked at the end, `times` the place's offset
// past an aligned address. Without values they are NaN: to be overwritten.
class Tensor {
 public:
  Tensor(const Place& place, const std::vector<float>& values, int times = 1)
      : device_(place.device),
        type_(place.stored),
        size_(values.size()),
        skipped_(times * place.offset * exec::bytes_of(type_)) {
    std::vector<float> all(guards, guard);
    all.insert(all.end(), values.begin(), values.end());
    all.insert(all.end(), guards, guard);
    memory_ = static_cast<char*>(device_.allocate(skipped_ + bytes_of_all()));
    if (type_ == exec::Number::float32) {
      device_.upload(memory_ + skipped_, all.data(), bytes_of_all());
    } else {
      std::vector<std::uint16_t> halves;
      for (const std::uint32_t word : bits(all)) {
        halves.push_back(static_cast<std::uint16_t>(word >> 16));
      }
      device_.upload(memory_ + skipped_, halves.data(), bytes_of_all());
    }
  }
  Tensor(const Place& place, std::int64_t count, int times = 1)
      : Tensor(place, std::vector<float>(static_cast<std::size_t>(count), NAN), times) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    const std::vector<float> all = everything();
    EXPECT_EQ(std::count(all.begin(), all.begin() + guards, guard), guards) << "written before it";
    EXPECT_EQ(std::count(all.end() - guards, all.end(), guard), guards) << "written behind it";
    device_.release(memory_);
  }

  exec::Array data() { return {memory_ + skipped_ + guards * exec::bytes_of(type_), type_}; }
  std::vector<float> values() const {
    const std::vector<float> all = everything();
    return {all.begin() + guards, all.end() - guards};
  }

 private:
  static constexpr int guards = 16;
  static constexpr float guard = 12352;  // of either type

  std::int64_t bytes_of_all() const {
    return (static_cast<std::int64_t>(size_) + 2 * guards) * exec::bytes_of(type_);
  }
  std::vector<float> everything() const {
    std::vector<float> all(size_ + 2 * guards);
    if (type_ == exec::Number::float32) {
      device_.download(all.data(), memory_ + skipped_, bytes_of_all());
    } else {
      std::vector<std::uint16_t> halves(all.size());
      device_.download(halves.data(), memory_ + skipped_, bytes_of_all());
      std::ranges::transform(halves, all.begin(), [](std::uint16_t half) {
        return std::bit_cast<float>(std::uint32_t{half} << 16);
      });
    }
    return all;
  }

  exec::Device& device_;
  exec::Number type_;
  std::size_t size_;
  std::int64_t skipped_;
  char* memory_ = nullptr;
};

}  // namespace pipesim::testing
