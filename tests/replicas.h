// Random schedules of replicas, the same for the same seed everywhere.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "sim/engine/simulate.h"
#include "sim/schedule/shard.h"
#include "tests/random_schedule.h"

namespace pipesim::testing {

inline constexpr std::int64_t byte_a_ns = 1'000'000'000;  // a second

// A schedule that never deadlocks, its costs, and how its results travel.
struct ReplicaCase {
  Schedule schedule;
  bool is_scattered = false;  // its UNSHARDs, RESHARDs and REDUCE_GRADs stand anywhere
  Costs costs;
  SimulationOptions options;
};

inline Costs random_collectives(std::mt19937_64& random, const Schedule& schedule, Costs costs) {
  costs.reduce_gradients_ns.clear();
  const auto collective = [&](CollectiveCosts& own) {
    if (pick(random, 0, 3) == 0) return;
    own = {pick(random, 0, 50), pick(random, 1, 200), pick(random, 1, 4)};
  };
  for (StageCosts& stage : costs.stages) {
    collective(stage.unshard);
    collective(stage.reduce);
    if (stage.unshard.exists()) stage.unsharded_bytes = pick(random, 0, 300);
  }
  costs.shared_links = {{"card", pick(random, 1, 3) * byte_a_ns}};
  if (pick(random, 0, 2) > 0) {
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      Link& link = costs.collective_links.emplace_back();
      if (pick(random, 0, 1) == 0) link.bytes_per_second = pick(random, 1, 3) * byte_a_ns;
      if (pick(random, 0, 1) == 0) link.through = {0};
    }
    for (auto& [edge, link] : costs.edges) {
      if (pick(random, 0, 1) == 0) link.through = {0};
    }
  }
  if (pick(random, 0, 2) == 0) costs.compute_slowdown_ppm = pick(random, 1, 2'000'000);
  return costs;
}

// Up to two of each kind for each stage.
inline Schedule scatter(std::mt19937_64& random, const Schedule& compute) {
  Schedule scattered;
  scattered.name = compute.name;
  scattered.microbatches = compute.microbatches;
  scattered.placement = compute.placement;
  for (int rank = 0; rank < compute.ranks(); ++rank) {
    const auto before = compute.actions[rank];
    std::vector<Action> list(before.begin(), before.end());
    for (const int stage : compute.placement.stages_of(rank)) {
      for (const Kind kind : {Kind::UNSHARD, Kind::RESHARD, Kind::REDUCE_GRAD}) {
        for (std::int64_t i = pick(random, 0, 2); i > 0; --i) {
          auto at = pick(random, 0, std::ssize(list));
          if (at > 0 && list[static_cast<std::size_t>(at) - 1].joined) ++at;
          list.insert(list.begin() + at, make_action(stage, kind));
        }
      }
    }
    scattered.actions.add_rank(list);
  }
  return scattered;
}

inline ReplicaCase random_replicas(std::mt19937_64& random) {
  ReplicaCase made;
  const Schedule compute = random_schedule(random);
  const ReplicaSharding sharding{static_cast<ReplicaSharding::Reduce>(pick(random, 0, 3)),
                                 static_cast<ReplicaSharding::Gather>(pick(random, 0, 3)),
                                 static_cast<int>(pick(random, 1, 3))};
  made.is_scattered = pick(random, 0, 2) == 0;
  made.schedule = made.is_scattered ? scatter(random, compute) : shard(compute, sharding);
  made.costs = random_collectives(random, compute, random_costs(random, compute));
  add_messages(made.costs, random);
  made.costs.check(compute.placement, compute.microbatches, "costs");
  made.options.transfers.mode = static_cast<P2p>(pick(random, 0, 3));
  made.options.transfers.eager_limit_bytes = pick(random, 0, 60);
  return made;
}

}  // namespace pipesim::testing
