#include "sim/cost/estimate/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/cost/estimate/device_times.h"
#include "sim/cost/estimate/rounding.h"
#include "sim/schedule/shard.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

// Memory traffic of an optimizer step, per parameter: the gradient copied to fp32, checked, scaled
// back, its norm, Adam, weights copied back, gradients zeroed; with fp32 weights no copies and no
// scaling.
double step_bytes(const Training& training) {
  const double norm = 4;
  const double clip_and_adam = 28;
  if (bytes_of(training.precision) == 4) return norm + clip_and_adam + 8;
  const auto gradient = static_cast<double>(training.gradient_bytes);
  const double copy = gradient + 4;
  const double check = 4;
  const double scale = 8;
  const double back = 6;
  return copy + check + scale + norm + clip_and_adam + back + 2 * gradient;
}

// Narrower states are read and written with fewer bytes.
double step_seconds(const DeviceSpec& device, const Training& training, double parameters) {
  const std::int64_t usual = usual_optimizer_bytes(training, device.software);
  const auto narrower = static_cast<double>(2 * (usual - training.optimizer_bytes.value_or(usual)));
  if (!device.software.kernels) {
    return memory_seconds(device, (step_bytes(training) - narrower) * parameters, 0);
  }
  const KernelList& list = *device.software.kernels;
  const double bytes = std::max(0.0, list.optimizer_bytes - narrower) * parameters;
  return std::max(ListedTimes(device, list).memory_seconds(Traffic::optimizer, bytes, 0),
                  static_cast<double>(list.host_step_ns) * 1e-9);
}

// For a pipeline rank's first device.
struct ReplicaGroups {
  Group sharers;  // the replicas that it shares states with
  Group likes;    // those that hold the same part
};
ReplicaGroups split_replicas(const RankGroup& group, int shards) {
  const auto [block, across] = split_group(group, shards, group.first);
  return {{block, across.count, across.stride}, {across, block.count, block.stride}};
}

// Context-parallel ranks hold the same weights, as replicas do, and are neighbours.
ReplicaGroups replica_groups(const Training& training, const Mesh& mesh, int rank) {
  const std::int64_t device = mesh.rank_at({.pipeline = rank});
  return split_replicas({device, mesh.stride(Axis::context), training.replicas()},
                        training.shards());
}

// Of routed experts.
ReplicaGroups expert_groups(const Training& training, const Mesh& mesh, int rank) {
  const std::int64_t device = mesh.rank_at({.pipeline = rank});
  const std::int64_t apart = std::int64_t{training.split_experts()} * training.expert_parallel;
  return split_replicas({device, apart, training.expert_replicas()}, training.expert_shards());
}

// Whether gradients are reduced by actions of the schedule instead of at the end.
bool reduces_beside_compute(const Training& training) {
  return training.has_replicas() && (training.bucket_bytes || training.zero >= 2);
}

// Parameters that a rank holds.
struct Held {
  double dense = 0;
  double experts = 0;

  explicit Held(const StageShare& share)
      : dense(static_cast<double>(share.parameters - share.expert_parameters)),
        experts(static_cast<double>(share.expert_parameters)) {}
  Held() = default;
  Held& operator+=(const Held& other) {
    dense += other.dense;
    experts += other.experts;
    return *this;
  }
  double all() const { return dense + experts; }
};

// For one pipeline rank.
class Replicas {
 public:
  Replicas(const CostModel& model, const Mesh& mesh, int rank)
      : cluster_(model.cluster()),
        training_(model.training()),
        groups_(replica_groups(training_, mesh, rank)),
        expert_groups_(expert_groups(training_, mesh, rank)),
        way_(way_to_replicas(cluster_, training_, mesh, rank)) {}

  // Reduces gradients among those that share states, then among those that hold the same part.
  std::vector<Exchange> reduction(const Held& held) const {
    const auto value = static_cast<double>(training_.gradient_bytes);
    std::vector<Exchange> all;
    const auto add = [&](const ReplicaGroups& groups, double bytes, int shards) {
      if (bytes == 0) return;
      all.push_back(exchange(cluster_, groups.sharers, CollectiveKind::reduce_scatter, bytes));
      all.push_back(exchange(cluster_, groups.likes, CollectiveKind::all_reduce, bytes / shards));
    };
    add(groups_, held.dense * value, training_.shards());
    add(expert_groups_, held.experts * value, training_.expert_shards());
    return all;
  }

