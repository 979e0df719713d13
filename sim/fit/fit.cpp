#include "sim/fit/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>

#include "traces/base/portable_math.h"

namespace pipesim {
namespace {

constexpr double least_noise = 0.03;
constexpr double most_noise = 0.06;
constexpr double told_share = 0.7;
constexpr double no_gradient = 1e-9;

Cluster scaled(const Cluster& preset, const Point& at) {
  Cluster cluster = preset;
  for (std::size_t j = 0; j < at.size(); ++j) {
    if (at[j] != 0) scale(all_constants[j], exponential(at[j]), cluster);
  }
  return cluster;
}

double log_of(std::int64_t ns) {
  return logarithm(static_cast<double>(std::max<std::int64_t>(ns, 1)));
}

// Logarithms of what all runs take, each place looked at once.
class Predictions {
 public:
  Predictions(std::vector<const PredictionRequest*> requests, const Cluster& preset)
      : requests_(std::move(requests)), preset_(preset) {}

  const Point& at(const Point& place) {
    const auto [found, is_new] = known_.try_emplace(place);
    if (!is_new) return found->second;
    const Cluster cluster = scaled(preset_, place);
    for (const PredictionRequest* one : requests_) {
      found->second.push_back(log_of(predict_on(cluster, *one).iteration_ns));
    }
    return found->second;
  }

 private:
  std::vector<const PredictionRequest*> requests_;
  const Cluster& preset_;
  std::map<Point, Point> known_;
};

struct Told {
  Solution solution;
  std::vector<bool> constants;
  Point open_shares;  // with all constants free
};

double spread_in(const Matrix& covariance, std::size_t j) { return std::sqrt(covariance[j][j]); }

// Which constants some of the used runs depend on.
std::vector<bool> needed_by(const Matrix& gradients, const std::vector<bool>& used) {
  std::vector<bool> needed(all_constants.size(), false);
  for (std::size_t i = 0; i < used.size(); ++i) {
    for (std::size_t j = 0; used[i] && j < needed.size(); ++j) {
      if (std::abs(gradients[i][j]) > no_gradient) needed[j] = true;
    }
  }
  return needed;
}

// Those that the used runs tell, and what they are.
Told tell(LeastSquares problem, const std::vector<bool>& there, const std::vector<bool>& used,
          Point start) {
  const Matrix gradients = gradients_at(problem.predict, start, used.size(), there);
  Told told{{}, needed_by(gradients, used), Point(there.size(), 1)};
  told.solution = solve(problem, told.constants, used, std::move(start));
  problem.noise = std::clamp(shown_noise(problem, told.solution, told.constants, used), least_noise,
                             most_noise);
  start = told.solution.at;
  bool is_first = true;
  while (true) {
    told.solution = solve(problem, told.constants, used, std::move(start));
    const Matrix left = covariance(problem, told.solution, told.constants, used);
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

}  // namespace

PredictedRun predict_on(const Cluster& cluster, const PredictionRequest& request) {
  PredictionRequest own = request;
  std::get<TrainingRequest>(own.costs.costs).cluster = cluster;
  const Prediction prediction = prepare(std::move(own)).predict();
  return {prediction.iteration_ns(), prediction.peak_memory_bytes()};
}

Cluster FittedCluster::on(const Cluster& preset) const {
  Cluster cluster = preset;
  for (const FittedConstant& one : constants) {
    if (one.is_told) scale(one.constant, one.factor, cluster);
  }
  return cluster;
}

FittedCluster fit(const std::vector<MeasuredIteration>& runs, const Cluster& preset) {
  LeastSquares problem;
  std::vector<bool> there;
  for (const Constant constant : all_constants) {
    problem.unknowns.push_back(
        {usual_spread(constant), -logarithm(10), logarithm(most_factor(preset, constant))});
    there.push_back(has(preset, constant));
  }
  std::vector<const PredictionRequest*> requests;
  for (const MeasuredIteration& run : runs) {
    requests.push_back(&run.request);
    problem.measured.push_back(log_of(run.measured_ns));
  }
  Predictions predictions(std::move(requests), preset);
  problem.predict = [&](const Point& at) -> const Point& { return predictions.at(at); };
  problem.noise = least_noise;

  const std::vector<bool> all(runs.size(), true);
  const Told told = tell(problem, there, all, Point(all_constants.size(), 0));
  Solution solution = told.solution;
  solution.gradients = gradients_at(problem.predict, solution.at, runs.size(), there);
  const std::vector<bool> needed = needed_by(solution.gradients, all);
  const Matrix known = covariance(problem, solution, told.constants, all);
  FittedCluster fitted;
  fitted.noise = solution.noise;
  fitted.weights = solution.weights;
  fitted.open = covariance(problem, solution, there, all);
  for (std::size_t j = 0; j < all_constants.size(); ++j) {
    FittedConstant one{all_constants[j], there[j]};
    one.is_needed = needed[j];
    one.is_told = told.constants[j];
    one.open_share = told.open_shares[j];
    one.spread = problem.unknowns[j].spread;
    if (one.is_told) {
      one.factor = exponential(solution.at[j]);
      one.spread = spread_in(known, j);
    }
    fitted.constants.push_back(one);
  }
  problem.noise = solution.noise;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<bool> others = all;
    others[i] = false;
    const Solution without = solve(problem, told.constants, others, solution.at);
    const Cluster cluster = scaled(preset, without.at);
    fitted.by_others_ns.push_back(predict_on(cluster, runs[i].request).iteration_ns);
  }
  fitted.band = band_of(runs, fitted.by_others_ns);
  return fitted;
}

Promise promise_of(const PredictionRequest& request, const FittedCluster& fitted,
                   const Cluster& preset) {
  Predictions predictions({&request}, preset);
  Point at;
  for (const FittedConstant& one : fitted.constants) {
    at.push_back(one.is_told ? logarithm(one.factor) : 0);
  }
  const Point gradient =
      gradients_at([&](const Point& place) -> const Point& { return predictions.at(place); }, at, 1,
                   std::vector<bool>(at.size(), true))[0];
  Promise promise;
  const double variance = variance_of(gradient, fitted.open);
  promise.spread = std::sqrt(variance);
  const double noise = fitted.noise * fitted.noise;
  double least = 1;
  for (std::size_t j = 0; j < at.size(); ++j) {
    const double before = fitted.open[j][j];
    if (before == 0) continue;
    double along = 0;
    for (std::size_t k = 0; k < at.size(); ++k) along += fitted.open[j][k] * gradient[k];
    const double after = before - along * along / (noise + variance);
    if (after / before >= least) continue;
    least = after / before;
    promise.constant = all_constants[j];
    promise.spread_before = std::sqrt(before);
    promise.spread_after = std::sqrt(after);
  }
  return promise;
}

}  // namespace pipesim
