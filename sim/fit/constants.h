// The constants of a cluster and its software that an iteration's time can tell: how to scale them,
// how far they are usually off, and how a cluster's file writes them.
//
// Each is one factor on one or several values of a file that belong together. Pure functions; any
// thread.
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
};
inline constexpr std::array all_constants{Constant::efficiency,   Constant::elementwise_traffic,
                                          Constant::host,         Constant::host_peers,
                                          Constant::p2p_overhead, Constant::network,
                                          Constant::collectives};

std::string_view name_of(Constant constant);
// By how much it is usually off where nobody measured, as the logarithm of a factor.
double usual_spread(Constant constant);

// Whether the cluster has some of it: what is 0 no factor changes.
bool has(const Cluster& cluster, Constant constant);
// The largest factor that leaves shares at 1 or below; at most 10.
double most_factor(const Cluster& cluster, Constant constant);
void scale(Constant constant, double factor, Cluster& cluster);

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