  std::vector<Exchange> gather(const Held& held) const {
    const auto value = static_cast<double>(bytes_of(training_.precision));
    std::vector<Exchange> all;
    const auto add = [&](const ReplicaGroups& groups, double bytes) {
      if (bytes == 0) return;
      Exchange one = exchange(cluster_, groups.sharers, CollectiveKind::all_gather, bytes);
      const bool is_of_shards = training_.zero >= 3;
      if (one.leaves_node && is_of_shards) {
        one.bytes_per_second *= cluster_.device.software.gather_share;
      }
      all.push_back(one);
    };
    add(groups_, held.dense * value);
    add(expert_groups_, held.experts * value);
    return all;
  }

  void add_collectives(StageCosts& stage, const StageShare& share, Gather gathers) const {
    const Held held(share);
    const std::int64_t value = bytes_of(training_.precision);
    const std::int64_t layers = std::clamp<std::int64_t>(share.layers, 1, max_parts);
    std::int64_t parts = layers;
    if (reduces_each_pass(training_)) {
      parts = std::clamp<std::int64_t>(share.buckets, 1, max_parts);
    } else if (training_.bucket_bytes) {
      const std::int64_t bytes = share.parameters * training_.gradient_bytes;
      const std::int64_t bucket = *training_.bucket_bytes;
      parts = std::clamp<std::int64_t>(bytes / bucket + (bytes % bucket > 0), 1, max_parts);
    }
    if (reduces_beside_compute(training_)) {
      for (const Exchange& one : reduction(held)) stage.reduce += as_collective(one, parts);
      stage.reduce.parts = parts;
    }
    const bool splits_weights = training_.zero == 3 && training_.splits_states();
    if (!splits_weights && !training_.gathers_next_to_forwards()) return;
    for (const Exchange& one : gather(held)) stage.unshard += as_collective(one, layers);
    if (stage.unshard.exists()) stage.unshard.parts = layers;
    if (!splits_weights) return;
    stage.unsharded_bytes =
        value * (gathers == Gather::pass ? share.largest_neighbours : share.parameters);
  }

 private:
  static constexpr std::int64_t max_parts = CollectiveCosts::max_parts;

  // On the rank's link to its replicas, each part an exchange with its own latency. An exchange on
  // another route, within the node, meets no other traffic: it is a pure time, represented by one
  // byte.
  CollectiveCosts as_collective(const Exchange& one, std::int64_t parts) const {
    if (one.bytes == 0) return {};
    const double latency = one.latency_seconds * static_cast<double>(parts);
    const double carrying = one.bytes / one.bytes_per_second;
    if (one.leaves_node != way_.leaves_node) return {to_ns(latency + carrying), 1, parts};
    const double bytes = carrying * way_.bytes_per_second;
    return {to_ns(latency), std::max<std::int64_t>(1, std::llround(bytes)), parts};
  }

  const Cluster& cluster_;
  const Training& training_;
  ReplicaGroups groups_;
  ReplicaGroups expert_groups_;
  Exchange way_;
};

bool gathers(const Schedule& schedule) {
  return std::ranges::any_of(schedule.actions.all(),
                             [](const Action& action) { return action.kind == Kind::UNSHARD; });
}

// Refuses a schedule that computes with weights that it has not gathered.
void check_gathered(const Schedule& schedule) {
  std::vector<bool> is_gathered(static_cast<std::size_t>(schedule.stages()));
  for (const Action& action : schedule.actions.all()) {
    const auto stage = static_cast<std::size_t>(action.stage);
    if (action.kind == Kind::UNSHARD) is_gathered[stage] = true;
    if (action.kind == Kind::RESHARD) is_gathered[stage] = false;
    if (!is_compute(action.kind) || is_gathered[stage]) continue;
    throw input_error(fmt::format(
        "{}: {} comes where --zero 3 has stage {} in parts; put {} before it, or omit all "
        "UNSHARD, RESHARD and REDUCE_GRAD",
        schedule.name, to_text(action), action.stage,
        to_text(make_action(action.stage, Kind::UNSHARD))));
  }
}

