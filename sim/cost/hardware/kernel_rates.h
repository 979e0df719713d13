// What the kernels of a device reach, as measured one by one: nothing of it depends on the software
// that runs them, but for the library of attention, which has a name.
//
// FORMAT.md, "pipesim-device", `kernels`, has the formulas. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

// Fused attention in one direction: of long sequences, the sequence at which half of that is
// reached, and the time to start.
struct AttentionRate {
  double flops_per_second = 0;
  std::int64_t ramp = 0;
  std::int64_t start_ns = 0;
};

// A library of attention.
struct AttentionRates {
  std::string name;
  AttentionRate forward, backward;
};

// Of what a kernel that moves bytes does with them.
enum class Traffic : std::uint8_t { stream, norm, optimizer };
inline constexpr int traffic_count = 3;
std::string_view traffic_name(Traffic traffic);

struct KernelRates {
  // Of products of 16-bit inputs, with a long inner dimension; the inner dimension at which half
  // of that is reached; how many times that 8-bit inputs reach.
  double product_flops_per_second = 0;
  std::int64_t product_ramp = 0;
  double fp8 = 1;
  // Of the time that a result's bytes take, the part that the product does not hide: of all beyond
  // two per value.
  double epilogue = 0;
  std::int64_t product_start_ns = 0;
  // The clock of products and attention in a training that keeps the device busy, relative to that
  // of single kernels: power sustains no more.
  double sustained = 1;
  double watts = 0;  // the power at which that was measured; 0: not known
  double bytes_per_second[traffic_count] = {};
  std::int64_t start_ns = 0;              // of a kernel that moves bytes
  std::vector<AttentionRates> attention;  // by library
  std::string base;                       // the device of which those not given are, scaled

  // Or an input error at `place` that lists those there are; `device` is its name.
  const AttentionRates& attention_of(const std::string& library, const std::string& device,
                                     std::string_view place) const;
};

}  // namespace pipesim
