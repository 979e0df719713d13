#include "sim/cost/estimate/collective_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// How often a ring passes the whole over each link.
double passes(CollectiveKind kind, std::int64_t ranks) {
  const double once = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return kind == CollectiveKind::all_reduce ? 2 * once : once;
}

// Of the group in the node with the fewest, among the nodes at the ends and those between.
std::int64_t members_in_node(const Cluster& cluster, const RankGroup& group) {
  const std::int64_t per_node = cluster.devices_per_node;
  const std::int64_t nodes_between = group.last() / per_node - group.first / per_node;
  const std::int64_t at_first = (per_node - 1 - group.first % per_node) / group.stride + 1;
  const std::int64_t at_last = group.last() % per_node / group.stride + 1;
  const std::int64_t between = std::max<std::int64_t>(1, per_node / group.stride);
  return std::min({at_first, at_last, nodes_between > 1 ? between : at_first, group.count});
}

const BusRate& bus_rate(const Cluster& cluster, std::int64_t ranks) {
  const auto& known = cluster.node.collectives;
  const BusRate* best = &known.front();
  for (const BusRate& rate : known) {
    if (rate.ranks <= ranks) best = &rate;
  }
  return *best;
}

double bytes_per_second(const BusRate& rate, CollectiveKind kind) {
  const bool is_sum = kind == CollectiveKind::all_reduce;
  return static_cast<double>(is_sum ? rate.bytes_per_second
                                    : rate.gather_bytes_per_second.value_or(rate.bytes_per_second));
}

// An all-reduce is a reduce-scatter and an all-gather.
double share_of_latency(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce ? 1 : 0.5;
}

Exchange within_node(const Cluster& cluster, std::int64_t ranks, CollectiveKind kind,
                     double bytes) {
  const BusRate& rate = bus_rate(cluster, ranks);
  return {static_cast<double>(rate.latency_ns) * 1e-9 * share_of_latency(kind),
          passes(kind, ranks) * bytes, bytes_per_second(rate, kind), false};
}

// One step per node on a ring, or up and down a tree of nodes.
double network_latency(const Cluster& cluster, std::int64_t nodes, CollectiveKind kind) {
  const double step = static_cast<double>(cluster.network.latency_ns) * 1e-9;
  const double ring =
      (kind == CollectiveKind::all_reduce ? 2 : 1) * (static_cast<double>(nodes) - 1);
  if (kind != CollectiveKind::all_reduce) return step * ring;
  return step * std::min(ring, 2 * std::ceil(std::log2(static_cast<double>(nodes))));
}

// Interpolates a value for so many nodes, by the logarithm of their number; outside of the known
// numbers it is the nearest one's.
template <typename Known, typename Value>
double between(const std::vector<Known>& known, std::int64_t nodes, Value value) {
  const auto above = std::ranges::lower_bound(known, nodes, {}, &Known::nodes);
  if (above == known.begin()) return value(known.front());
  if (above == known.end()) return value(known.back());
  const Known& below = *std::prev(above);
  const auto log = [](std::int64_t count) { return std::log2(static_cast<double>(count)); };
  const double part = (log(nodes) - log(below.nodes)) / (log(above->nodes) - log(below.nodes));
  return value(below) + part * (value(*above) - value(below));
}

// One device's rate between so many nodes when all send.
double network_rate(const Cluster& cluster, std::int64_t nodes, CollectiveKind kind) {
  const bool is_sum = kind == CollectiveKind::all_reduce;
  if (!cluster.network.collectives.empty()) {
    return between(cluster.network.collectives, nodes,
                   [&](const NetworkRate& one) {
                     return static_cast<double>(
                         is_sum ? one.bytes_per_second
                                : one.gather_bytes_per_second.value_or(one.bytes_per_second));
                   }) /
           cluster.whole_node.value_or(cluster.devices_per_node);
  }
  const std::vector<NetworkShare>& shares = cluster.device.software.network;
  if (shares.empty()) return card_bytes_per_second(cluster);
  return card_bytes_per_second(cluster) * between(shares, nodes, [&](const NetworkShare& one) {
           return is_sum ? one.share : one.gather_share.value_or(one.share);
         });
}

// Bytes that a rank sends to others of its node and to other nodes.
struct BothWays {
  double within = 0;
  double beyond = 0;
};

// Of an exchange on links and network at once, for a group that leaves its node.
Exchange slower_way(const Cluster& cluster, const RankGroup& group, const BothWays& bytes) {
  constexpr CollectiveKind kind = CollectiveKind::all_to_all;
  const std::int64_t per_node = cluster.devices_per_node;
  const std::int64_t local = members_in_node(cluster, group);
  const std::int64_t nodes = group.last() / per_node - group.first / per_node + 1;
  Exchange out{network_latency(cluster, std::min(nodes, group.count), kind), bytes.beyond,
               network_rate(cluster, std::min(nodes, group.count), kind), true};
  if (local == 1) return out;
  const BusRate& bus = bus_rate(cluster, local);
  out.latency_seconds += 2 * static_cast<double>(bus.latency_ns) * 1e-9 * share_of_latency(kind);
  const double inside = bytes_per_second(bus, kind);
  if (bytes.within / inside <= out.bytes / out.bytes_per_second) return out;
  out.bytes = bytes.within;
  out.bytes_per_second = inside;
  return out;
}

