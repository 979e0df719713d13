// What tests of devices share: every CPU device of this machine, arrays that
// notice what they should not, and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/device/cpu/cpu_device.h"
#include "exec/device/gpu/library.h"

namespace pipesim::testing {

// Every instruction set, with the library's products and with our own.
inline std::vector<std::unique_ptr<exec::Device>> every_device() {
  std::vector<std::unique_ptr<exec::Device>> devices;
  for (const std::string& set : exec::cpu_instruction_sets()) {
    devices.push_back(exec::make_cpu_device({set, false}));
    devices.push_back(exec::make_cpu_device({set, true}));
  }
  return devices;
}

// The device that layers and runs are tested on: the CPU, or a GPU where the
// environment's PIPESIM_TEST_GPU names one, as cuda:0, of the modules in the
// folder PIPESIM_TEST_MODULES.
inline bool tests_a_gpu() { return std::getenv("PIPESIM_TEST_GPU") != nullptr; }
inline std::unique_ptr<exec::Device> make_test_device() {
  if (!tests_a_gpu()) return exec::make_cpu_device();
  const std::string name = std::getenv("PIPESIM_TEST_GPU");
  const std::size_t colon = name.find(':');
  const exec::GpuModule& module =
      exec::load_gpu_module(name.substr(0, colon), std::getenv("PIPESIM_TEST_MODULES"));
  return module.make({.gpu = std::stoi(name.substr(colon + 1))});
}

inline std::vector<float> normals(std::int64_t count, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

inline std::vector<std::int32_t> choices(std::int64_t count, std::int32_t below, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> uniform(0, below - 1);
  std::vector<std::int32_t> x(static_cast<std::size_t>(count));
  for (auto& value : x) value = uniform(random);
  return x;
}

// Floats on a device, `offset` floats past an aligned address, between guards
// that are checked at the end. Without values they are NaN: to be overwritten.
class Floats {
 public:
  Floats(exec::Device& device, std::int64_t count, int offset = 0)
      : device_(device), count_(count), offset_(offset) {
    std::vector<float> all(static_cast<std::size_t>(count + 2 * guards),
                           std::numeric_limits<float>::quiet_NaN());
    for (int i = 0; i < guards; ++i) {
      all[static_cast<std::size_t>(i)] = guard;
      all[static_cast<std::size_t>(guards + count + i)] = guard;
    }
    memory_ = static_cast<float*>(device.allocate((count + 2 * guards + offset) * 4));
    device.upload(memory_ + offset, all.data(), (count + 2 * guards) * 4);
  }
  Floats(exec::Device& device, const std::vector<float>& values, int offset = 0)
      : Floats(device, static_cast<std::int64_t>(values.size()), offset) {
    device.upload(data(), values.data(), count_ * 4);
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() {
    std::vector<float> all(static_cast<std::size_t>(count_ + 2 * guards));
    device_.download(all.data(), memory_ + offset_, (count_ + 2 * guards) * 4);
    for (int i = 0; i < guards; ++i) {
      EXPECT_EQ(all[static_cast<std::size_t>(i)], guard) << "written before the array";
      EXPECT_EQ(all[static_cast<std::size_t>(guards + count_ + i)], guard) << "written behind it";
    }
    device_.release(memory_);
  }

  float* data() { return memory_ + offset_ + guards; }
  std::vector<float> values() {
    std::vector<float> x(static_cast<std::size_t>(count_));
    device_.download(x.data(), data(), count_ * 4);
    return x;
  }

 private:
  static constexpr int guards = 16;
  static constexpr float guard = 12345.678F;

  exec::Device& device_;
  std::int64_t count_;
  int offset_;
  float* memory_;
};

inline double sum_of_squares(exec::Device& device, std::int64_t count, const float* x) {
  auto* sum = static_cast<double*>(device.allocate(sizeof(double)));
  device.sum_of_squares(count, x, sum);
  double value = 0;
  device.download(&value, sum, sizeof value);
  device.release(sum);
  return value;
}

// |got - want| <= relative |want| + absolute, for each element.
inline void expect_close(const std::vector<float>& got, const std::vector<double>& want,
                         double relative, double absolute, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = relative * std::abs(want[i]) + absolute;
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= allowed)
        << what << "[" << i << "]: " << got[i] << " instead of " << want[i];
  }
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& x) {
  std::vector<std::uint32_t> words;
  for (const float value : x) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

// The derivative of `loss` by x[i] for each i of `at`, by central differences.
template <typename Loss>
std::vector<double> differences(std::vector<double> x, const std::vector<std::size_t>& at,
                                Loss loss) {
  constexpr double step = 1e-5;
  std::vector<double> result;
  for (const std::size_t i : at) {
    const double middle = x[i];
    x[i] = middle + step;
    const double above = loss(x);
    x[i] = middle - step;
    const double below = loss(x);
    x[i] = middle;
    result.push_back((above - below) / (2 * step));
  }
  return result;
}

inline std::vector<double> wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

inline std::vector<std::size_t> every_index(std::size_t count) {
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

}  // namespace pipesim::testing
