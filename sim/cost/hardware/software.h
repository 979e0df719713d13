// Training software as cost models see it: its time on the processor that launches kernels, the
// share of a device's rates that its kernels reach, what it runs concurrently, what it keeps.
//
// A device's file has the usual values; a preset or the user's own file replaces all of them
// (FORMAT.md, "pipesim-software"), with values for single devices if they differ. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/kernel_list.h"
#include "traces/base/json_reader.h"

namespace pipesim {

struct DeviceSpec;

// The time that the processor needs to launch kernels, whatever the device does.
struct HostFloor {
  std::int64_t forward_ns = 0;   // the least time of a layer's forward
  std::int64_t backward_ns = 0;  // and its backward
  // Added to either with tensor parallelism, and for each further rank of it.
  std::int64_t peers_ns = 0;
  std::int64_t peer_ns = 0;
  // Added again if the ranks of a pipeline are on several nodes.
  std::int64_t far_peers_ns = 0;
  std::int64_t far_peer_ns = 0;
};

// The share of a node's cards' rate that exchanges over `nodes` nodes reach, and that all-gathers,
// reduce-scatters and all-to-alls do.
struct NetworkShare {
  std::int64_t nodes = 0;
  double share = 1;
  std::optional<double> gather_share;
};

inline constexpr double max_state_bytes = 64;

// A hidden amount is a share, 0 to 1, of what could be hidden.
struct SoftwareSpec {
  std::string name;     // "megatron-core"; empty if a device's file gives all values
  std::string title;    // for display
  bool is_own = false;  // no published run is of it: a file's, whatever it is called

  double efficiency = 1;      // of products' and fused attention's rates, on the device's share
  double fp8_efficiency = 1;  // of 8-bit products', on top of that
  double elementwise_traffic = 1;  // relative bytes of norms, activations, additions
  std::int64_t kernel_gap_ns = 0;  // between one kernel's end and the next one's start
  HostFloor host;
  std::int64_t p2p_overhead_ns = 0;       // of the sender's compute, for each send
  std::int64_t compute_slowdown_ppm = 0;  // by how much a concurrent transfer slows compute

  // The hidden share of tensor-parallel exchanges: reductions of a full backward, by weight
  // gradients; of the rest, forward and backward, by the products that read or produce what is
  // exchanged.
  double hidden_reduction = 0;
  double hidden_exchange = 0;
  // What replicas do concurrently with compute by default: they reduce gradients in buckets of so
  // many parameters, more with many replicas (0: all at once, after all backwards), and gather new
  // weights during the forwards that use them.
  std::int64_t bucket_parameters = 0;
  std::int64_t bucket_parameters_per_replica = 0;
  bool gathers_ahead = false;
  double gather_share = 1;  // the share of the node's cards that gathers of sharded weights reach
  // By ascending nodes, interpolated between entries; the full rate if empty. A cluster's own
  // measured rates take precedence.
  std::vector<NetworkShare> network;

  // Of measured runs with a pipeline over several nodes, those that took more than twice as long as
  // predicted.
  double stalls_over_nodes = 0;

  bool gathers_fp8 = false;            // exchanges 8-bit inputs of products as 8 bits
  std::int64_t logit_bytes = 4;        // kept per logit for the backward
  std::int64_t split_logit_bytes = 0;  // more if tensor-parallel ranks split the vocabulary
  double state_bytes = 0;              // per parameter, besides weight, gradient and optimizer
  double activation_memory = 1;        // of activations and workspace, relative to what is counted
  std::int64_t reserved_bytes = 0;     // of a device's memory, whatever the model
  bool keeps_placeholders = false;     // of a block's gradients, as large as its weights
  bool keeps_both_gradients = false;   // gradients as wide as weights besides their wider sums
  bool keeps_gathered = false;  // inputs gathered by sequence parallelism are kept for the backward
  bool gathers_again = true;    // they are gathered again for weight gradients
  bool weighs_outputs = false;  // multiplies experts' outputs, which it keeps, by their weights
  bool deals_by_cost = false;   // distributes layers to stages by FLOPs, the head like any other

  // Replaces what is counted of kernels that move bytes and of what is kept, and the device's rates
  // by its rates by kernel. The factors above apply to these.
  std::optional<KernelList> kernels;
  // What changes that if weights and gradients are bf16: keys of such a list, the base's first.
  struct Written {
    JsonValue json;
    std::string file, path;
  };
  std::vector<Written> bf16_weights;

  std::vector<std::string> unverified;  // keys
};

// The presets' names, sorted.
std::vector<std::string> known_software();
// A preset's file as it is written, sources included.
std::string_view software_preset(const std::string& name);

// A preset's name or a file, of this device. Errors speak of --software.
SoftwareSpec find_software(const std::string& name_or_file, const std::string& device);
// The same with weights and gradients in bf16, where it can have wider ones; or an error that names
// --weights.
SoftwareSpec with_bf16_weights(SoftwareSpec software);
// `file` names the text in errors.
SoftwareSpec parse_software(std::string_view text, const std::string& file,
                            const std::string& device);

// The section `software` of a device's file: values that change the present ones or those of a
// preset, its `base`; or a complete "pipesim-software".
void read_software(const JsonCursor& object, const std::string& device, SoftwareSpec& software);

}  // namespace pipesim
