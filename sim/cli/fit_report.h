// The results of `pipesim fit`: constants, errors of runs, the run to measure next; as text and as
// JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/cli/fit_next.h"

namespace pipesim::cli {

struct FitView {
  const FitStart& start;
  const RunTable& table;
  const std::vector<MeasuredIteration>& runs;
  const std::string& notes;  // of traces
  const Cluster& cluster;    // the one the fit started from
  const FittedCluster& fitted;
  std::vector<PredictedRun> before;  // with that cluster
  std::vector<PredictedRun> after;   // with the file that is written
  std::optional<NextRun> next;
  std::string file;  // predicts the next run: that file, else the starting one
};

std::string fit_report(const FitView& view, int width);
std::string fit_json(const FitView& view);

}  // namespace pipesim::cli
