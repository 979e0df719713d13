// The groups of ranks that a rank belongs to, each as a transport.
//
// They share the transport of the whole mesh, which outlives them, and like it belong to
// one rank and its thread.
#pragma once

#include <algorithm>

#include "exec/transport/group.h"
#include "sim/schedule/placement.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class RankGroups {
 public:
  // `transport` has the ranks of the mesh. States are split over so many neighbouring replicas. The
  // second copies of stages, where there are any, are replicas of the first.
  RankGroups(Transport& transport, const Mesh& mesh, const Placement& placement, int shards)
      : RankGroups(transport, mesh, replicas_of(mesh, placement, transport.rank()), shards) {}

  Transport& whole;
  GroupTransport pipeline;
  // The ranks with the same stages, in all replicas; of these those that split states with this
  // one, and those that have the same part as this one.
  GroupTransport replicas;
  GroupTransport sharers;
  GroupTransport likes;
  // The ranks that have the same layers of the same replica, in shards.
  GroupTransport tensor;
  // The ranks at this one's place of all pipelines.
  GroupTransport pipelines;
  int replica;

 private:
  static RankGroup replicas_of(const Mesh& mesh, const Placement& placement, std::int64_t rank) {
    if (placement.copies() == 1) return mesh.group_of(rank, Axis::data);
    const Coordinates place = mesh.coordinates_of(rank);
    const int stage = placement.stages_of(static_cast<int>(place.pipeline)).front();
    const auto [one, other] =
        std::minmax({placement.rank_of(stage, 0), placement.rank_of(stage, 1)});
    const std::int64_t apart = (other - one) * mesh.stride(Axis::pipeline);
    return {mesh.rank_at({.tensor = place.tensor, .pipeline = one}), apart, 2};
  }

  // Pipeline ranks are numbered last.
  static RankGroup ranks_at_place(const Mesh& mesh, std::int64_t rank) {
    const std::int64_t count = mesh.stride(Axis::pipeline);
    return {rank / count * count, 1, count};
  }

  RankGroups(Transport& transport, const Mesh& mesh, const RankGroup& replicas, int shards)
      : RankGroups(transport, mesh, replicas, split_group(replicas, shards, transport.rank())) {}

  RankGroups(Transport& transport, const Mesh& mesh, const RankGroup& replicas,
             const SplitGroup& split)
      : whole(transport),
        pipeline(transport, mesh.group_of(transport.rank(), Axis::pipeline)),
        replicas(transport, replicas),
        sharers(transport, split.block),
        likes(transport, split.across),
        tensor(transport, mesh.group_of(transport.rank(), Axis::tensor)),
        pipelines(transport, ranks_at_place(mesh, transport.rank())),
        replica(static_cast<int>(mesh.coordinates_of(transport.rank()).data)) {}
};

}  // namespace pipesim::exec
