#include "sim/fit/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/base/portable_math.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct ConstantFacts {
  std::string_view name;
  double spread;
};

constexpr std::size_t constant_count = time_constants.size() + memory_constants.size();
constexpr double gibibyte = 1 << 30;

// By Constant.
constexpr std::array<ConstantFacts, constant_count> constant_facts{{
    {"efficiency", 0.15},
    {"elementwise_traffic", 0.4},
    {"host", 0.6},
    {"host_peers", 0.6},
    {"p2p_overhead", 1.0},
    {"network", 0.4},
    {"collectives", 0.2},
    {"activation_memory", 0.25},
    {"state_bytes", 1},
    {"reserved_memory", 2},
}};

// Which values determine how fast nodes exchange: a cluster's own rates, else the software's
// shares, else the cards'.
enum class NetworkSays : std::uint8_t { nothing, rates, shares, cards };

NetworkSays network_says(const Cluster& cluster) {
  if (cluster.network.cards_per_node == 0) return NetworkSays::nothing;
  if (!cluster.network.collectives.empty()) return NetworkSays::rates;
  return cluster.device.software.network.empty() ? NetworkSays::cards : NetworkSays::shares;
}

void scale_count(double factor, std::int64_t& count) {
  count = std::llround(static_cast<double>(count) * factor);
}

// Keeps the rate positive.
void scale_rate(double factor, std::int64_t& bytes_per_second) {
  scale_count(factor, bytes_per_second);
  bytes_per_second = std::clamp<std::int64_t>(bytes_per_second, 1, max_bytes_per_second);
}

void scale_share(double factor, double& share) { share = std::min(1.0, share * factor); }

Json number(double value) { return std::round(value * 1e5) / 1e5; }

Json rate_text(std::int64_t bytes_per_second) { return fmt::format("{}B/s", bytes_per_second); }

ConstantEntry number_entry(ConstantEntry::Section section, std::string key, double value) {
  return {section, std::move(key), number(value), fmt::format("{:.4g}", value)};
}

void add_time(std::string key, std::int64_t ns, std::vector<ConstantEntry>& entries) {
  if (ns == 0) return;
  const std::string written =
      ns % 1000 == 0 ? fmt::format("{}us", ns / 1000) : fmt::format("{}ns", ns);
  entries.push_back({ConstantEntry::Section::software, std::move(key), written, format_time(ns)});
}

ConstantEntry shares_entry(const std::vector<NetworkShare>& shares) {
  Json list = Json::array();
  for (const NetworkShare& one : shares) {
    Json item{{"nodes", one.nodes}, {"share", number(one.share)}};
    if (one.gather_share) item["gather_share"] = number(*one.gather_share);
    list.push_back(std::move(item));
  }
  return {ConstantEntry::Section::software, "network", std::move(list), ""};
}

ConstantEntry rates_entry(const std::vector<NetworkRate>& rates) {
  Json list = Json::array();
  for (const NetworkRate& one : rates) {
    Json item{{"nodes", one.nodes}, {"bandwidth", rate_text(one.bytes_per_second)}};
    if (one.gather_bytes_per_second) {
      item["gather_bandwidth"] = rate_text(*one.gather_bytes_per_second);
    }
    list.push_back(std::move(item));
  }
  return {ConstantEntry::Section::network, "collectives", std::move(list), ""};
}

ConstantEntry bus_entry(const std::vector<BusRate>& rates) {
  Json list = Json::array();
  for (const BusRate& one : rates) {
    Json item{{"ranks", one.ranks}, {"bandwidth", rate_text(one.bytes_per_second)}};
    if (one.gather_bytes_per_second) {
      item["gather_bandwidth"] = rate_text(*one.gather_bytes_per_second);
    }
    item["latency"] = fmt::format("{}ns", one.latency_ns);
    list.push_back(std::move(item));
  }
  return {ConstantEntry::Section::node, "collectives", std::move(list), ""};
}

// The largest factor that keeps shares at 1 or below; at most 10.
double most_factor(const Cluster& cluster, Constant constant) {
  constexpr double most = 10;
  if (constant != Constant::network) return most;
  const NetworkSays says = network_says(cluster);
  if (says == NetworkSays::cards) return std::min(most, 1 / cluster.network.share);
  if (says != NetworkSays::shares) return most;
  double least = 1;
  for (const NetworkShare& one : cluster.device.software.network) {
    least = std::min({least, one.share, one.gather_share.value_or(1)});
  }
  return std::min(most, 1 / least);
}

}  // namespace

std::string_view name_of(Constant constant) {
  return constant_facts[static_cast<std::size_t>(constant)].name;
}

bool is_added(Constant constant) {
  return constant == Constant::state_bytes || constant == Constant::reserved_memory;
}

double usual_spread(Constant constant) {
  return constant_facts[static_cast<std::size_t>(constant)].spread;
}