// Refuses a schedule that reduces whole gradients again that are already summed.
void check_reduced_once(const Schedule& schedule, const Training& training) {
  std::vector<bool> is_reduced(static_cast<std::size_t>(schedule.stages()));
  for (const Action& action : schedule.actions.all()) {
    if (action.kind != Kind::REDUCE_GRAD) continue;
    const auto stage = static_cast<std::size_t>(action.stage);
    if (is_reduced[stage]) {
      const bool is_asked = training.zero >= 2;
      throw input_error(fmt::format(
          "{}: {} is given several times, but with {} gradients are kept whole and reduced once; "
          "keep the last of them, or {}",
          schedule.name, to_text(action),
          is_asked ? "--shard-over 1" : fmt::format("--zero {}", training.zero),
          is_asked ? "omit --shard-over" : "give --zero 2"));
    }
    is_reduced[stage] = true;
  }
}

// If gradients are never kept whole: a rank makes those of one layer while those of the next layer
// are reduced, for which it receives other replicas' parts.
void add_reduction_rooms(const Training& training, const Placement& placement,
                         const std::vector<StageShare>& shares, Costs& costs) {
  struct Room {
    std::int64_t made = 0;
    std::int64_t exchanged = 0;  // parameters of the largest exchange
  };
  std::vector<Room> rooms(static_cast<std::size_t>(placement.ranks()));
  const auto room_of = [&](int stage, int copy) -> Room& {
    return rooms[static_cast<std::size_t>(placement.rank_of(stage, copy))];
  };
  const std::int64_t value = training.gradient_bytes;
  const auto bucket = [&](std::int64_t parameters) {
    if (!training.bucket_bytes) return parameters;
    return std::min(parameters, std::max<std::int64_t>(1, *training.bucket_bytes / value));
  };
  for (int s = 0; s < placement.stages(); ++s) {
    const StageShare& share = shares[static_cast<std::size_t>(s)];
    for (int copy = 0; copy < placement.copies(); ++copy) {
      Room& room = room_of(s, copy);
      room.made = std::max(room.made, share.largest_neighbours);
      room.exchanged = std::max(room.exchanged, bucket(share.largest_layer));
    }
  }
  const std::int64_t shards = training.shards();
  for (int s = 0; s < placement.stages(); ++s) {
    const Room& room = room_of(s, 0);  // both ranks of a stage with copies hold the same stages
    const std::int64_t part = (room.exchanged + shards - 1) / shards;
    costs.stages[static_cast<std::size_t>(s)].workspace_bytes +=
        value * (room.made + (shards - 1) * part);
  }
}

// How long the ranks of both copies of a rank's stages take to sum their gradients. They hold the
// same stages.
double sum_of_copies(const Cluster& cluster, const Mesh& mesh, const Placement& placement, int rank,
                     double bytes) {
  const int stage = placement.stages_of(rank).front();
  const auto [one, other] = std::minmax({placement.rank_of(stage), placement.rank_of(stage, 1)});
  const std::int64_t alike = mesh.stride(Axis::pipeline);
  const RankGroup devices{mesh.rank_at({.pipeline = one}), (other - one) * alike, 2};
  return exchange(cluster, {devices, alike}, CollectiveKind::all_reduce, bytes).seconds();
}

}  // namespace

bool exchanges_beside_compute(const Training& training) {
  return reduces_beside_compute(training) || training.gathers_next_to_forwards();
}

bool reduces_each_pass(const Training& training) {
  return training.zero >= 2 && training.splits_states();
}

