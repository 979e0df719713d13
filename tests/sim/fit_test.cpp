// Fits to runs whose constants are known, since predictions with them stand for measurements.
#include "sim/fit/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sim/fit/cluster_file.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

struct RunSize {
  int tensor, stages, replicas, batch, microbatches;
};

// On four nodes, one, and parts of one.
const std::vector<RunSize> many_sizes{{1, 1, 1, 1, 8}, {1, 1, 1, 4, 2}, {1, 4, 1, 1, 16},
                                      {4, 1, 1, 4, 4}, {8, 2, 1, 1, 8}, {2, 4, 1, 2, 8},
                                      {1, 2, 8, 2, 4}, {8, 1, 4, 8, 1}};
const std::vector<RunSize> lone_device{
    {1, 1, 1, 1, 8}, {1, 1, 1, 2, 4}, {1, 1, 1, 4, 2}, {1, 1, 1, 8, 2}};

Cluster preset() {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.device.software = find_software("nanotron", cluster.device.kind);
  return cluster;
}

Cluster with_factors(const std::map<Constant, double>& factors) {
  Cluster cluster = preset();
  for (const auto& [constant, factor] : factors) scale(constant, factor, cluster);
  return cluster;
}

PredictionRequest request_of(const RunSize& size) {
  TrainingRequest training;
  training.model = find_model("llama-3-8b");
  training.cluster = preset();
  training.training.sequence_length = 4096;
  training.training.micro_batch_size = size.batch;
  training.training.tensor_parallel = size.tensor;
  training.training.data_parallel = size.replicas;
  training.training.attention = Attention::fused;
  PredictionRequest request;
  request.schedule = choose_schedule({"1f1b", size.stages, size.microbatches});
  request.costs.costs = std::move(training);
  return request;
}

// What would be measured on that cluster.
std::vector<MeasuredIteration> runs_on(const Cluster& truth, const std::vector<RunSize>& sizes) {
  std::vector<MeasuredIteration> runs;
  for (const RunSize& size : sizes) {
    MeasuredIteration run;
    run.request = request_of(size);
    run.measured_ns = predict_on(truth, run.request).iteration_ns;
    runs.push_back(std::move(run));
  }
  return runs;
}

const FittedConstant& constant_of(const FittedCluster& fitted, Constant constant) {
  return fitted.constants[static_cast<std::size_t>(constant)];
}

double worst_error(const Cluster& cluster, const std::vector<MeasuredIteration>& runs) {
  double worst = 0;
  for (const MeasuredIteration& run : runs) {
    const auto predicted = static_cast<double>(predict_on(cluster, run.request).iteration_ns);
    worst = std::max(worst, std::abs(predicted / static_cast<double>(run.measured_ns) - 1));
  }
  return worst;
}

// Of three lines through known points: by the normal equations, solved by hand.
TEST(LeastSquares, SolvesALinearProblem) {
  LeastSquares problem;
  problem.unknowns = {{1, -10, 10}, {2, -10, 10}};
  problem.measured = {0.01, 0.02, -0.01};
  problem.noise = 0.5;
  Point predicted;
  problem.predict = [&](const Point& at) -> const Point& {
    predicted = {at[0], at[1], at[0] + at[1]};
    return predicted;
  };
  const std::vector<bool> all(3, true), both(2, true);
  const Solution solution = solve(problem, both, all, {0.3, -0.3});
  // (1/s^2 + J'J/n^2) x = J'y/n^2, n^2 = 1/4.
  const double a = 1 + 8, b = 4, c = 0.25 + 8;
  const double u = 4 * (0.01 - 0.01), v = 4 * (0.02 - 0.01);
  const double determinant = a * c - b * b;
  EXPECT_NEAR(solution.at[0], (c * u - b * v) / determinant, 1e-4);
  EXPECT_NEAR(solution.at[1], (a * v - b * u) / determinant, 1e-4);
  const Matrix known = covariance(problem, solution, both, all);
  EXPECT_NEAR(known[0][0], c / determinant, 1e-3);
  EXPECT_NEAR(known[0][1], -b / determinant, 1e-3);
  EXPECT_NEAR(variance_of({1, 1}, known), (a + c - 2 * b) / determinant, 1e-3);
  // One that is not free stays, and is not known any better.
  const Solution first = solve(problem, {true, false}, all, {0, 0});
  EXPECT_EQ(first.at[1], 0);
  EXPECT_EQ(covariance(problem, first, {true, false}, all)[1][1], 0);
}

TEST(LeastSquares, StaysWithinBounds) {
  LeastSquares problem;
  problem.unknowns = {{1, -0.1, 0.1}};
  problem.measured = {1, 1, 1};
  problem.noise = 0.01;
  Point predicted;
  problem.predict = [&](const Point& at) -> const Point& {
    predicted.assign(3, at[0]);
    return predicted;
  };
  EXPECT_EQ(solve(problem, {true}, {true, true, true}, {0}).at[0], 0.1);
}

TEST(Fit, FindsOneConstant) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}});
  const std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes);
  const FittedCluster fitted = fit(runs, preset());
  EXPECT_TRUE(constant_of(fitted, Constant::efficiency).is_told);
  EXPECT_NEAR(constant_of(fitted, Constant::efficiency).factor, 0.8, 0.008);
  EXPECT_LT(worst_error(fitted.on(preset()), runs), 0.01);
  EXPECT_LT(fitted.band, 0.02);
}

