// A cluster's constants from a few measured iterations: which of them the runs tell, what they are,
// how well that is known, and how well runs are predicted by the others.
//
// A cluster's values, usually a preset's, are where a fit starts, and what it expects: each
// constant by its usual spread, sim/fit/constants.h. Errors are of logarithms, so that runs count
// alike whatever they take: of 3 %, or as much as is left where all constants are fitted, but 6 %
// at most, so that a preset that is far off does not pass for runs that say little. A constant of
// which more than 70 % of the usual spread is left open is not told: it stays as it is, the least
// known first, and the others are fitted again.
//
// Times and peaks of memory are two questions that no constant has in common. What a trace says of
// single kinds counts beside its run's time, as one measurement each. Plain values; any thread.
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

// What one microbatch takes on its way: all its forwards, and all its backwards, with the compute
// of their messages; and all these messages, there and back. 0 where there are none.
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
  std::optional<KindTimes> kinds;  // of a trace
};

struct PredictedRun {
  std::int64_t iteration_ns = 0;
  std::int64_t peak_bytes = 0;
  KindTimes kinds;
};

// On another cluster than the request's.
PredictedRun predict_on(const Cluster& cluster, const PredictionRequest& request);

struct FittedConstant {
  Constant constant = Constant::efficiency;
  bool is_there = false;   // else nothing changes it
  bool is_needed = false;  // some run depends on it
  bool is_told = false;
  double by = 0;          // how far the start's values moved
  double spread = 0;      // of that, as it is known now
  double open_share = 1;  // of the usual spread, where all constants are open
};

// How well a question's constants are told.
struct FittedQuestion {
  double noise = 0;             // that the runs show, of a logarithm
  std::vector<double> weights;  // of the runs' own times or peaks; little for an outlier
  Matrix open;                  // covariance of all its constants
  // Of each run, predicted by the same constants fitted to the others; of peaks, only of runs that
  // have one.
  std::vector<std::int64_t> by_others;
};

struct FittedCluster {
  std::vector<FittedConstant> constants;  // of time, then of memory, in their order
  FittedQuestion time;
  std::optional<FittedQuestion> memory;  // where peaks are enough
  double band = 0;                       // that four of five of the times by others are off by

  // The start with its constants moved.
  Cluster on(const Cluster& start) const;
};

// So many runs, or peaks, are needed at least.
inline constexpr std::size_t least_runs = 3;

// Times are fitted, and peaks where there are `least_runs` of them. Throws an input error where
// there are fewer runs, but for two with traces that measure more than there are constants of time.
FittedCluster fit(const std::vector<MeasuredIteration>& runs, const Cluster& start);

// By how much the logarithm of a run's prediction may be off, and which constant's spread its
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