Exchange exchange_of_one(const Cluster& cluster, const RankGroup& group, CollectiveKind kind,
                         double bytes) {
  const std::int64_t per_node = cluster.devices_per_node;
  const std::int64_t nodes_between = group.last() / per_node - group.first / per_node;
  if (nodes_between == 0) return within_node(cluster, group.count, kind, bytes);
  if (cluster.network.cards_per_node == 0) {
    throw input_error(fmt::format(
        "{} has no network, but devices {} and {} exchange data; use at most the {} of a node, or "
        "describe its network",
        cluster.name, group.first, group.last(), plural(per_node, "device")));
  }
  const std::int64_t local = members_in_node(cluster, group);
  const std::int64_t nodes = std::min(nodes_between + 1, group.count);
  if (kind == CollectiveKind::all_to_all) {
    const double each = bytes / static_cast<double>(group.count);
    return slower_way(
        cluster, group,
        {each * static_cast<double>(local - 1), each * static_cast<double>(group.count - local)});
  }
  // As many rings as the node with the fewest members has.
  Exchange result;
  result.leaves_node = true;
  // Rings through every local rank share the load of the node's cards.
  result.bytes = passes(kind, group.count) * bytes / static_cast<double>(local);
  result.bytes_per_second = network_rate(cluster, nodes, kind);
  const bool is_crowded = !cluster.network.rail_aligned && local > 1 && group.stride > 1;
  if (is_crowded) {
    // Groups with several members in a node all choose the same card; a lone member uses the
    // nearest one.
    const double one_card = static_cast<double>(cluster.network.card_bytes_per_second) *
                            cluster.network.share / cluster.network.oversubscription;
    result.bytes_per_second =
        std::min(result.bytes_per_second, one_card / static_cast<double>(group.stride * local));
  }
  result.latency_seconds = network_latency(cluster, nodes, kind);
  if (local > 1) {
    const BusRate& inside = bus_rate(cluster, local);
    result.bytes_per_second = std::min(result.bytes_per_second,
                                       bytes_per_second(inside, kind) / static_cast<double>(local));
    result.latency_seconds +=
        2 * static_cast<double>(inside.latency_ns) * 1e-9 * share_of_latency(kind);
  }
  return result;
}

}  // namespace

double card_bytes_per_second(const Cluster& cluster) {
  const Network& network = cluster.network;
  return static_cast<double>(network.cards_per_node) *
         static_cast<double>(network.card_bytes_per_second) * network.share /
         network.oversubscription / cluster.devices_per_node;
}

Exchange deduplicated_exchange(const Cluster& cluster, Group group, const Model& model,
                               double bytes) {
  const std::int64_t ranks = group.devices.count;
  if (ranks == 1) return {};
  const double of_tokens = bytes / static_cast<double>(model.experts_per_token);
  const auto sent = [&](std::int64_t places) {
    double reached = distinct_groups(model.experts, model.experts_per_token, places);
    if (model.groups_per_token > 0) {
      const std::int64_t of_each = std::max<std::int64_t>(1, places / model.expert_groups);
      reached = std::min(reached, static_cast<double>(model.groups_per_token * of_each));
    }
    return of_tokens * reached;
  };
  const auto others = [](std::int64_t of) {
    return static_cast<double>(of - 1) / static_cast<double>(of);
  };
  const std::int64_t local = members_in_node(cluster, group.devices);
  const std::int64_t nodes = ranks / local;
  const double within = sent(ranks) * others(local);
  if (nodes > 1) {
    return slower_way(cluster, group.devices, {within, sent(nodes) * others(nodes)});
  }
  Exchange one = exchange(cluster, group, CollectiveKind::all_to_all, bytes);
  one.bytes = within;
  return one;
}

Exchange exchange(const Cluster& cluster, Group group, CollectiveKind kind, double bytes) {
  if (group.devices.count == 1) return {};
  // A group that leaves its node counts as slower than one that does not, for any latencies.
  const auto slowness = [](const Exchange& one) {
    return std::pair(one.leaves_node, one.bytes / one.bytes_per_second);
  };
  Exchange slowest = exchange_of_one(cluster, group.devices, kind, bytes);
  // After so many groups their pattern over nodes repeats.
  const std::int64_t count = std::min<std::int64_t>(group.alike, cluster.devices_per_node);
  for (std::int64_t i = 1; i < count; ++i) {
    group.devices.first += group.apart;
    const Exchange next = exchange_of_one(cluster, group.devices, kind, bytes);
    if (slowness(next) > slowness(slowest)) slowest = next;
  }
  return slowest;
}

}  // namespace pipesim
