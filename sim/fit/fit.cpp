#include "sim/fit/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "traces/base/error.h"
#include "traces/base/portable_math.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr double min_noise = 0.03;
constexpr double max_noise = 0.06;
constexpr double told_share = 0.7;
constexpr double no_gradient = 1e-9;

using Constants = std::span<const Constant>;

Cluster moved(const Cluster& start, Constants constants, const Point& at) {
  Cluster cluster = start;
  for (std::size_t j = 0; j < at.size(); ++j) {
    if (at[j] != 0) move(constants[j], at[j], cluster);
  }
  return cluster;
}

// One measured number of a run, and its place in a prediction.
struct Measurement {
  std::size_t run = 0;
  std::int64_t value = 0;
  std::int64_t (*predicted)(const PredictedRun&) = nullptr;
};

double log_of(std::int64_t value) {
  return logarithm(static_cast<double>(std::max<std::int64_t>(value, 1)));
}

// Logarithms of all predicted measurements, each point evaluated once.
class Predictions {
 public:
  Predictions(std::vector<const PredictionRequest*> requests, std::vector<Measurement> measurements,
              Constants constants, const Cluster& start)
      : requests_(std::move(requests)),
        measurements_(std::move(measurements)),
        constants_(constants),
        start_(start) {}

  const Point& at(const Point& place) {
    const auto [found, is_new] = known_.try_emplace(place);
    if (!is_new) return found->second;
    const Cluster cluster = moved(start_, constants_, place);
    std::vector<std::optional<PredictedRun>> runs(requests_.size());
    for (const Measurement& one : measurements_) {
      std::optional<PredictedRun>& run = runs[one.run];
      if (!run) run = predict_on(cluster, *requests_[one.run]);
      found->second.push_back(log_of(one.predicted(*run)));
    }
    return found->second;
  }

 private:
  std::vector<const PredictionRequest*> requests_;
  std::vector<Measurement> measurements_;
  Constants constants_;
  const Cluster& start_;
  std::map<Point, Point> known_;
};

// Sets only the unknowns.
LeastSquares problem_of(Constants constants, const Cluster& start) {
  LeastSquares problem;
  for (const Constant constant : constants) {
    const Range range = range_of(start, constant);
    problem.unknowns.push_back({usual_spread(constant), range.least, range.most});
  }
  problem.noise = min_noise;
  return problem;
}

struct Told {
  Solution solution;
  std::vector<bool> constants;
  Point open_shares;  // with all constants free
};

double spread_in(const Matrix& covariance, std::size_t j) { return std::sqrt(covariance[j][j]); }

// Which constants some measurement depends on.
std::vector<bool> needed_by(const Matrix& gradients, std::size_t constants) {
  std::vector<bool> needed(constants, false);
  for (const Point& gradient : gradients) {
    for (std::size_t j = 0; j < constants; ++j) {
      if (std::abs(gradient[j]) > no_gradient) needed[j] = true;
    }
  }
  return needed;
}

// Finds the constants that the measurements determine, and their values.
Told tell(LeastSquares problem, const std::vector<bool>& there) {
  const std::vector<bool> all(problem.measured.size(), true);
  Point start(there.size(), 0);
  const Matrix gradients = gradients_at(problem, start, all.size(), there);
  Told told{{}, needed_by(gradients, there.size()), Point(there.size(), 1)};
  told.solution = solve(problem, told.constants, all, std::move(start));
  problem.noise =
      std::clamp(shown_noise(problem, told.solution, told.constants, all), min_noise, max_noise);
  start = told.solution.at;
  bool is_first = true;
  while (true) {
    told.solution = solve(problem, told.constants, all, std::move(start));
    const Matrix left = covariance(problem, told.solution, told.constants, all);
    double most = told_share;
    for (std::size_t j = 0; j < there.size(); ++j) {
      if (!told.constants[j]) continue;
      const double share = spread_in(left, j) / problem.unknowns[j].spread;
      if (is_first) told.open_shares[j] = share;
      most = std::max(most, share);
    }
    is_first = false;
    if (most <= told_share) return told;
    start = told.solution.at;
    for (std::size_t j = 0; j < there.size(); ++j) {
      if (!told.constants[j] || spread_in(left, j) / problem.unknowns[j].spread < most) continue;
      told.constants[j] = false;  // the least known one
      start[j] = 0;
    }
  }
}

