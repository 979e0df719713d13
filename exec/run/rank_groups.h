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
  // Of the ranks with the same stages in other replicas: those that split states with this one,
  // and those that have the same part as this one.
  GroupTransport sharers;
  GroupTransport likes;
  int replica;

 private:
  RankGroups(Transport& transport, const Mesh& mesh, const SplitGroup& replicas)
      : whole(transport),
        pipeline(transport, mesh.group_of(transport.rank(), Axis::pipeline)),
        sharers(transport, replicas.block),
        likes(transport, replicas.across),
        replica(static_cast<int>(mesh.coordinates_of(transport.rank()).data)) {}
};

}  // namespace pipesim::exec
