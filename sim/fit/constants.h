// The constants of a cluster and its software that can be fitted to iteration times or peak memory:
// how to move them, how far they are usually off, and how a cluster's file writes them. Each is one
// number: the logarithm of a factor on one or several values of a file that belong together, or an
// amount added to a value, in its own unit. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/cluster.h"
#include "traces/base/json.h"

namespace pipesim {

enum class Constant : std::uint8_t {
  efficiency,           // of GEMMs
  elementwise_traffic,  // of norms, activations, additions
  host,                 // the least time of a layer
  host_peers,           // and its increase with tensor parallelism
  p2p_overhead,         // of a message between stages
  network,              // the share of the cards' rate that exchanges between nodes reach
  collectives,          // the rates of exchanges within a node
  activation_memory,    // bytes of activations and workspace
  state_bytes,          // kept per parameter in addition to the usual
  reserved_memory,      // of a device, whatever it trains
};
inline constexpr std::array time_constants{Constant::efficiency,   Constant::elementwise_traffic,
                                           Constant::host,         Constant::host_peers,
                                           Constant::p2p_overhead, Constant::network,
                                           Constant::collectives};
inline constexpr std::array memory_constants{Constant::activation_memory, Constant::state_bytes,
                                             Constant::reserved_memory};

std::string_view name_of(Constant constant);
// Whether it is added to a value: to `state_bytes` in bytes, to `reserved_memory` in GiB.
bool is_added(Constant constant);
// How far it is usually off without measurement.
double usual_spread(Constant constant);

// Whether the cluster's value can be changed by it: no factor changes 0.
bool has(const Cluster& cluster, Constant constant);
// How far it may move; 0 is within the range: by factors of 10, but shares stay at 1 or below, and
// an added amount keeps the value at 0 or above.
struct Range {
  double least = 0;
  double most = 0;
};
Range range_of(const Cluster& cluster, Constant constant);
void move(Constant constant, double by, Cluster& cluster);

// A cluster file's entry for it.
struct ConstantEntry {
  enum class Section : std::uint8_t { software, node, network };

  Section section;
  std::string key;
  Json value;
  std::string text;  // for display; empty if the value is a list
};
std::vector<ConstantEntry> entries_of(const Cluster& cluster, Constant constant);

}  // namespace pipesim