double band_of(const std::vector<MeasuredIteration>& runs,
               const std::vector<std::int64_t>& predicted) {
  std::vector<double> sizes;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto measured = static_cast<double>(runs[i].measured_ns);
    sizes.push_back(std::abs(static_cast<double>(predicted[i]) / measured - 1));
  }
  std::ranges::sort(sizes);
  return sizes[(4 * sizes.size() + 4) / 5 - 1];
}

// ---- The two problems

// Each run's own first.
std::vector<Measurement> times_of(const std::vector<MeasuredIteration>& runs) {
  std::vector<Measurement> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    all.push_back(
        {i, runs[i].measured_ns, [](const PredictedRun& run) { return run.iteration_ns; }});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].kinds) continue;
    const KindTimes& kinds = *runs[i].kinds;
    const auto add = [&](std::int64_t ns, std::int64_t (*predicted)(const PredictedRun&)) {
      if (ns > 0) all.push_back({i, ns, predicted});
    };
    add(kinds.forward_ns, [](const PredictedRun& run) { return run.kinds.forward_ns; });
    add(kinds.backward_ns, [](const PredictedRun& run) { return run.kinds.backward_ns; });
    add(kinds.messages_ns, [](const PredictedRun& run) { return run.kinds.messages_ns; });
  }
  return all;
}

std::vector<Measurement> peaks_of(const std::vector<MeasuredIteration>& runs) {
  std::vector<Measurement> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].peak_bytes) continue;
    all.push_back({i, *runs[i].peak_bytes, [](const PredictedRun& run) { return run.peak_bytes; }});
  }
  return all;
}

// Appends its constants to `all`. The first `own` measurements are the runs' own, one each.
FittedQuestion answer(const std::vector<MeasuredIteration>& runs,
                      const std::vector<Measurement>& measurements, std::size_t own,
                      Constants constants, const Cluster& start, std::vector<FittedConstant>& all) {
  LeastSquares problem = problem_of(constants, start);
  std::vector<bool> there;
  for (const Constant constant : constants) there.push_back(has(start, constant));
  std::vector<const PredictionRequest*> requests;
  for (const MeasuredIteration& run : runs) requests.push_back(&run.request);
  for (const Measurement& one : measurements) problem.measured.push_back(log_of(one.value));
  Predictions predictions(std::move(requests), measurements, constants, start);
  problem.predict = [&](const Point& at) -> const Point& { return predictions.at(at); };

  const std::vector<bool> every(measurements.size(), true);
  const Told told = tell(problem, there);
  Solution solution = told.solution;
  solution.gradients = gradients_at(problem, solution.at, measurements.size(), there);
  const std::vector<bool> needed = needed_by(solution.gradients, constants.size());
  const Matrix known = covariance(problem, solution, told.constants, every);
  for (std::size_t j = 0; j < constants.size(); ++j) {
    FittedConstant one{constants[j], there[j]};
    one.is_needed = needed[j];
    one.is_told = told.constants[j];
    one.open_share = told.open_shares[j];
    one.spread = one.is_told ? spread_in(known, j) : problem.unknowns[j].spread;
    if (one.is_told) one.by = solution.at[j];
    all.push_back(one);
  }
  FittedQuestion fitted;
  fitted.noise = solution.noise;
  fitted.weights.assign(solution.weights.begin(),
                        solution.weights.begin() + static_cast<std::ptrdiff_t>(own));
  fitted.open = covariance(problem, solution, there, every);
  problem.noise = solution.noise;
  for (std::size_t i = 0; i < own; ++i) {
    const Measurement& left_out = measurements[i];
    std::vector<bool> others = every;
    for (std::size_t m = 0; m < others.size(); ++m) {
      if (measurements[m].run == left_out.run) others[m] = false;
    }
    const Solution without = solve(problem, told.constants, others, solution.at);
    const Cluster cluster = moved(start, constants, without.at);
    fitted.by_others.push_back(left_out.predicted(predict_on(cluster, runs[left_out.run].request)));
  }
  return fitted;
}

