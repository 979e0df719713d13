// A device as cost models see it: its peak rates, and the share of them that is reached.
//
// Peak rates come from data sheets, shares from measurements; every number of a preset is in its
// file with its source (FORMAT.md, "pipesim-device"). Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/kernel_rates.h"
#include "sim/cost/hardware/software.h"

namespace pipesim {

// The type of matrix products' inputs; with the 8-bit one, vectors and stored values have 16 bits.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
inline constexpr int precision_count = 5;

std::string_view precision_name(Precision precision);
std::vector<std::string> all_precision_names();
// The precision of that name, or an input error at `where` that lists the known ones.
Precision parse_precision(std::string_view name, std::string_view where);
// Bytes of a stored value.
constexpr std::int64_t bytes_of(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

// A block of a matrix product's result, computed by one multiprocessor.
struct Tile {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double efficiency = 1;  // of the best tile's rate
};

// How much of the peak matrix products reach, by their shape.
struct MatmulRate {
  double peak_share = 1;            // with the best tile, many waves and a long inner dimension
  std::optional<double> fp8_share;  // of the 8-bit peak; the same if absent
  std::int64_t ramp = 0;            // the time to start a tile, in steps of the inner dimension
  double whole_waves = 0;           // how much a partial wave counts as a full one, 0 to 1
  double accumulation = 1;          // how many times as long a product accumulated in fp32 takes
  // How many times as long a product takes if a dimension is not a multiple of 8, or of 64.
  double unaligned_8 = 1;
  double unaligned_64 = 1;
  std::vector<Tile> tiles{{}};  // the fastest one is taken; {0, 0}: any shape fits
};

struct DeviceSpec {
  std::string name;    // "a100-sxm-80gb"
  std::string kind;    // the first preset that it is based on, or is: software has values for it
  std::string preset;  // the last one: measurements are of it
  std::string title;   // for display
  // Operations per second, dense; nothing if the device has no such unit.
  std::array<std::optional<double>, precision_count> flops_per_second{};
  std::int64_t memory_bytes = 0;
  std::int64_t memory_bytes_per_second = 0;
  std::int64_t multiprocessors = 1;
  // Of copies from host memory; the default is what PCIe 4.0 x16 reaches.
  std::int64_t host_bytes_per_second = 25'000'000'000;
  std::int64_t host_latency_ns = 0;

  MatmulRate matmul;
  double memory_share = 1;           // the share of memory's rate that kernels reach
  double attention_traffic = 1;      // relative bytes of unfused softmax and dropout
  double fused_attention_share = 1;  // of the peak, on long sequences
  std::optional<double> fused_attention_backward_share;  // for its backward; the same if absent
  // Measured by kernel, for software that lists its kernels; else scaled from another device's by
  // peak and memory bandwidth (kernels_of()).
  std::optional<KernelRates> kernels;

  SoftwareSpec software;  // the usual one on it, or the one asked for

  // Keys whose values are recalled or carried over, not checked; without the software's.
  std::vector<std::string> unverified;
};

// The peak rate of 16-bit values, or else of wider ones.
double flops_of_values(const DeviceSpec& device);

// The device's own measured rates, or those of an H100 SXM times the ratio of peaks and of memory
// bandwidths.
KernelRates kernels_of(const DeviceSpec& device);

// Throws an input error of --precision if the device has no rate for it; it lists those that exist.
void require_rate(const DeviceSpec& device, Precision precision);

}  // namespace pipesim
