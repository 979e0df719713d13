// The list of ranks: their hosts, coordinates in the run's mesh, and devices.
//
// Plain values, and functions of them.
#pragma once

#include <string>
#include <vector>

#include "traces/mesh.h"

namespace pipesim::exec {

// One rank's entry.
struct RankFacts {
  std::string host;
  int local_rank = 0;
  std::string device;
};

// Each has as many ranks as the mesh. The table has a coordinate for each axis that splits
// anything, and for the pipeline, the data and the tensor axis always.
std::string rank_list(const Mesh& mesh, const std::vector<RankFacts>& ranks,
                      const std::string& transport);
std::string rank_list_json(const Mesh& mesh, const std::vector<RankFacts>& ranks,
                           const std::string& transport);

}  // namespace pipesim::exec
