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

#include "sim/cost/hardware/software.h"

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
  double peak_share = 1;            // with the best tile, many waves and a long inner dimension
  std::optional<double> fp8_share;  // of the 8-bit peak; the same where absent
  std::int64_t ramp = 0;            // what starting a tile takes, in steps of the inner dimension
  double whole_waves = 0;           // how much a part of a wave counts as a whole one, 0 to 1
  double accumulation = 1;          // how much longer a product added onto fp32 takes
  // How much longer a product takes of which a dimension is no multiple of 8, or of 64.
  double unaligned_8 = 1;
  double unaligned_64 = 1;
  std::vector<Tile> tiles{{}};  // the fastest one is taken; {0, 0}: any shape fits
};

struct DeviceSpec {
  std::string name;   // "a100-sxm-80gb"
  std::string kind;   // the preset that it is, or is a change of: software has values for it
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
  double fused_attention_share = 1;  // of the peak that fused attention reaches, on long sequences
  std::optional<double> fused_attention_backward_share;  // and its backward; the same where absent
  std::int64_t fused_attention_ramp = 0;  // tokens of a sequence with which it reaches half of that
  // The least that a key takes of a block of queries, which goes through them one after another.
  std::int64_t fused_attention_key_ns = 0;
  double clock_share = 1;  // of the rates of computing, under a cap on power

  SoftwareSpec software;  // what is usual on it, or was asked for

  // The keys whose values are recalled or carried over, not checked; the software's apart.
  std::vector<std::string> unverified;
};

// An input error of --precision where the device has no rate for it, which lists those that it has.
void require_rate(const DeviceSpec& device, Precision precision);

}  // namespace pipesim