bool has(const Cluster& cluster, Constant constant) {
  const SoftwareSpec& software = cluster.device.software;
  const HostFloor& host = software.host;
  switch (constant) {
    case Constant::efficiency:
    case Constant::elementwise_traffic:
    case Constant::activation_memory:
    case Constant::state_bytes:
    case Constant::reserved_memory: return true;
    case Constant::host: return host.forward_ns > 0 || host.backward_ns > 0;
    case Constant::host_peers:
      return host.peers_ns > 0 || host.peer_ns > 0 || host.far_peers_ns > 0 || host.far_peer_ns > 0;
    case Constant::p2p_overhead: return software.p2p_overhead_ns > 0;
    case Constant::network: return network_says(cluster) != NetworkSays::nothing;
    case Constant::collectives: return !cluster.node.collectives.empty();
  }
  return false;
}

Range range_of(const Cluster& cluster, Constant constant) {
  const SoftwareSpec& software = cluster.device.software;
  if (constant == Constant::state_bytes) {
    return {-software.state_bytes, max_state_bytes - software.state_bytes};
  }
  if (constant == Constant::reserved_memory) {
    const auto reserved = static_cast<double>(software.reserved_bytes);
    const double all = std::max(reserved, static_cast<double>(cluster.device.memory_bytes));
    return {-reserved / gibibyte, (all - reserved) / gibibyte};
  }
  return {-logarithm(10), logarithm(most_factor(cluster, constant))};
}

void move(Constant constant, double by, Cluster& cluster) {
  SoftwareSpec& software = cluster.device.software;
  HostFloor& host = software.host;
  const double factor = exponential(by);  // if it is one
  switch (constant) {
    case Constant::efficiency: software.efficiency *= factor; break;
    case Constant::elementwise_traffic: software.elementwise_traffic *= factor; break;
    case Constant::host:
      for (std::int64_t* ns : {&host.forward_ns, &host.backward_ns}) scale_count(factor, *ns);
      break;
    case Constant::host_peers:
      for (std::int64_t* ns :
           {&host.peers_ns, &host.peer_ns, &host.far_peers_ns, &host.far_peer_ns}) {
        scale_count(factor, *ns);
      }
      break;
    case Constant::p2p_overhead: scale_count(factor, software.p2p_overhead_ns); break;
    case Constant::network:
      switch (network_says(cluster)) {
        case NetworkSays::nothing: break;
        case NetworkSays::cards: scale_share(factor, cluster.network.share); break;
        case NetworkSays::shares:
          for (NetworkShare& one : software.network) {
            scale_share(factor, one.share);
            if (one.gather_share) scale_share(factor, *one.gather_share);
          }
          break;
        case NetworkSays::rates:
          for (NetworkRate& one : cluster.network.collectives) {
            scale_rate(factor, one.bytes_per_second);
            if (one.gather_bytes_per_second) scale_rate(factor, *one.gather_bytes_per_second);
          }
      }
      break;
    case Constant::collectives:
      for (BusRate& one : cluster.node.collectives) {
        scale_rate(factor, one.bytes_per_second);
        if (one.gather_bytes_per_second) scale_rate(factor, *one.gather_bytes_per_second);
      }
      break;
    case Constant::activation_memory: software.activation_memory *= factor; break;
    case Constant::state_bytes: software.state_bytes += by; break;
    case Constant::reserved_memory: software.reserved_bytes += std::llround(by * gibibyte);
  }
}

std::vector<ConstantEntry> entries_of(const Cluster& cluster, Constant constant) {
  using Section = ConstantEntry::Section;
  const SoftwareSpec& software = cluster.device.software;
  const HostFloor& host = software.host;
  std::vector<ConstantEntry> entries;
  switch (constant) {
    case Constant::efficiency:
      entries.push_back(number_entry(Section::software, "efficiency", software.efficiency));
      break;
    case Constant::elementwise_traffic:
      entries.push_back(
          number_entry(Section::software, "elementwise_traffic", software.elementwise_traffic));
      break;
    case Constant::host:
      add_time("host_forward", host.forward_ns, entries);
      add_time("host_backward", host.backward_ns, entries);
      break;
    case Constant::host_peers:
      add_time("host_peers", host.peers_ns, entries);
      add_time("host_peer", host.peer_ns, entries);
      add_time("host_far_peers", host.far_peers_ns, entries);
      add_time("host_far_peer", host.far_peer_ns, entries);
      break;
    case Constant::p2p_overhead: add_time("p2p_overhead", software.p2p_overhead_ns, entries); break;
    case Constant::network:
      switch (network_says(cluster)) {
        case NetworkSays::nothing: break;
        case NetworkSays::cards:
          entries.push_back(number_entry(Section::network, "share", cluster.network.share));
          break;
        case NetworkSays::shares: entries.push_back(shares_entry(software.network)); break;
        case NetworkSays::rates: entries.push_back(rates_entry(cluster.network.collectives)); break;
      }
      break;
    case Constant::collectives:
      if (!cluster.node.collectives.empty()) entries.push_back(bus_entry(cluster.node.collectives));
      break;
    case Constant::activation_memory:
      entries.push_back(
          number_entry(Section::software, "activation_memory", software.activation_memory));
      break;
    case Constant::state_bytes:
      entries.push_back(number_entry(Section::software, "state_bytes", software.state_bytes));
      break;
    case Constant::reserved_memory:
      entries.push_back({Section::software, "reserved_memory",
                         fmt::format("{}B", software.reserved_bytes),
                         format_bytes(software.reserved_bytes)});
      break;
  }
  return entries;
}

}  // namespace pipesim
