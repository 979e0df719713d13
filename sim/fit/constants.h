// The constants of a cluster and its software that an iteration's time or its peak of memory can
// tell: how to move them, how far they are usually off, and how a cluster's file writes them.
//
// Each is one number: the logarithm of a factor on one or several values of a file that belong
// together, or what is added to a value, in units of its own. Pure functions; any thread.
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
  efficiency,           // of products
  elementwise_traffic,  // of norms, activations, additions
  host,                 // the least that a layer takes
  host_peers,           // and what tensor parallelism adds to that
  p2p_overhead,         // of a message between stages
  network,              // the share of cards that exchanges between nodes reach
  collectives,          // the rates of exchanges within a node
  activation_memory,    // bytes of activations and workspace
  state_bytes,          // kept of a parameter beside the usual
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
// By how much it is usually off where nobody measured.
double usual_spread(Constant constant);

// Whether the cluster has some of it: what is 0 no factor changes.
bool has(const Cluster& cluster, Constant constant);
// How far it may move, 0 between: by factors of 10, but shares stay at 1 or below, and what is
// added to leaves the value 0 or above.
struct Range {
  double least = 0;
  double most = 0;
};
Range range_of(const Cluster& cluster, Constant constant);
void move(Constant constant, double by, Cluster& cluster);

// What a file of a cluster says of it.
struct ConstantEntry {
  enum class Section : std::uint8_t { software, node, network };

  Section section;
  std::string key;
  Json value;
  std::string text;  // for people; empty where the value is a list
};
std::vector<ConstantEntry> entries_of(const Cluster& cluster, Constant constant);

}  // namespace pipesim
