// How operators of GPUs are compared with those of the CPU, which plain loops in
// double check elsewhere (operators_test, products_test).
//
// Tolerances: u = 2^-24 is the error of one rounding. What is computed without
// sums, other than by exp, has the CPU's bits. Sums of n products of normal
// numbers are off by about 0.3 u n, since partial sums grow as the root; 8 u n
// leaves room for the largest of a million of those, on both sides. In bfloat16
// the operators are given numbers of that type, and the CPU computes in float32
// with the same: rounding keeps the order, so that a result lies between the
// bounds of float32, rounded.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "exec/device/gpu/library.h"
#include "tests/devices.h"
#include "tests/errors.h"
#include "tests/thorough.h"
#include "tests/typed_arrays.h"

namespace pipesim::exec::parity {

using testing::bits;
using testing::choices;
using testing::expect_close;
using testing::Floats;
using testing::nearest_bfloat16;
using testing::normals;
using testing::Place;
using testing::rounded;
using testing::Tensor;
using testing::wide;

inline constexpr double u = 0x1p-24;

inline constexpr const char* kinds[] = {"cuda", "hip"};

// Where modules are looked for.
inline std::string& modules() {
  static std::string folder = std::filesystem::path(PIPEEXEC_COMMAND).parent_path().string();
  return folder;
}

inline const GpuModule& module_of(const std::string& kind) {
  return load_gpu_module(kind, modules());
}

// Why there is no GPU of that kind, or no_error.
inline std::string left_out(const std::string& kind) {
  return testing::error_of([&] { module_of(kind).gpus(); });
}

inline void on_every_gpu(const std::function<void(Device&, bool own_products)>& check) {
  for (const char* kind : kinds) {
    if (left_out(kind) != testing::no_error) continue;
    const auto own = module_of(kind).make({.gpu = 0, .own_products = true});
    const auto usual = module_of(kind).make({.gpu = 0, .own_products = false});
    const bool has_library = usual->description() != own->description();
    for (Device* device : {usual.get(), own.get()}) {
      SCOPED_TRACE(device->description());
      const bool own_products = device == own.get() || !has_library;
      if (device == usual.get() || has_library) check(*device, own_products);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Whole numbers on a device.
class Numbers {
 public:
  Numbers(Device& device, const std::vector<std::int32_t>& values)
      : device_(device), bytes_(4 * static_cast<std::int64_t>(values.size())) {
    data_ = static_cast<std::int32_t*>(device.allocate(bytes_));
    device.upload(data_, values.data(), bytes_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() { device_.release(data_); }

  const std::int32_t* data() const { return data_; }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::int32_t* data_;
};

// An operator on fresh arrays, `offset` floats past an aligned address.
using Run = std::function<std::vector<float>(Device&, int offset)>;

struct Close {
  double relative = 0;
  double absolute = 0;      // both 0: the same bits
  bool by_library = false;  // bits may depend on alignment
  // What else a library may be off by in numbers of bfloat16, where it rounds in between.
  double library_rounding = 0;
};

// Every GPU gives the CPU's values, and the same bits again, at any alignment.
inline void expect_parity(const std::string& name, const Close& close, const Run& run) {
  SCOPED_TRACE(name);
  const auto cpu = make_cpu_device();
  const std::vector<float> want = run(*cpu, 0);
  on_every_gpu([&](Device& gpu, bool own_products) {
    const std::vector<float> got = run(gpu, 0);
    if (close.relative == 0 && close.absolute == 0) {
      ASSERT_EQ(bits(got), bits(want));
    } else {
      expect_close(got, wide(want), close.relative, close.absolute, name.c_str());
    }
    ASSERT_EQ(bits(run(gpu, 0)), bits(got)) << "called again";
    if (close.by_library && !own_products) return;
    for (const int offset : {1, 3, 4}) {
      ASSERT_EQ(bits(run(gpu, offset)), bits(got)) << "at offset " << offset;
    }
  });
}

// ---- Both types

struct Results {
  std::vector<float> numbers;    // of the type
  std::vector<float> sums = {};  // float32 in any case
};
using TypedRun = std::function<Results(const Place&)>;

inline void expect_same(const Results& got, const Results& want) {
  ASSERT_EQ(bits(got.numbers), bits(want.numbers));
  ASSERT_EQ(bits(got.sums), bits(want.sums));
}

inline void expect_numbers(Number precision, const std::vector<float>& got,
                           const std::vector<float>& want, const Close& close,
                           const std::string& name) {
  if (precision == Number::float32) {
    expect_close(got, wide(want), close.relative, close.absolute, name.c_str());
    return;
  }
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = close.relative * std::abs(want[i]) + close.absolute;
    ASSERT_TRUE(nearest_bfloat16(want[i] - allowed) <= got[i] &&
                got[i] <= nearest_bfloat16(want[i] + allowed))
        << name << "[" << i << "]: " << got[i] << " instead of " << want[i];
  }
}

// The same with numbers of either type. What has the CPU's bits in float32 has
// them, rounded once, in bfloat16.
inline void expect_typed_parity(const std::string& name, const Close& close, const TypedRun& run) {
  for (const Number precision : {Number::float32, Number::bfloat16}) {
    SCOPED_TRACE(name + (precision == Number::float32 ? ", float32" : ", bfloat16"));
    const auto cpu = make_cpu_device();
    Results want = run({*cpu, precision});
    int compared = 0;
    on_every_gpu([&](Device& gpu, bool own_products) {
      const Results got = run({gpu, precision, precision});
      ++compared;
      if (close.relative == 0 && close.absolute == 0) {
        want.numbers = rounded(precision, want.numbers);
        expect_same(got, want);
      } else {
        Close allowed = close;
        if (!own_products) allowed.absolute += close.library_rounding;
        expect_numbers(precision, got.numbers, want.numbers, allowed, name);
        expect_close(got.sums, wide(want.sums), close.relative, close.absolute, name.c_str());
      }
      if (::testing::Test::HasFatalFailure()) return;
      for (const int offset : {0, 1, 3, 4, 8}) {
        if (offset > 0 && close.by_library && !own_products) return;
        SCOPED_TRACE("again at offset " + std::to_string(offset));
        expect_same(run({gpu, precision, precision, offset}), got);
        if (::testing::Test::HasFatalFailure()) return;
      }
    });
    if (::testing::Test::HasFatalFailure()) return;
    EXPECT_GT(compared, 0);
  }
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// Beside and below groups of four, blocks and chunks; many rows, and rows of each
// number of packs that a thread may hold, and more. An emulated GPU takes the longer the more
// numbers there are.
inline const std::vector<Shape> shapes{
    {1, 1},    {3, 1},     {1, 3},     {17, 17},  {3, 129},  {129, 3},  {65, 64},  {1, 1000},
    {1000, 7}, {17, 1024}, {300, 257}, {5, 4099}, {3, 1500}, {9, 2051}, {2, 8193}, {2100, 3}};
inline const std::vector<Shape> small_shapes{{1, 1},   {3, 1},    {1, 3},    {17, 17}, {129, 3},
                                             {65, 64}, {1, 4099}, {1000, 7}, {1, 8193}};

inline const std::vector<Shape>& shapes_tried() {
  return testing::is_thorough() ? shapes : small_shapes;
}

inline void on_every_shape(
    const std::string& name, const std::function<Close(std::int64_t, std::int64_t)>& close,
    const std::function<Results(const Place&, std::int64_t, std::int64_t)>& run) {
  for (const auto& [rows, columns] : shapes_tried()) {
    expect_typed_parity(
        name + ", " + std::to_string(rows) + " x " + std::to_string(columns), close(rows, columns),
        [&, rows = rows, columns = columns](const Place& p) { return run(p, rows, columns); });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline Close same_bits(std::int64_t /*rows*/, std::int64_t /*columns*/) { return {}; }

inline std::function<Close(std::int64_t, std::int64_t)> within(double relative, double absolute) {
  return [=](std::int64_t, std::int64_t) { return Close{relative, absolute}; };
}

inline std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline const RandomKey key{
    .seed = 0x123456789abcdef, .site = 3, .layer = 9, .step = 77, .first = 8};

}  // namespace pipesim::exec::parity