TEST(Fit, FindsSeveralConstants) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8},
                                      {Constant::elementwise_traffic, 1.5},
                                      {Constant::host_peers, 2.5},
                                      {Constant::p2p_overhead, 3}});
  const std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes);
  const FittedCluster fitted = fit(runs, preset());
  EXPECT_TRUE(constant_of(fitted, Constant::efficiency).is_told);
  EXPECT_NEAR(constant_of(fitted, Constant::efficiency).factor, 0.8, 0.02);
  EXPECT_LT(worst_error(fitted.on(preset()), runs), 0.02);
  EXPECT_GT(worst_error(preset(), runs), 0.1);
}

// Runs of one device say nothing of links, pipelines, or tensor parallelism.
TEST(Fit, KeepsWhatRunsDoNotTell) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}, {Constant::network, 0.5}});
  const FittedCluster fitted = fit(runs_on(truth, lone_device), preset());
  for (const Constant constant :
       {Constant::host_peers, Constant::p2p_overhead, Constant::network, Constant::collectives}) {
    const FittedConstant& one = constant_of(fitted, constant);
    EXPECT_TRUE(one.is_there);
    EXPECT_FALSE(one.is_needed) << name_of(constant);
    EXPECT_FALSE(one.is_told) << name_of(constant);
    EXPECT_EQ(one.factor, 1) << name_of(constant);
    EXPECT_EQ(one.open_share, 1) << name_of(constant);
  }
  EXPECT_EQ(fitted.on(preset()).network.share, preset().network.share);
  EXPECT_EQ(fitted.on(preset()).device.software.network[0].share,
            preset().device.software.network[0].share);
}

TEST(Fit, DoesNotFollowAnOutlier) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}});
  for (const auto& [outlier, factor] : {std::pair<std::ptrdiff_t, double>(0, 0.5), {3, 1.5}}) {
    std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes);
    MeasuredIteration& wrong = runs[static_cast<std::size_t>(outlier)];
    wrong.measured_ns = std::llround(static_cast<double>(wrong.measured_ns) * factor);
    const FittedCluster fitted = fit(runs, preset());
    EXPECT_LT(fitted.weights[static_cast<std::size_t>(outlier)], 0.3);
    runs.erase(runs.begin() + outlier);
    EXPECT_LT(worst_error(fitted.on(preset()), runs), 0.03) << outlier << " x " << factor;
  }
}

TEST(Fit, IsTheSameTwice) {
  const std::vector<MeasuredIteration> runs =
      runs_on(with_factors({{Constant::host, 1.7}}), many_sizes);
  const ClusterFileNames names{"dgx-h100", "nanotron", "mine", "runs.csv"};
  EXPECT_EQ(cluster_file(names, fit(runs, preset()), preset()),
            cluster_file(names, fit(runs, preset()), preset()));
}

// Values as they are written, rounded, predict nearly the same.
TEST(Fit, WritesWhatItFound) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.85},
                                      {Constant::host, 1.4},
                                      {Constant::network, 0.4},
                                      {Constant::collectives, 0.6}});
  const std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes);
  FittedCluster fitted = fit(runs, preset());
  for (FittedConstant& one : fitted.constants) {  // all of them, whatever was told
    one.is_told = true;
    if (one.factor == 1) one.factor = 0.9;
  }
  const std::string text =
      cluster_file({"dgx-h100", "nanotron", "mine", "runs.csv"}, fitted, preset());
  const Cluster read = parse_cluster(text, "mine.json");
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.device.software.name, "nanotron");
  ASSERT_TRUE(read.error_band);
  EXPECT_EQ(read.error_band->rows, static_cast<std::int64_t>(runs.size()));
  const Cluster meant = fitted.on(preset());
  EXPECT_EQ(read.device.software.host.forward_ns, meant.device.software.host.forward_ns);
  EXPECT_EQ(read.device.software.p2p_overhead_ns, meant.device.software.p2p_overhead_ns);
  EXPECT_EQ(read.node.collectives[0].bytes_per_second, meant.node.collectives[0].bytes_per_second);
  EXPECT_EQ(read.node.collectives[0].latency_ns, meant.node.collectives[0].latency_ns);
  EXPECT_NEAR(read.device.software.efficiency, meant.device.software.efficiency, 1e-5);
  EXPECT_NEAR(read.device.software.network[1].share, meant.device.software.network[1].share, 1e-5);
  for (const MeasuredIteration& run : runs) {
    const auto by_file = static_cast<double>(predict_on(read, run.request).iteration_ns);
    const auto by_fit = static_cast<double>(predict_on(meant, run.request).iteration_ns);
    EXPECT_NEAR(by_file / by_fit, 1, 1e-4);
  }
}

// A run that depends on what the others don't tell is known least.
TEST(Fit, PromisesMostOfWhatIsNotKnown) {
  const FittedCluster fitted =
      fit(runs_on(with_factors({{Constant::efficiency, 0.9}}), lone_device), preset());
  const Promise same = promise_of(request_of(lone_device[0]), fitted, preset());
  const Promise wide = promise_of(request_of({8, 1, 1, 1, 8}), fitted, preset());
  EXPECT_LT(same.spread, 0.03);
  EXPECT_GT(wide.spread, 2 * same.spread);
  // What takes a layer's least time, which several kernels on a part each come near to.
  EXPECT_TRUE(wide.constant == Constant::host || wide.constant == Constant::host_peers);
  EXPECT_LT(wide.spread_after, wide.spread_before);
}

}  // namespace
}  // namespace pipesim