Schedule with_replicas(Schedule schedule, const Training& training) {
  const bool splits_gradients = reduces_each_pass(training);
  if (training.has_replicas() && !splits_gradients) check_reduced_once(schedule, training);
  if (!exchanges_beside_compute(training)) return schedule;
  const auto listed = std::ranges::find_if(schedule.actions.all(), is_of_replicas, &Action::kind);
  if (listed != schedule.actions.all().end()) {
    if (training.gather) {
      throw input_error(fmt::format("--gather {}: {} itself says when, with {}; omit one of them",
                                    gather_name(*training.gather), schedule.name,
                                    to_text(*listed)));
    }
    if (training.zero == 3 && training.splits_states()) check_gathered(schedule);
    if (training.gathers_next_to_forwards() && !gathers(schedule)) return gather_ahead(schedule);
    return schedule;
  }
  ReplicaSharding sharding;
  if (!reduces_beside_compute(training)) {
    sharding.reduce = ReplicaSharding::Reduce::never;
  } else if (splits_gradients) {
    sharding.reduce = ReplicaSharding::Reduce::every_backward;
  }
  if (training.zero == 3 && training.splits_states()) {
    switch (training.gathers(schedule.stages())) {
      case Gather::window: sharding.gather = ReplicaSharding::Gather::window; break;
      case Gather::pass: sharding.gather = ReplicaSharding::Gather::every_pass; break;
      case Gather::once: sharding.gather = ReplicaSharding::Gather::once; break;
    }
  }
  schedule = shard(schedule, sharding);
  return training.gathers_next_to_forwards() ? gather_ahead(schedule) : schedule;
}

Exchange way_to_replicas(const Cluster& cluster, const Training& training, const Mesh& mesh,
                         int rank) {
  const auto [sharers, likes] = training.replicas() > 1 ? replica_groups(training, mesh, rank)
                                                        : expert_groups(training, mesh, rank);
  if (likes.devices.count > 1) return exchange(cluster, likes, CollectiveKind::all_reduce, 1);
  return exchange(cluster, sharers, CollectiveKind::reduce_scatter, 1);
}

void add_replicas(const CostModel& model, const Placement& placement,
                  const std::vector<StageShare>& shares, Costs& costs) {
  const Training& training = model.training();
  const Mesh mesh = training.mesh(placement.ranks());
  const auto ranks = static_cast<std::size_t>(placement.ranks());
  const bool exchanges_beside = exchanges_beside_compute(training);
  const bool reduces_beside = reduces_beside_compute(training);
  std::vector<Held> held(ranks);
  for (int s = 0; s < placement.stages(); ++s) {
    const StageShare& share = shares[static_cast<std::size_t>(s)];
    for (int copy = 0; copy < placement.copies(); ++copy) {
      held[static_cast<std::size_t>(placement.rank_of(s, copy))] += Held(share);
    }
    if (!exchanges_beside) continue;
    Replicas(model, mesh, placement.rank_of(s))
        .add_collectives(costs.stages[static_cast<std::size_t>(s)], share,
                         training.gathers(placement.stages()));
  }
  if (reduces_each_pass(training)) add_reduction_rooms(training, placement, shares, costs);

  std::vector<std::int64_t> reduce_ns(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    double exchanged = 0;
    const Replicas replicas(model, mesh, static_cast<int>(r));
    // New weights are gathered if each rank steps a part of them and keeps all.
    const bool keeps_all = training.zero == 1 || training.zero == 2;
    if (keeps_all && !training.gathers_ahead) {
      for (const Exchange& one : replicas.gather(held[r])) exchanged += one.seconds();
    }
    if (placement.copies() > 1) {
      const double bytes = held[r].all() * static_cast<double>(training.gradient_bytes);
      exchanged += sum_of_copies(model.cluster(), mesh, placement, static_cast<int>(r), bytes);
    }
    if (!reduces_beside) {
      for (const Exchange& one : replicas.reduction(held[r])) exchanged += one.seconds();
    }
    const double own =
        held[r].dense / training.shards() + held[r].experts / training.expert_shards();
    const double step = step_seconds(model.cluster().device, training, own);
    // If gradients are reduced by actions, the rest counts as the step's.
    costs.optimizer_ns.push_back(to_ns(step + (reduces_beside ? exchanged : 0)));
    reduce_ns[r] = reduces_beside ? 0 : to_ns(exchanged);
  }
  if (std::ranges::any_of(reduce_ns, [](std::int64_t ns) { return ns > 0; })) {
    costs.reduce_gradients_ns = std::move(reduce_ns);
  }
}

}  // namespace pipesim
