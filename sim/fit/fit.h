// Fits a cluster's constants to a few measured iterations: which of them the runs determine, their
// values and uncertainty, and how well each run is predicted by the others. A cluster's values,
// usually a preset's, are the start of a fit, and its prior: each constant has its usual spread,
// see sim/fit/constants.h. Errors are of logarithms, so that runs count equally whatever their
// time: 3 %, or the residual with all constants fitted, but at most 6 %, so that a preset that is
// far off is not mistaken for noisy runs. If the runs leave open more than 70 % of a constant's
// usual spread, it is not determined: it keeps its value, the least known first, and the others are
// fitted again. Times and peak memory are separate problems without common constants. A trace's
// times of single kinds count in addition to its run's time, as one measurement each. Plain values;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/fit/constants.h"
#include "sim/fit/least_squares.h"
#include "sim/request/request.h"

namespace pipesim {

// The time of one microbatch through all stages: all its forwards, and all its backwards, with the
// compute of their messages; and all these messages, in both directions. 0 if there are none.
struct KindTimes {
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t messages_ns = 0;
};
KindTimes kind_times(const Costs& costs, const Placement& placement);

struct MeasuredIteration {
  PredictionRequest request;  // its costs are a model's on a cluster
  std::int64_t measured_ns = 0;
  std::optional<std::int64_t> peak_bytes;
  std::optional<KindTimes> kinds;  // from a trace
};

struct PredictedRun {
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;
  KindTimes kinds;
};

// With another cluster than the request's.
PredictedRun predict_on(const Cluster& cluster, const PredictionRequest& request);

struct FittedConstant {
  Constant constant = Constant::efficiency;
  bool is_there = false;   // else it cannot be changed
  bool is_needed = false;  // some run depends on it
  bool is_told = false;
  double by = 0;          // its move from the start's values
  double spread = 0;      // of that, after the fit
  double open_share = 1;  // of the usual spread, with all constants free
};

// The fit of one problem: times, or peaks.
struct FittedQuestion {
  double noise = 0;             // shown by the runs, of a logarithm
  std::vector<double> weights;  // of the runs' own times or peaks; little for an outlier
  Matrix open;                  // covariance of all its constants
  // Each run, predicted by the same constants fitted to the others; for peaks, only runs that have
  // one.
  std::vector<std::int64_t> by_others;
};

struct FittedCluster {
  std::vector<FittedConstant> constants;  // of time, then of memory, in their order
  FittedQuestion time;
  std::optional<FittedQuestion> memory;  // if there are enough peaks
  double band = 0;  // error that four of five of the times by others stay within

  // The start with its constants moved.
  Cluster on(const Cluster& start) const;
};

// The least number of runs, or peaks.
inline constexpr std::size_t min_runs = 3;

// Fits times, and peaks if there are `min_runs` of them. Throws an input error for fewer runs,
// except two with traces that measure more than there are constants of time.
FittedCluster fit(const std::vector<MeasuredIteration>& runs, const Cluster& start);

// The uncertainty of the logarithm of a run's prediction, and the constant whose spread its
// measurement would narrow most.
struct Promise {
  double spread = 0;
  Constant constant = Constant::efficiency;
  double spread_before = 0;  // of that constant
  double spread_after = 0;
};
Promise promise_of(const PredictionRequest& request, const FittedCluster& fitted,
                   const Cluster& start);

}  // namespace pipesim
