// A cluster's constants from a few measured iterations: which of them the runs tell, what they are,
// how well that is known, and how well runs are predicted by the others.
//
// A preset's values are where a fit starts, and what it expects: each constant by its usual spread,
// sim/fit/constants.h. Errors are of logarithms, so that runs count alike whatever they take: of 3
// %, or as much as is left where all constants are fitted, but 6 % at most, so that a preset that
// is far off does not pass for runs that say little. A constant of which more than 70 % of the
// usual spread is left open is not told: it stays as it is, the least known first, and the others
// are fitted again. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/fit/constants.h"
#include "sim/fit/least_squares.h"
#include "sim/request/request.h"

namespace pipesim {

struct MeasuredIteration {
  PredictionRequest request;  // its costs are a model's on a cluster
  std::int64_t measured_ns = 0;
  std::optional<std::int64_t> peak_bytes;
};

struct PredictedRun {
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;
};

// On another cluster than the request's.
PredictedRun predict_on(const Cluster& cluster, const PredictionRequest& request);

struct FittedConstant {
  Constant constant = Constant::efficiency;
  bool is_there = false;   // else no factor changes it
  bool is_needed = false;  // some run depends on it
  bool is_told = false;
  double factor = 1;      // on the preset's values
  double spread = 0;      // of its logarithm, as it is known now
  double open_share = 1;  // of the usual spread, where all constants are open
};

struct FittedCluster {
  std::vector<FittedConstant> constants;  // all of them, in their order
  double noise = 0;                       // that the runs show, of a logarithm
  std::vector<double> weights;            // of the runs; little for an outlier
  Matrix open;                            // covariance of all constants' logarithms
  // Of each run, predicted by the same constants fitted to the others.
  std::vector<std::int64_t> by_others_ns;
  double band = 0;  // that four of five of these are off by at most

  // The preset with its factors.
  Cluster on(const Cluster& preset) const;
};

// There are two runs or more.
FittedCluster fit(const std::vector<MeasuredIteration>& runs, const Cluster& preset);

// By how much the logarithm of a run's prediction may be off, and which constant's spread its
// measurement would narrow most.
struct Promise {
  double spread = 0;
  Constant constant = Constant::efficiency;
  double spread_before = 0;  // of that constant
  double spread_after = 0;
};
Promise promise_of(const PredictionRequest& request, const FittedCluster& fitted,
                   const Cluster& preset);

}  // namespace pipesim
