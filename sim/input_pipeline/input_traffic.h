// The links between the ranks of an input pipeline on a cluster, and the traffic of one kind of
// exchange over them. A rank has a link inside its node, at the rate that all-to-alls of the node's
// ranks reach; a network card, shared if there are fewer cards than ranks; and a link to its host.
// Links are full duplex: the busier direction counts. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/input_pipeline/input_costs.h"

namespace pipesim {

// Refers to the cluster, which must outlive it.
class InputNetwork {
 public:
  // Throws an input error if the cluster has fewer devices.
  InputNetwork(const Cluster& cluster, int ranks);

  const Cluster& cluster() const { return cluster_; }
  int ranks() const { return static_cast<int>(places_.size()); }
  const std::vector<InputLink>& links() const { return links_; }

  // The first rank of a rank's node, and the number of ranks in the node.
  int node_begin(int rank) const {
    return rank / cluster_.devices_per_node * cluster_.devices_per_node;
  }
  int node_size(int rank) const;

  std::uint32_t host_link(int rank) const { return place(rank).host; }
  std::uint32_t inside_link(int rank) const { return place(rank).inside; }
  std::uint32_t card_link(int rank) const { return place(rank).card; }
  // The rate of the link inside the node; a rank's rate through a card when all devices of the node
  // send.
  double inside_rate(int rank) const { return place(rank).inside_rate; }
  double across_rate() const { return across_rate_; }

 private:
  struct Place {
    std::uint32_t host = 0;
    std::uint32_t inside = 0;  // if the node has other ranks
    std::uint32_t card = 0;    // if there are other nodes
    double inside_rate = 0;
  };
  const Place& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  std::uint32_t add_link(std::string name, double bytes_per_second);

  const Cluster& cluster_;
  std::vector<InputLink> links_;
  std::vector<Place> places_;  // by rank
  double across_rate_ = 0;
};

// The traffic of an exchange on the links of each rank; consecutive exchanges add up. Refers to the
// network, which must outlive it.
class InputTraffic {
 public:
  explicit InputTraffic(const InputNetwork& network);

  // All ranks exchange bytes `times` times; the next two calls say how many.
  void all_to_all(int times);
  // A rank sends to each of the others, or receives from each of them.
  void send_to_each(int rank, double bytes);
  void get_from_each(int rank, double bytes);

  // A collective of all ranks, in so many parts, or of those of the node that begins there; `bytes`
  // of the whole reduced or gathered result, on one rank.
  void collective(CollectiveKind kind, double bytes, int parts = 1);
  void collective_in_node(int node_begin, CollectiveKind kind, double bytes);

  // Each rank of other nodes receives bytes from a node, whose ranks send equal amounts; or the
  // reverse.
  void send_out_of_node(int node_begin, double bytes);
  void get_into_node(int node_begin, double bytes);

  // By the slower of the two: inside the node, or across nodes.
  InputWork work(int rank) const;

 private:
  struct Load {
    double sent_inside = 0, got_inside = 0;
    double sent_across = 0, got_across = 0;
    double latency_seconds = 0;
  };
  void pass(int sender, int receiver, double bytes);
  void add(int begin, int count, CollectiveKind kind, double bytes);
  void pass_nodes(int node_begin, double bytes, double Load::*of_node, double Load::*of_others);

  const InputNetwork& network_;
  std::vector<Load> loads_;  // by rank
};

}  // namespace pipesim
