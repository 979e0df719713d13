#include "sim/cost/estimate/pipeline_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/estimate/device_times.h"

namespace pipesim {
namespace {

std::int64_t to_ns(double seconds) { return std::llround(seconds * 1e9); }

// Where the first device of a pipeline rank stands, and the card that it uses.
struct Place {
  std::int64_t node = 0;
  std::int64_t card = 0;
};

class Linker {
 public:
  Linker(const CostModel& model, const Placement& placement, Costs& costs)
      : cluster_(model.cluster()),
        training_(model.training()),
        placement_(placement),
        costs_(costs) {}

  void run() {
    for (int stage = 0; stage + 1 < placement_.stages(); ++stage) {
      const int a = placement_.rank_of(stage);
      const int b = placement_.rank_of(stage + 1);
      if (a == b) continue;
      connect(a, b);
      connect(b, a);
      const std::int64_t bytes = costs_.stages[static_cast<std::size_t>(stage)].output_bytes;
      burden(stage, stage + 1, bytes, &StageCosts::forward_ns);
      burden(stage + 1, stage, bytes, &StageCosts::backward_input_ns);
    }
  }

 private:
  Place place_of(int rank) const {
    const std::int64_t device =
        std::int64_t{rank} * training_.tensor_parallel * training_.data_parallel;
    const std::int64_t per_node = cluster_.devices_per_node;
    return {device / per_node, device % per_node * cluster_.network.cards_per_node / per_node};
  }

  void connect(int from, int to) {
    const Place here = place_of(from);
    const Place there = place_of(to);
    Link link;
    if (here.node == there.node) {
      link.latency_ns = cluster_.node.p2p_latency_ns;
      link.bytes_per_second = cluster_.node.p2p_bytes_per_second;
    } else {
      link.latency_ns = cluster_.network.latency_ns;
      link.through = {card(here, "out"), card(there, "in")};
    }
    costs_.edges[{from, to}] = link;
  }

  // One way of a card, as far as this replica has it: the devices that stand
  // for the same rank in other replicas and in its tensor-parallel group send
  // at the same time.
  int card(const Place& place, const char* way) {
    std::string name = fmt::format("node {} card {} {}", place.node, place.card, way);
    const auto [at, is_new] = cards_.emplace(name, static_cast<int>(costs_.shared_links.size()));
    if (is_new) {
      const double each = card_bytes_per_second(cluster_);
      const double devices_a_card =
          std::max(1.0, static_cast<double>(cluster_.devices_per_node) /
                            static_cast<double>(cluster_.network.cards_per_node));
      const double alike = std::min<double>(
          devices_a_card, static_cast<double>(training_.tensor_parallel * training_.data_parallel));
      costs_.shared_links.push_back({std::move(name), std::llround(each * devices_a_card / alike)});
    }
    return at->second;
  }

  // A message takes its sender time, and its receiver what it takes to have
  // the parts of all tensor-parallel ranks.
  void burden(int sender, int receiver, std::int64_t bytes, std::int64_t StageCosts::*pass) {
    costs_.stages[static_cast<std::size_t>(sender)].*pass += cluster_.device.p2p_overhead_ns;
    if (training_.tensor_parallel == 1 || training_.sequence_parallel) return;
    const Exchange gather =
        exchange(cluster_, {training_.tensor_parallel, 1}, CollectiveKind::all_gather,
                 static_cast<double>(bytes) * training_.tensor_parallel);
    costs_.stages[static_cast<std::size_t>(receiver)].*pass += to_ns(gather.seconds());
  }

  const Cluster& cluster_;
  const Training& training_;
  const Placement& placement_;
  Costs& costs_;
  std::map<std::string, int> cards_;
};

// Bytes through memory of an optimizer's step, by parameter: the gradient
// copied to fp32, checked, scaled back, its norm, Adam, weights copied back,
// gradients zeroed; with fp32 weights no copies and nothing to scale.
double step_bytes(Precision precision, std::int64_t gradient_bytes) {
  const double norm = 4;
  const double clip_and_adam = 28;
  if (bytes_of(precision) == 4) return norm + clip_and_adam + 8;
  const auto gradient = static_cast<double>(gradient_bytes);
  const double copy = gradient + 4;
  const double check = 4;
  const double scale = 8;
  const double back = 6;
  return copy + check + scale + norm + clip_and_adam + back + 2 * gradient;
}

// Seconds to reduce the gradients of so many parameters over all replicas, and,
// where each keeps a part of them only, to gather new weights.
double reduction_seconds(const Cluster& cluster, const Training& training, double parameters) {
  const int t = training.tensor_parallel;
  const auto seconds = [&](int ranks, int stride, CollectiveKind kind, double bytes) {
    return exchange(cluster, {ranks, stride}, kind, bytes).seconds();
  };
  const double gradients = parameters * static_cast<double>(training.gradient_bytes);
  const int shards = training.shards();
  if (shards == 1) {
    return seconds(training.data_parallel, t, CollectiveKind::all_reduce, gradients);
  }
  double sum = seconds(shards, t, CollectiveKind::reduce_scatter, gradients);
  sum += seconds(training.data_parallel / shards, t * shards, CollectiveKind::all_reduce,
                 gradients / shards);
  if (training.zero < 3) {
    const double weights = parameters * static_cast<double>(bytes_of(training.precision));
    sum += seconds(shards, t, CollectiveKind::all_gather, weights);
  }
  return sum;
}

}  // namespace

void link_ranks(const CostModel& model, const Placement& placement, Costs& costs) {
  Linker(model, placement, costs).run();
}

void close_ranks(const CostModel& model, const std::vector<RankShare>& shares, Costs& costs) {
  const Training& training = model.training();
  const Cluster& cluster = model.cluster();
  const auto gradient = static_cast<double>(training.gradient_bytes);
  for (const RankShare& share : shares) {
    // On one rank the table and its copy are the same.
    const bool is_one = share.has_table && share.has_copy;
    const auto parameters =
        static_cast<double>(share.parameters - (is_one ? share.tied_parameters : 0));
    double reduction = reduction_seconds(cluster, training, parameters);
    const auto tied =
        std::ranges::find_if(shares, [](const RankShare& other) { return other.has_copy; });
    if (!is_one && tied != shares.end() && (share.has_table || share.has_copy)) {
      const int ends = static_cast<int>(shares.size()) - 1;
      const Group group{2, ends * training.tensor_parallel * training.data_parallel};
      reduction += exchange(cluster, group, CollectiveKind::all_reduce,
                            static_cast<double>(tied->tied_parameters) * gradient)
                       .seconds();
    }
    costs.reduce_gradients_ns.push_back(to_ns(reduction));
    const double step =
        parameters * step_bytes(training.precision, training.gradient_bytes) / training.shards();
    costs.optimizer_ns.push_back(to_ns(memory_seconds(cluster.device, step, 0)));
  }
  if (std::ranges::all_of(costs.reduce_gradients_ns, [](std::int64_t ns) { return ns == 0; })) {
    costs.reduce_gradients_ns.clear();
  }
}

}  // namespace pipesim
