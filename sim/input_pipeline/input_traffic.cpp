#include "sim/input_pipeline/input_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/cost/estimate/rounding.h"
#include "traces/base/text.h"

namespace pipesim {

InputNetwork::InputNetwork(const Cluster& cluster, int ranks) : cluster_(cluster) {
  require_devices(cluster, ranks, fmt::format("{} need as many devices", plural(ranks, "rank")));
  places_.resize(static_cast<std::size_t>(ranks));
  const std::int64_t per_node = cluster.devices_per_node;
  const bool has_network = ranks > per_node;
  if (has_network) across_rate_ = card_bytes_per_second(cluster);
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> cards;  // by node and index there
  for (int rank = 0; rank < ranks; ++rank) {
    Place& place = places_[static_cast<std::size_t>(rank)];
    place.host = add_link(fmt::format("host of rank {}", rank),
                          static_cast<double>(cluster.device.host_bytes_per_second));
    if (node_size(rank) > 1) {
      const RankGroup node{node_begin(rank), 1, node_size(rank)};
      place.inside_rate = exchange(cluster, {node}, CollectiveKind::all_to_all, 1).bytes_per_second;
      place.inside = add_link(fmt::format("rank {} in its node", rank), place.inside_rate);
    }
    if (!has_network) continue;
    // Several cards of one device count as one.
    const std::int64_t count = std::min(cluster.network.cards_per_node, per_node);
    const std::pair where{rank / per_node, rank % per_node * count / per_node};
    const auto [card, is_new] = cards.emplace(where, 0);
    if (is_new) {
      card->second =
          add_link(fmt::format("node {} card {}", where.first, where.second),
                   across_rate_ * static_cast<double>(per_node) / static_cast<double>(count));
    }
    place.card = card->second;
  }
}

int InputNetwork::node_size(int rank) const {
  return std::min(cluster_.devices_per_node, ranks() - node_begin(rank));
}

std::uint32_t InputNetwork::add_link(std::string name, double bytes_per_second) {
  links_.push_back({std::move(name), std::max<std::int64_t>(1, std::llround(bytes_per_second))});
  return static_cast<std::uint32_t>(links_.size() - 1);
}

InputTraffic::InputTraffic(const InputNetwork& network)
    : network_(network), loads_(static_cast<std::size_t>(network.ranks())) {}

void InputTraffic::all_to_all(int times) {
  const RankGroup all{0, 1, network_.ranks()};
  const double latency =
      exchange(network_.cluster(), {all}, CollectiveKind::all_to_all, 1).latency_seconds;
  for (Load& load : loads_) load.latency_seconds += latency * times;
}

void InputTraffic::send_to_each(int rank, double bytes) {
  for (int other = 0; other < network_.ranks(); ++other) pass(rank, other, bytes);
}

void InputTraffic::get_from_each(int rank, double bytes) {
  for (int other = 0; other < network_.ranks(); ++other) pass(other, rank, bytes);
}

void InputTraffic::pass(int sender, int receiver, double bytes) {
  if (sender == receiver) return;
  Load& from = loads_[static_cast<std::size_t>(sender)];
  Load& to = loads_[static_cast<std::size_t>(receiver)];
  const bool is_inside = network_.node_begin(sender) == network_.node_begin(receiver);
  (is_inside ? from.sent_inside : from.sent_across) += bytes;
  (is_inside ? to.got_inside : to.got_across) += bytes;
}

void InputTraffic::add(int begin, int count, CollectiveKind kind, double bytes) {
  if (count == 1) return;
  const Exchange one = exchange(network_.cluster(), {RankGroup{begin, 1, count}}, kind, bytes);
  for (int rank = begin; rank < begin + count; ++rank) {
    Load& load = loads_[static_cast<std::size_t>(rank)];
    load.latency_seconds += one.latency_seconds;
    // If this kind has another rate than its link, the number of bytes that take as long there.
    const double rate = one.leaves_node ? network_.across_rate() : network_.inside_rate(rank);
    const double counted = one.bytes * rate / one.bytes_per_second;
    (one.leaves_node ? load.sent_across : load.sent_inside) += counted;
    (one.leaves_node ? load.got_across : load.got_inside) += counted;
  }
}

void InputTraffic::collective(CollectiveKind kind, double bytes, int parts) {
  add(0, network_.ranks(), kind, bytes);
  if (parts == 1 || network_.ranks() == 1) return;
  // Each further part has its own latency.
  const RankGroup all{0, 1, network_.ranks()};
  const double latency = exchange(network_.cluster(), {all}, kind, 0).latency_seconds;
  for (Load& load : loads_) load.latency_seconds += latency * (parts - 1);
}

void InputTraffic::collective_in_node(int node_begin, CollectiveKind kind, double bytes) {
  add(node_begin, network_.node_size(node_begin), kind, bytes);
}

void InputTraffic::pass_nodes(int node_begin, double bytes, double Load::*of_node,
                              double Load::*of_others) {
  const int size = network_.node_size(node_begin);
  const double others = network_.ranks() - size;
  for (int rank = 0; rank < network_.ranks(); ++rank) {
    const bool is_inside = network_.node_begin(rank) == node_begin;
    Load& load = loads_[static_cast<std::size_t>(rank)];
    if (is_inside) {
      load.*of_node += bytes * others / size;
    } else {
      load.*of_others += bytes;
    }
  }
}

void InputTraffic::send_out_of_node(int node_begin, double bytes) {
  pass_nodes(node_begin, bytes, &Load::sent_across, &Load::got_across);
}

void InputTraffic::get_into_node(int node_begin, double bytes) {
  pass_nodes(node_begin, bytes, &Load::got_across, &Load::sent_across);
}

InputWork InputTraffic::work(int rank) const {
  const Load& load = loads_[static_cast<std::size_t>(rank)];
  InputWork work;
  work.duration_ns = to_ns(load.latency_seconds);
  const double inside = std::max(load.sent_inside, load.got_inside);
  const double across = std::max(load.sent_across, load.got_across);
  const double inside_seconds = inside > 0 ? inside / network_.inside_rate(rank) : 0;
  const double across_seconds = across > 0 ? across / network_.across_rate() : 0;
  if (inside_seconds + across_seconds == 0) return work;
  const bool leaves = across_seconds > inside_seconds;
  work.bytes = to_bytes(leaves ? across : inside);
  work.links = {leaves ? network_.card_link(rank) : network_.inside_link(rank)};
  return work;
}

}  // namespace pipesim
