// A cluster: nodes of identical devices, the links within a node and between nodes.
//
// Ranks fill nodes in order: rank r is device r mod N of node r / N, N being the devices per node
// that a job gets: all of them, or a partition.
// Files and presets: FORMAT.md, "pipesim-cluster"; a file may name a preset as its base and give
// only what differs. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/device.h"

namespace pipesim {

// The rate that collectives of `ranks` devices of one node reach: an all-reduce of n bytes over r
// of them takes 2 (r-1)/r n / bus rate + latency.
struct BusRate {
  int ranks = 0;
  std::int64_t bytes_per_second = 0;
  std::int64_t latency_ns = 0;
  // For all-gathers, reduce-scatters and all-to-alls; the same if absent.
  std::optional<std::int64_t> gather_bytes_per_second;
};

struct NodeLinks {
  std::vector<BusRate> collectives;  // by ascending ranks; in between the lower one
  std::int64_t p2p_bytes_per_second = 0;
  std::int64_t p2p_latency_ns = 0;
};

// The rate that collectives over `nodes` nodes reach if all their devices take part: the bus rate
// of one, as in BusRate, which its devices share.
struct NetworkRate {
  std::int64_t nodes = 0;
  std::int64_t bytes_per_second = 0;
  std::optional<std::int64_t> gather_bytes_per_second;
};

struct Network {
  std::int64_t cards_per_node = 0;
  std::int64_t card_bytes_per_second = 0;  // one way
  double share = 1;                        // the share of a card's rate that messages reach
  std::int64_t latency_ns = 0;
  // Device i of every node reaches the others' device i by a card and switch of its own, or shared
  // with its neighbours; else groups with several members in a node all use one card.
  bool rail_aligned = true;
  // The factor by which a node's rate through the switches is below that of its cards.
  double oversubscription = 1;
  // By ascending nodes, interpolated between entries; if empty, what cards reach.
  std::vector<NetworkRate> collectives;
};

// What devices reach less of when many train together. Of software that lists its kernels.
struct Losses {
  // The most power that a device may take, in watts; absent: as much as where it was measured.
  std::optional<double> watts;
  // Of the rate of products and attention that a device sustains alone, what several in a node do:
  // exchanges take multiprocessors, heat adds up, the slowest device counts.
  double node = 1;
  // Of their time, what each doubling of nodes adds.
  double per_doubling = 0;
};

// The band around a prediction that four of five measured runs are within.
struct ErrorBand {
  double fraction = 0;
  std::vector<std::string> sets;
  std::int64_t rows = 0;
  std::optional<std::int64_t> held;  // of the rows, by a band that was made without their model
};

struct Cluster {
  std::string name;
  std::string title;
  DeviceSpec device;
  int devices_per_node = 1;  // that a job gets
  // If those are a part of a node's, the node's. Cards are counted for the part; rates of the
  // network that were measured are the whole node's.
  std::optional<int> whole_node;
  std::optional<std::int64_t> nodes;  // absent: as many as are asked for
  NodeLinks node;                     // none if a node has one device
  Network network;                    // cards_per_node 0: a single node
  Losses losses;
  std::optional<ErrorBand> error_band;  // of runs fitted for it
  std::vector<std::string> unverified;  // keys, without the device's
};

// What products and attention keep of the rate that one device sustains, if so many train together.
double pace_of(const Cluster& cluster, std::int64_t devices);

// Throws an input error if a cluster has fewer devices, or no network between those of several
// nodes. `in_words` says what they are for: "4 pipeline ranks are 4 devices".
void require_devices(const Cluster& cluster, std::int64_t devices, std::string_view in_words);

// The presets' names, sorted.
std::vector<std::string> known_devices();
std::vector<std::string> known_clusters();

// `file` names the text in errors.
DeviceSpec parse_device(std::string_view text, const std::string& file);
Cluster parse_cluster(std::string_view text, const std::string& file);

// A preset's name, or a file: a name that ends in .json or has a slash.
DeviceSpec find_device(const std::string& name_or_file);
Cluster find_cluster(const std::string& name_or_file);

// A preset's file as written, sources included.
std::string_view device_preset(const std::string& name);
std::string_view cluster_preset(const std::string& name);

}  // namespace pipesim
