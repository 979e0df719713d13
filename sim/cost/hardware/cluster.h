// A cluster: nodes of like devices, the links within a node and between nodes.
//
// Ranks fill nodes in order: rank r is device r mod N of node r / N, N being
// the devices a node. Files and presets: FORMAT.md, "pipesim-cluster"; a file may
// name a preset as its base and say only what differs. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/hardware/device.h"

namespace pipesim {

// What collectives of so many devices of one node reach: an all-reduce of n
// bytes over r of them takes 2 (r-1)/r n / bus rate + latency.
struct BusRate {
  int ranks = 0;
  std::int64_t bytes_per_second = 0;
  std::int64_t latency_ns = 0;
  // Of all-gathers, reduce-scatters and all-to-alls; the same where absent.
  std::optional<std::int64_t> gather_bytes_per_second;
};

struct NodeLinks {
  std::vector<BusRate> collectives;  // by ascending ranks; between two of them the lower's
  std::int64_t p2p_bytes_per_second = 0;
  std::int64_t p2p_latency_ns = 0;
};

// What collectives over so many nodes reach, all devices of each taking part: the bus rate of
// one, as of BusRate. Every device has its part of it.
struct NetworkRate {
  std::int64_t nodes = 0;
  std::int64_t bytes_per_second = 0;
  std::optional<std::int64_t> gather_bytes_per_second;
};

struct Network {
  std::int64_t cards_per_node = 0;
  std::int64_t card_bytes_per_second = 0;  // one way
  double share = 1;                        // of a card's rate that messages reach
  std::int64_t latency_ns = 0;
  // Device i of every node reaches the others' device i by a card and switch
  // of its own, or of its neighbours, too; else groups with several members in
  // a node all meet on one card.
  bool rail_aligned = true;
  double oversubscription = 1;  // how much less than its cards a node gets through the switches
  // By ascending nodes, between two of them what lies between; what cards reach where empty.
  std::vector<NetworkRate> collectives;
};

// What of measured runs lies within: four of five.
struct ErrorBand {
  double fraction = 0;
  std::vector<std::string> sets;
  std::int64_t rows = 0;
  bool is_of_other_layouts = false;
};

struct Cluster {
  std::string name;
  std::string title;
  DeviceSpec device;
  int devices_per_node = 1;
  std::optional<std::int64_t> nodes;    // as many as are asked for where absent
  NodeLinks node;                       // nothing where a node has one device
  Network network;                      // cards_per_node 0: a single node
  std::optional<ErrorBand> error_band;  // of what was fitted for it
  std::vector<std::string> unverified;  // keys, the device's apart
};

// An input error where a cluster has not so many devices, or no network between those of several
// nodes. `in_words` says whose they are: "4 pipeline ranks are 4 devices".
void require_devices(const Cluster& cluster, std::int64_t devices, std::string_view in_words);

// The presets' names, sorted.
std::vector<std::string> known_devices();
std::vector<std::string> known_clusters();

// `file` names the text in errors.
DeviceSpec parse_device(std::string_view text, const std::string& file);
Cluster parse_cluster(std::string_view text, const std::string& file);

// A preset's name, or a file: what ends in .json or holds a slash.
DeviceSpec find_device(const std::string& name_or_file);
Cluster find_cluster(const std::string& name_or_file);

// A preset's file as it is written, sources included.
std::string_view device_preset(const std::string& name);
std::string_view cluster_preset(const std::string& name);

}  // namespace pipesim
