// A device as cost models see it: what it can do at most, and how much of
// that is reached.
//
// Physical numbers come from data sheets, reached shares from measurements;
// every number of a preset stands in its file with its source (FORMAT.md,
// "pipesim-device"). Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

// What matrix products take as input; vectors and stored values of the 8-bit
// one have 16 bits.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
inline constexpr int precision_count = 5;

std::string_view precision_name(Precision precision);
// By that name, or an input error of `where` that lists the known ones.
Precision parse_precision(std::string_view name, std::string_view where);
// Bytes of a stored value.
constexpr std::int64_t bytes_of(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

// A block of the result of a matrix product that one multiprocessor works on.
struct Tile {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  double efficiency = 1;  // of the best tile's rate
};

// How much of the peak matrix products reach, by their shape.
struct MatmulRate {
  double peak_share = 1;        // with the best tile, many waves and a long inner dimension
  std::int64_t ramp = 0;        // what starting a tile takes, in steps of the inner dimension
  double whole_waves = 0;       // how much a part of a wave counts as a whole one, 0 to 1
  double accumulation = 1;      // how much longer a product added onto fp32 takes
  std::vector<Tile> tiles{{}};  // the fastest one is taken; {0, 0}: any shape fits
};

// What a processor that launches kernels needs, whatever the device does.
struct HostFloor {
  std::int64_t forward_ns = 0;   // the least that a layer's forward takes
  std::int64_t backward_ns = 0;  // and its backward
  std::int64_t peer_ns = 0;      // on top of either, for each further tensor-parallel rank
};

struct DeviceSpec {
  std::string name;   // "a100-sxm-80gb"
  std::string title;  // for people
  // Operations a second, dense; nothing where the device has no such unit.
  std::array<std::optional<double>, precision_count> flops_per_second{};
  std::int64_t memory_bytes = 0;
  std::int64_t memory_bytes_per_second = 0;
  std::int64_t multiprocessors = 1;
  // Of copies from host memory: where nothing is said, what PCIe 4.0 x16 reaches.
  std::int64_t host_bytes_per_second = 25'000'000'000;
  std::int64_t host_latency_ns = 0;

  MatmulRate matmul;
  double memory_share = 1;           // of memory's rate that kernels reach
  double attention_traffic = 1;      // bytes of unfused softmax and dropout, against those counted
  double fused_attention_share = 1;  // of the peak that fused attention reaches
  std::int64_t kernel_gap_ns = 0;    // between one kernel's end and the next one's start
  HostFloor host;
  std::int64_t p2p_overhead_ns = 0;  // of the sender's compute, for each send
  // The part of a tensor-parallel reduction that weight gradients hide, where
  // software runs both at once.
  double hidden_reduction = 0;
  // By how much compute takes longer beside a transfer, in millionths.
  std::int64_t compute_slowdown_ppm = 0;

  // The keys whose values are recalled or carried over, not checked.
  std::vector<std::string> unverified;
};

// An input error of --precision where the device has no rate for it, which lists those that it has.
void require_rate(const DeviceSpec& device, Precision precision);

}  // namespace pipesim
