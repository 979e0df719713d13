// Which further run would narrow a fit most: of some near those measured, the one with the most
// uncertain time.
//
// Pure except for reading the model files that rows name; any thread.
#pragma once

#include <optional>

#include "sim/cli/fit_runs.h"

namespace pipesim::cli {

struct NextRun {
  RunCells cells;
  Promise promise;
  int tried = 0;
};

// Candidates are the table's runs with one or two of tensor-parallel ranks, stages, replicas and
// the microbatch's size doubled or halved, with the same batch, on half to twice as many devices,
// if they fit in memory; tensor-parallel ranks stay within a node. Nothing if there is none.
std::optional<NextRun> next_run(const RunTable& table, const std::vector<MeasuredIteration>& runs,
                                const FitStart& start, const FittedCluster& fitted,
                                const Cluster& cluster);

}  // namespace pipesim::cli
