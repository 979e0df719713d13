#include "sim/cost/estimate/pipeline_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/replicas.h"
#include "sim/cost/estimate/rounding.h"
#include "sim/schedule/schedule.h"
#include "traces/mesh.h"

namespace pipesim {
namespace {

// The position of a pipeline rank's first device, and its card.
struct DevicePlace {
  std::int64_t node = 0;
  std::int64_t card = 0;
};

enum class CardWay : std::uint8_t { out, in };  // of a card

// Whole bytes per second, at least 1.
std::int64_t to_rate(double bytes_per_second) {
  return std::max<std::int64_t>(1, std::llround(bytes_per_second));
}

class Linker {
 public:
  Linker(const CostModel& model, const Placement& placement, Costs& costs)
      : model_(model),
        cluster_(model.cluster()),
        training_(model.training()),
        mesh_(training_.mesh(placement.ranks())),
        placement_(placement),
        costs_(costs) {}

  void run() {
    for (int stage = 0; stage + 1 < placement_.stages(); ++stage) {
      const int a = placement_.rank_of(stage);
      const int b = placement_.rank_of(stage + 1);
      if (a == b) continue;
      for (int copy = 0; copy < placement_.copies(); ++copy) {
        const int one = placement_.rank_of(stage, copy);
        const int other = placement_.rank_of(stage + 1, copy);
        connect(one, other);
        connect(other, one);
      }
      const std::int64_t bytes = costs_.stages[static_cast<std::size_t>(stage)].output_bytes;
      burden(stage, stage + 1, bytes, &StageCosts::forward_messages_ns);
      burden(stage + 1, stage, bytes, &StageCosts::backward_messages_ns);
    }
    if (placement_.ranks() > 1) add_groups();
    if (!exchanges_beside_compute(training_)) return;
    for (int rank = 0; rank < placement_.ranks(); ++rank) {
      const Exchange way = way_to_replicas(cluster_, training_, mesh_, rank);
      Link& link = costs_.collective_links.emplace_back();
      link.bytes_per_second = to_rate(way.bytes_per_second);
      if (way.leaves_node) link.through = cards_of({rank});
    }
  }

 private:
  DevicePlace place_of(int rank) const {
    const std::int64_t device = mesh_.rank_at({.pipeline = rank});
    const std::int64_t per_node = cluster_.devices_per_node;
    return {device / per_node, device % per_node * cluster_.network.cards_per_node / per_node};
  }

  // For all replicas, since the slowest counts.
  bool stay_in_node(int from, int to) const {
    const std::int64_t per_node = cluster_.devices_per_node;
    // After so many the pattern of replicas over nodes ends, or repeats.
    const std::int64_t replicas = std::min(std::int64_t{training_.replicas()}, per_node);
    for (std::int64_t d = 0; d < replicas; ++d) {
      const auto node_of = [&](int rank) {
        return (mesh_.rank_at({.pipeline = rank}) + d * training_.tensor_parallel) / per_node;
      };
      if (node_of(from) != node_of(to)) return false;
    }
    return true;
  }

  void connect(int from, int to) {
    const DevicePlace here = place_of(from);
    const DevicePlace there = place_of(to);
    Link link;
    if (stay_in_node(from, to)) {
      link.latency_ns = cluster_.node.p2p_latency_ns;
      link.bytes_per_second = cluster_.node.p2p_bytes_per_second;
    } else {
      link.latency_ns = cluster_.network.latency_ns;
      link.through = {card(here, CardWay::out), card(there, CardWay::in)};
    }
    costs_.edges[{from, to}] = link;
  }

  // One direction of a card, this replica's share of it: the devices of the same rank in other
  // replicas and in its tensor-parallel group send at the same time.
  int card(const DevicePlace& place, CardWay way) {
    const auto [at, is_new] = cards_.emplace(std::tuple(place.node, place.card, way),
                                             static_cast<int>(costs_.shared_links.size()));
    if (is_new) {
      const double each = card_bytes_per_second(cluster_);
      const double devices_a_card =
          std::max(1.0, static_cast<double>(cluster_.devices_per_node) /
                            static_cast<double>(cluster_.network.cards_per_node));
      const double alike =
          std::min<double>(devices_a_card, static_cast<double>(mesh_.stride(Axis::pipeline)));
      costs_.shared_links.push_back({fmt::format("node {} card {} {}", place.node, place.card,
                                                 way == CardWay::out ? "out" : "in"),
                                     to_rate(each * devices_a_card / alike)});
    }
    return at->second;
  }

  // Both directions of the ranks' cards, each once.
  std::vector<int> cards_of(const std::vector<int>& ranks) {
    std::vector<int> cards;
    for (const int rank : ranks) {
      for (const CardWay way : {CardWay::out, CardWay::in}) {
        const int one = card(place_of(rank), way);
        if (std::ranges::find(cards, one) == cards.end()) cards.push_back(one);
      }
    }
    return cards;
  }

  // Adds the exchanges at the end of an iteration: the sum of both gradients of a tied table on two
  // ranks, or of the kept parts, and the norm.
  void add_groups() {
    const std::int64_t tied = model_.layer(model_.model().layers() - 1).tied_parameters;
    const bool is_apart = !placement_.has(placement_.rank_of(0), placement_.stages() - 1);
    if (tied > 0 && is_apart) {
      costs_.tied_gradients =
          sum_over(Kind::REDUCE_TIED, static_cast<double>(tied * training_.gradient_bytes) /
                                          (training_.zero >= 2 ? training_.shards() : 1));
    }
    costs_.gradient_norm = sum_over(Kind::GRAD_NORM, sizeof(double));
  }

  // One group for each of the neighbouring devices of a pipeline rank; the members of a collective
  // are evenly spaced.
  GroupCosts sum_over(Kind blocking_collective, double bytes) {
    const std::vector<int> ranks = group_of(blocking_collective, placement_);
    const std::int64_t alike = mesh_.stride(Axis::pipeline);
    const RankGroup devices{mesh_.rank_at({.pipeline = ranks.front()}),
                            (ranks[1] - ranks[0]) * alike, std::ssize(ranks)};
    const Exchange sum = exchange(cluster_, {devices, alike}, CollectiveKind::all_reduce, bytes);
    GroupCosts costs{
        to_ns(sum.latency_seconds), std::llround(sum.bytes), to_rate(sum.bytes_per_second), {}};
    if (sum.leaves_node) costs.through = cards_of(ranks);
    return costs;
  }

  // A message takes compute of its sender, and of its receiver the time to gather the parts of all
  // tensor-parallel ranks.
  void burden(int sender, int receiver, std::int64_t bytes, std::int64_t StageCosts::*messages) {
    costs_.stages[static_cast<std::size_t>(sender)].*messages +=
        cluster_.device.software.p2p_overhead_ns;
    if (training_.tensor_parallel == 1 || training_.sequence_parallel) return;
    const Exchange gather =
        exchange(cluster_, {mesh_.group_of(0, Axis::tensor)}, CollectiveKind::all_gather,
                 static_cast<double>(bytes) * training_.tensor_parallel);
    costs_.stages[static_cast<std::size_t>(receiver)].*messages += to_ns(gather.seconds());
  }

  const CostModel& model_;
  const Cluster& cluster_;
  const Training& training_;
  Mesh mesh_;
  const Placement& placement_;
  Costs& costs_;
  std::map<std::tuple<std::int64_t, std::int64_t, CardWay>, int> cards_;  // in the shared links
};

}  // namespace

void link_ranks(const CostModel& model, const Placement& placement, Costs& costs) {
  Linker(model, placement, costs).run();
}

}  // namespace pipesim
