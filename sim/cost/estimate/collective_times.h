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

// Devices that exchange data; one stands for all. Of several groups that do the same at
// the same time, each `apart` devices behind the one before, the slowest.
struct Group {
  RankGroup devices;
  std::int64_t alike = 1;
  std::int64_t apart = 1;
};

// A collective as one rank's links see it.
struct Exchange {
  double latency_seconds = 0;
  double bytes = 0;             // that the narrowest link carries, for this rank
  double bytes_per_second = 0;  // of that link, alone; 0 where there is nothing to carry
  bool leaves_node = false;     // through the node's cards

  double seconds() const { return latency_seconds + (bytes > 0 ? bytes / bytes_per_second : 0); }
};

// Throws where the group leaves its node and there is no network.
// `bytes`: of the whole result that is reduced or gathered, on one rank.
Exchange exchange(const Cluster& cluster, Group group, CollectiveKind kind, double bytes);

// What one device gets through the cards of its node when all its devices send.
double card_bytes_per_second(const Cluster& cluster);

}  // namespace pipesim
