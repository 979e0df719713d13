// The kernels that training software runs besides products and attention, with the bytes that they
// move: a list for people to read and change (FORMAT.md, "pipesim-software", `kernels`).
//
// Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/kernel_rates.h"
#include "sim/cost/model.h"

namespace pipesim {

// What bytes are counted by: the values of a microbatch on a rank that are as wide as the hidden
// state, all heads, keys (or values), or the MLP; logits; and the weights of products.
enum class KernelSize : std::uint8_t { hidden, heads, keys, mlp, logits, weights };
inline constexpr int kernel_size_count = 6;

enum class KernelPass : std::uint8_t { forward, input_gradient, weight_gradient };

// What --recompute names to have a kernel run again.
enum class KernelPart : std::uint8_t { none, norms, activation };

// Bytes for each value of a size.
using KernelBytes = std::array<double, kernel_size_count>;

// Kernels of one kind in one pass of a layer.
struct KernelLine {
  std::string name;
  KernelPass pass = KernelPass::forward;
  Traffic traffic = Traffic::stream;
  int launches = 1;
  KernelBytes bytes{};               // through memory
  KernelBytes kept{};                // for the backward
  KernelBytes workspace{};           // while a backward runs
  std::optional<Architecture> only;  // of these models' blocks alone
  bool is_of_fp8 = false;            // of 8-bit products alone
  KernelPart part = KernelPart::none;
  bool ends_block = false;  // is not run again by what stops early
};

// The time of the processor that launches kernels. The device waits for what that takes longer,
// over all layers of a microbatch, than its own work.
struct HostTimes {
  std::int64_t product_ns = 0;  // for each product
  std::int64_t kernel_ns = 0;   // for each other kernel
  std::int64_t block_ns = 0;    // for a block, besides: for all of it where it is compiled
};

struct KernelList {
  std::string attention;        // the library
  std::string attention_place;  // where that is said, for errors
  // Of a gated model: queries, keys and values apart, gates and ups, too.
  bool splits_products = false;
  bool sums_in_products = false;  // weight gradients are summed in fp32 by their products
  bool stops_early = false;       // recomputes a block without what ends it
  HostTimes host_forward, host_backward;
  std::int64_t host_step_ns = 0;               // of an optimizer's step
  double optimizer_bytes = 0;                  // for each parameter
  std::optional<std::int64_t> optimizer_kept;  // bytes for each; else moments and copies in fp32
  std::int64_t residual_bytes = 2;             // of a value between blocks
  bool keeps_wide_weights = false;             // in fp32, as under autocast, and so are gradients
  bool keeps_wide_gradients = false;
  std::vector<KernelLine> block, head;

  // Whether its lines say what is kept: then nothing else is.
  bool says_kept() const {
    return std::ranges::any_of(block,
                               [](const KernelLine& line) { return line.kept != KernelBytes{}; });
  }
};

}  // namespace pipesim
