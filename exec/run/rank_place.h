// Where a rank stands in the mesh of its run: what program and placement know it by, and
// what its transport knows others by.
//
// Program, placement, costs and the channels of devices that are linked count the ranks of a
// pipeline; a transport counts those of the mesh. In a mesh of one pipeline both are the
// same. A value; any thread.
#pragma once

#include "traces/mesh.h"

namespace pipesim::exec {

class RankPlace {
 public:
  // `rank` of the mesh, which is the transport's.
  RankPlace(const Mesh& mesh, int rank)
      : pipeline_(mesh.group_of(rank, Axis::pipeline)),
        own_(static_cast<int>(mesh.coordinates_of(rank).pipeline)) {}

  // Its coordinate along the pipeline.
  int in_pipeline() const { return own_; }
  // The transport's rank that has that coordinate in the same pipeline.
  int on_transport(int in_pipeline) const { return static_cast<int>(pipeline_[in_pipeline]); }

 private:
  RankGroup pipeline_;
  int own_;
};

}  // namespace pipesim::exec
