// Training software as cost models see it: what it takes of the processor that launches kernels,
// how much of a device's rates its kernels reach, what it runs side by side, what it keeps.
//
// A device's file says what is usual there; a preset or a file of one's own replaces all of that
// (FORMAT.md, "pipesim-software"), with values for single devices where they differ. Plain values;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/json_reader.h"

namespace pipesim {

struct DeviceSpec;

// What a processor that launches kernels needs, whatever the device does.
struct HostFloor {
  std::int64_t forward_ns = 0;   // the least that a layer's forward takes
  std::int64_t backward_ns = 0;  // and its backward
  // On top of either with tensor parallelism, and for each further rank of it.
  std::int64_t peers_ns = 0;
  std::int64_t peer_ns = 0;
  // The same again, where the ranks of a pipeline are on several nodes.
  std::int64_t far_peers_ns = 0;
  std::int64_t far_peer_ns = 0;
};

// Of what a node's cards give, exchanges over so many nodes reach a part; of all-gathers,
// reduce-scatters and all-to-alls another.
struct NetworkShare {
  std::int64_t nodes = 0;
  double share = 1;
  std::optional<double> gather_share;
};

inline constexpr double most_state_bytes = 64;

// What is hidden is a part, 0 to 1, of what could be.
struct SoftwareSpec {
  std::string name;   // "megatron-core"; empty where a device's file says all
  std::string title;  // for people

  double efficiency = 1;  // of products' and fused attention's rates, on the device's share
  double attention_efficiency = 1;  // of fused attention's, on top of that
  double fp8_efficiency = 1;        // of 8-bit products', likewise
  double elementwise_traffic = 1;   // bytes of norms, activations, additions, against those counted
  double loss_traffic = 1;          // bytes of the cross entropy, likewise
  double optimizer_traffic = 1;     // bytes of an optimizer's step, likewise
  std::int64_t kernel_gap_ns = 0;   // between one kernel's end and the next one's start
  HostFloor host;
  std::int64_t p2p_overhead_ns = 0;       // of the sender's compute, for each send
  std::int64_t compute_slowdown_ppm = 0;  // by how much compute takes longer beside a transfer

  // Of tensor-parallel exchanges: a whole backward's reductions by weight gradients; of what is
  // left, forward and backward, by the products that read or make what is exchanged.
  double hidden_reduction = 0;
  double hidden_exchange = 0;
  // What replicas do next to compute where nobody says: they reduce gradients in buckets of so
  // many parameters, more with many replicas, 0 for at once, behind all backwards; and gather new
  // weights next to the forwards that use them.
  std::int64_t bucket_parameters = 0;
  std::int64_t bucket_parameters_per_replica = 0;
  bool gathers_ahead = false;
  double gather_share = 1;  // of the node's cards that gathers of sharded weights reach
  // By ascending nodes, between two of them what lies between; all where empty. A cluster's own
  // measured rates go before.
  std::vector<NetworkShare> network;

  bool gathers_fp8 = false;  // what 8-bit products read goes between tensor-parallel ranks as such
  std::int64_t logit_bytes = 4;        // kept of each logit for the backward
  std::int64_t split_logit_bytes = 0;  // on top where tensor-parallel ranks split the vocabulary
  double state_bytes = 0;              // of a parameter, beside weight, gradient and optimizer
  double activation_memory = 1;        // of activations and workspace, against what is counted
  std::int64_t reserved_bytes = 0;     // of a device's memory, whatever is trained
  bool keeps_placeholders = false;     // of a block's gradients, as large as its weights
  bool keeps_both_gradients = false;   // those as wide as weights beside wider sums of them
  bool keeps_gathered = false;  // inputs that sequence parallelism gathers stay to the backward
  bool gathers_again = true;    // and are gathered again for gradients of their weights
  bool deals_by_cost = false;   // layers to stages by their FLOPs, the head like any other

  std::vector<std::string> unverified;  // keys
};

// The presets' names, sorted.
std::vector<std::string> known_software();
// A preset's file as it is written, sources included.
std::string_view software_preset(const std::string& name);

// A preset's name or a file, of this device. Errors speak of --software.
SoftwareSpec find_software(const std::string& name_or_file, const std::string& device);
// `file` names the text in errors.
SoftwareSpec parse_software(std::string_view text, const std::string& file,
                            const std::string& device);

// The section `software` of a device's file: values onto those that are there, or onto a preset,
// its `base`; or a whole "pipesim-software".
void read_software(const JsonCursor& object, const std::string& device, SoftwareSpec& software);

}  // namespace pipesim