// Two runs can be enough if their traces measure more numbers than there are constants: one remains
// to predict the other.
void require_enough(const std::vector<MeasuredIteration>& runs,
                    const std::vector<Measurement>& times, const Cluster& start) {
  if (runs.size() >= min_runs) return;
  const auto constants = static_cast<std::size_t>(
      std::ranges::count_if(time_constants, [&](Constant one) { return has(start, one); }));
  const bool have_traces =
      std::ranges::all_of(runs, [](const MeasuredIteration& run) { return run.kinds.has_value(); });
  if (runs.size() + 1 == min_runs && have_traces && times.size() > constants) return;
  throw input_error(fmt::format(
      "has {}, which is too little; measure {} or more, or two with traces that give more times "
      "than the {} that are fitted{}",
      plural(static_cast<std::int64_t>(runs.size()), "run"), min_runs,
      plural(static_cast<std::int64_t>(constants), "constant"),
      have_traces && runs.size() + 1 == min_runs ? fmt::format(": these give {}", times.size())
                                                 : ""));
}

}  // namespace

KindTimes kind_times(const Costs& costs, const Placement& placement) {
  KindTimes times;
  const int stages = placement.stages();
  for (int s = 0; s < stages; ++s) {
    const StageCosts& stage = costs.of(s, 0, placement);
    times.forward_ns += stage.duration_ns(Kind::F);
    times.backward_ns += stage.duration_ns(Kind::B);
    if (s + 1 == stages) break;
    const int from = placement.rank_of(s);
    const int to = placement.rank_of(s + 1);
    if (from == to) continue;
    for (const Link* link : {&costs.link(from, to), &costs.link(to, from)}) {
      times.messages_ns += link->latency_ns + costs.occupied_ns(*link, stage.output_bytes);
    }
  }
  return times;
}

PredictedRun predict_on(const Cluster& cluster, const PredictionRequest& request) {
  PredictionRequest own = request;
  std::get<TrainingRequest>(own.costs.costs).cluster = cluster;
  const PreparedPrediction prepared = prepare(std::move(own));
  const Prediction prediction = prepared.predict();
  return {prediction.iteration_ns(), prediction.peak_memory_bytes(),
          kind_times(prepared.costs, prepared.choice.schedule.placement)};
}

Cluster FittedCluster::on(const Cluster& start) const {
  Cluster cluster = start;
  for (const FittedConstant& one : constants) {
    if (one.is_told) move(one.constant, one.by, cluster);
  }
  return cluster;
}

FittedCluster fit(const std::vector<MeasuredIteration>& runs, const Cluster& start) {
  const std::vector<Measurement> times = times_of(runs);
  require_enough(runs, times, start);
  FittedCluster fitted;
  fitted.time = answer(runs, times, runs.size(), time_constants, start, fitted.constants);
  const std::vector<Measurement> peaks = peaks_of(runs);
  if (peaks.size() >= min_runs) {
    fitted.memory = answer(runs, peaks, peaks.size(), memory_constants, start, fitted.constants);
  }
  fitted.band = band_of(runs, fitted.time.by_others);
  return fitted;
}

Promise promise_of(const PredictionRequest& request, const FittedCluster& fitted,
                   const Cluster& start) {
  LeastSquares problem = problem_of(time_constants, start);
  Predictions predictions({&request},
                          {{0, 0, [](const PredictedRun& run) { return run.iteration_ns; }}},
                          time_constants, start);
  problem.predict = [&](const Point& place) -> const Point& { return predictions.at(place); };
  Point at;
  for (std::size_t j = 0; j < time_constants.size(); ++j) at.push_back(fitted.constants[j].by);
  const Point gradient = gradients_at(problem, at, 1, std::vector<bool>(at.size(), true))[0];
  const Matrix& open = fitted.time.open;
  Promise promise;
  const double variance = variance_of(gradient, open);
  promise.spread = std::sqrt(variance);
  const double noise = fitted.time.noise * fitted.time.noise;
  double least = 1;
  for (std::size_t j = 0; j < at.size(); ++j) {
    const double before = open[j][j];
    if (before == 0) continue;
    double along = 0;
    for (std::size_t k = 0; k < at.size(); ++k) along += open[j][k] * gradient[k];
    const double after = before - along * along / (noise + variance);
    if (after / before >= least) continue;
    least = after / before;
    promise.constant = time_constants[j];
    promise.spread_before = std::sqrt(before);
    promise.spread_after = std::sqrt(after);
  }
  return promise;
}

}  // namespace pipesim
