// Which further run would narrow a fit most: of some near those that were measured, the one whose
// time is known least.
//
// Pure but for the models' files that rows name; any thread.
#pragma once

#include <optional>

#include "sim/cli/fit_runs.h"

namespace pipesim::cli {

struct NextRun {
  RunCells cells;
  Promise promise;
  int tried = 0;
};

// Each is one of the table's with tensor-parallel ranks, stages, replicas or the microbatch's size
// doubled or halved, one or two of them, of as large a batch, on half to twice as many devices, and
// fits their memory; tensor-parallel ranks stay
// within a node. Nothing where there is none.
std::optional<NextRun> next_run(const RunTable& table, const std::vector<MeasuredIteration>& runs,
                                const FitStart& start, const FittedCluster& fitted,
                                const Cluster& cluster);

}  // namespace pipesim::cli
