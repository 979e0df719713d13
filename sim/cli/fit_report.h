// What `pipesim fit` found: constants, errors of runs, the run to measure next; in words and as
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
  const Cluster& cluster;    // that the fit started from
  const FittedCluster& fitted;
  std::vector<PredictedRun> before;  // by that cluster
  std::vector<PredictedRun> after;   // by the file that is written
  std::optional<NextRun> next;
  std::string file;  // what predicts the next run: that file, or the start where none is written
};

std::string fit_report(const FitView& view, int width);
std::string fit_json(const FitView& view);

}  // namespace pipesim::cli
