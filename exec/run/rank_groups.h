// The groups of ranks that a rank belongs to, each as a transport.
//
// They share the transport of the whole mesh, which outlives them, and like it belong to
// one rank and its thread.
#pragma once

#include "exec/transport/group.h"
#include "traces/mesh.h"

namespace pipesim::exec {

class RankGroups {
 public:
  // `transport` has the ranks of the mesh. States are split over so many neighbouring replicas.
  RankGroups(Transport& transport, const Mesh& mesh, int shards)
      : RankGroups(
            transport, mesh,
            split_group(mesh.group_of(transport.rank(), Axis::data), shards, transport.rank())) {}

  Transport& whole;
  GroupTransport pipeline;
  // The ranks with the same stages in all replicas; of these those that split states with this
  // one, and those that have the same part as this one.
  GroupTransport replicas;
  GroupTransport sharers;
  GroupTransport likes;
  int replica;

 private:
  RankGroups(Transport& transport, const Mesh& mesh, const SplitGroup& split)
      : whole(transport),
        pipeline(transport, mesh.group_of(transport.rank(), Axis::pipeline)),
        replicas(transport, mesh.group_of(transport.rank(), Axis::data)),
        sharers(transport, split.block),
        likes(transport, split.across),
        replica(static_cast<int>(mesh.coordinates_of(transport.rank()).data)) {}
};

}  // namespace pipesim::exec
