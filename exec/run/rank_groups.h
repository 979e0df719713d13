// The groups of ranks that a rank belongs to, each as a transport.
// They share the transport of the whole mesh, which must outlive them, and like it belong to one
// rank and its thread.
#pragma once

#include "exec/transport/group.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class RankGroups {
 public:
  // `transport` has the ranks of the mesh. States are split over `shards` neighbouring replicas.
  RankGroups(Transport& transport, const Mesh& mesh, int shards)
      : RankGroups(
            transport, mesh,
            split_group(mesh.group_of(transport.rank(), Axis::data), shards, transport.rank())) {}

  Transport& whole;
  GroupTransport pipeline;
  // The ranks with the same stages in all replicas; among these, those that split states with this
  // one, and those that have the same part as this one.
  GroupTransport replicas;
  GroupTransport sharers;
  GroupTransport likes;
  // The ranks with shards of the same layers of the same replica.
  GroupTransport tensor;
  // The ranks at this one's position in all pipelines.
  GroupTransport pipelines;
  int replica;

 private:
  // Pipeline ranks are numbered last.
  static RankGroup ranks_at_place(const Mesh& mesh, std::int64_t rank) {
    const std::int64_t count = mesh.stride(Axis::pipeline);
    return {rank / count * count, 1, count};
  }

  RankGroups(Transport& transport, const Mesh& mesh, const SplitGroup& split)
      : whole(transport),
        pipeline(transport, mesh.group_of(transport.rank(), Axis::pipeline)),
        replicas(transport, mesh.group_of(transport.rank(), Axis::data)),
        sharers(transport, split.block),
        likes(transport, split.across),
        tensor(transport, mesh.group_of(transport.rank(), Axis::tensor)),
        pipelines(transport, ranks_at_place(mesh, transport.rank())),
        replica(static_cast<int>(mesh.coordinates_of(transport.rank()).data)) {}
};

}  // namespace pipesim::exec
