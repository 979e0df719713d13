// How long ranks take to exchange data: by group, algorithm and links.
//
// Bandwidth terms are those of the ring (Patarasuk and Yuan, 2009), latency
// that of the ring or the tree, whichever is faster. Pure functions; any
// thread.
#pragma once

#include <cstdint>

#include "sim/cost/estimate/operators.h"
#include "sim/cost/hardware/cluster.h"
#include "traces/mesh.h"

namespace pipesim {

// Devices that exchange data; one represents all. If `alike` groups do the same at the same time,
// each `apart` devices after the previous one, the slowest counts.
struct Group {
  RankGroup devices;
  std::int64_t alike = 1;
  std::int64_t apart = 1;
};

// A collective as one rank's links see it.
struct Exchange {
  double latency_seconds = 0;
  double bytes = 0;             // carried by the narrowest link, for this rank
  double bytes_per_second = 0;  // of that link, uncontended; 0 if it carries nothing
  bool leaves_node = false;     // through the node's cards

  double seconds() const { return latency_seconds + (bytes > 0 ? bytes / bytes_per_second : 0); }
};

// Throws if the group leaves its node and there is no network. `bytes`: of the whole reduced or
// gathered result, on one rank; of an all-to-all what a rank sends, to itself included.
Exchange exchange(const Cluster& cluster, Group group, CollectiveKind kind, double bytes);

// An all-to-all of tokens' copies to the experts that they are routed to, `bytes` in all, of which
// a token's go once to each node that has some of its experts, and there once to each rank.
Exchange deduplicated_exchange(const Cluster& cluster, Group group, const Model& model,
                               double bytes);

// One device's rate through the cards of its node when all its devices send.
double card_bytes_per_second(const Cluster& cluster);

}  // namespace pipesim
