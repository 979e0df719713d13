// Fits to runs whose constants are known, since predictions with them replace measurements.
#include "sim/fit/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sim/fit/cluster_file.h"
#include "tests/errors.h"
#include "tests/files.h"
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

const FitStart preset_start{"dgx-h100", "nanotron"};

Cluster preset() { return find_start(preset_start); }

Cluster with_factors(const std::map<Constant, double>& factors) {
  Cluster cluster = preset();
  for (const auto& [constant, factor] : factors) move(constant, std::log(factor), cluster);
  return cluster;
}

double factor_of(const FittedConstant& one) { return std::exp(one.by); }

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

// Beside an iteration's time, peaks of memory, and what traces would tell.
enum class Tells { time, peaks, kinds };

// What would be measured on that cluster.
std::vector<MeasuredIteration> runs_on(const Cluster& truth, const std::vector<RunSize>& sizes,
                                       Tells tells = Tells::time) {
  std::vector<MeasuredIteration> runs;
  for (const RunSize& size : sizes) {
    MeasuredIteration run;
    run.request = request_of(size);
    const PredictedRun measured = predict_on(truth, run.request);
    run.measured_ns = measured.iteration_ns;
    if (tells == Tells::peaks) run.peak_bytes = measured.peak_bytes;
    if (tells == Tells::kinds) run.kinds = measured.kinds;
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

// At a bound the gradient is that of the side on which there is anything.
TEST(LeastSquares, LooksNoFurtherThanBounds) {
  LeastSquares problem;
  problem.unknowns = {{1, 0, 5}};
  problem.measured = {0.6, 0.6};
  problem.noise = 0.01;
  Point predicted;
  problem.predict = [&](const Point& at) -> const Point& {
    EXPECT_GE(at[0], 0);
    predicted.assign(2, 2 * at[0]);
    return predicted;
  };
  EXPECT_NEAR(gradients_at(problem, {0}, 2, {true})[0][0], 2, 1e-9);
  EXPECT_NEAR(solve(problem, {true}, {true, true}, {0}).at[0], 0.3, 1e-3);
}

TEST(Fit, FindsOneConstant) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}});
  const std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes);
  const FittedCluster fitted = fit(runs, preset());
  EXPECT_TRUE(constant_of(fitted, Constant::efficiency).is_told);
  EXPECT_NEAR(factor_of(constant_of(fitted, Constant::efficiency)), 0.8, 0.008);
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
  // Times of products and of bytes grow alike with a run's size: they trade against each other.
  EXPECT_NEAR(factor_of(constant_of(fitted, Constant::efficiency)), 0.8, 0.05);
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
    EXPECT_EQ(one.by, 0) << name_of(constant);
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
    EXPECT_LT(fitted.time.weights[static_cast<std::size_t>(outlier)], 0.3);
    runs.erase(runs.begin() + outlier);
    EXPECT_LT(worst_error(fitted.on(preset()), runs), 0.03) << outlier << " x " << factor;
  }
}

TEST(Fit, IsTheSameTwice) {
  const std::vector<MeasuredIteration> runs =
      runs_on(with_factors({{Constant::host, 1.7}}), many_sizes);
  const auto text = [&] {
    return cluster_file(preset_start, {"mine", "runs.csv"}, fit(runs, preset()), preset());
  };
  EXPECT_EQ(text(), text());
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
    if (one.by == 0) one.by = -0.1;
  }
  const std::string text = cluster_file(preset_start, {"mine", "runs.csv"}, fitted, preset());
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

// ---- Memory

Cluster with_memory(double activations, double state_bytes, std::int64_t reserved_bytes) {
  Cluster cluster = preset();
  cluster.device.software.activation_memory = activations;
  cluster.device.software.state_bytes = state_bytes;
  cluster.device.software.reserved_bytes = reserved_bytes;
  return cluster;
}

constexpr std::int64_t gib = 1 << 30;

bool holds(const FittedConstant& one, double by) {
  const Range interval = interval_of(one, preset());
  return interval.least <= by && by <= interval.most;
}

TEST(Fit, FindsMemory) {
  const Cluster truth = with_memory(1.4, 1.5, 3 * gib);
  const std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes, Tells::peaks);
  const FittedCluster fitted = fit(runs, preset());
  ASSERT_TRUE(fitted.memory);
  EXPECT_TRUE(holds(constant_of(fitted, Constant::activation_memory), std::log(1.4)));
  EXPECT_TRUE(holds(constant_of(fitted, Constant::state_bytes), 1.5));
  EXPECT_TRUE(holds(constant_of(fitted, Constant::reserved_memory), 3));
  EXPECT_TRUE(constant_of(fitted, Constant::activation_memory).is_told);
  const Cluster after = fitted.on(preset());
  ASSERT_EQ(fitted.memory->by_others.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto measured = static_cast<double>(*runs[i].peak_bytes);
    const auto predicted = static_cast<double>(predict_on(after, runs[i].request).peak_bytes);
    EXPECT_NEAR(predicted / measured, 1, 0.03) << i;
    EXPECT_NEAR(static_cast<double>(fitted.memory->by_others[i]) / measured, 1, 0.08) << i;
  }
  // Times have nothing to do with it.
  EXPECT_EQ(fitted.on(preset()).device.software.efficiency,
            fit(runs_on(truth, many_sizes), preset()).on(preset()).device.software.efficiency);
}

// What is added is never taken off, whatever is measured.
TEST(Fit, ReservesNothingWherePeaksAreLow) {
  std::vector<MeasuredIteration> runs = runs_on(preset(), many_sizes, Tells::peaks);
  for (MeasuredIteration& run : runs) *run.peak_bytes = *run.peak_bytes * 3 / 4;
  const FittedCluster fitted = fit(runs, preset());
  const SoftwareSpec& software = fitted.on(preset()).device.software;
  EXPECT_EQ(software.reserved_bytes, 0);
  EXPECT_EQ(software.state_bytes, 0);
  EXPECT_LT(software.activation_memory, 1);
  for (const Constant constant : {Constant::state_bytes, Constant::reserved_memory}) {
    EXPECT_GE(interval_of(constant_of(fitted, constant), preset()).least, 0);
  }
}

TEST(Fit, LeavesMemoryThatFewRunsTell) {
  const Cluster truth = with_memory(1, 2, 0);
  std::vector<MeasuredIteration> runs = runs_on(truth, many_sizes, Tells::peaks);
  runs.resize(4);
  runs[2].peak_bytes.reset();
  const FittedCluster three = fit(runs, preset());
  ASSERT_TRUE(three.memory);
  EXPECT_EQ(three.memory->by_others.size(), 3U);
  EXPECT_TRUE(holds(constant_of(three, Constant::state_bytes), 2));
  runs[1].peak_bytes.reset();
  const FittedCluster two = fit(runs, preset());
  EXPECT_FALSE(two.memory);
  EXPECT_EQ(two.constants.size(), time_constants.size());
  EXPECT_EQ(two.on(preset()).device.software.state_bytes, 0);
}

// Of activations in pipelines of one stage: what is counted times the factor.
TEST(Fit, MemoryConstantsAddUp) {
  const PredictionRequest request = request_of({1, 1, 1, 1, 1});
  const auto peak = [&](const Cluster& cluster) { return predict_on(cluster, request).peak_bytes; };
  const std::int64_t plain = peak(preset());
  EXPECT_EQ(peak(with_memory(1, 0, 3 * gib)) - plain, 3 * gib);
  const std::int64_t once = peak(with_memory(1.5, 0, 0)) - plain;
  EXPECT_GT(once, 0);
  EXPECT_NEAR(static_cast<double>(peak(with_memory(2, 0, 0)) - plain),
              2 * static_cast<double>(once), 100);
  const CostModel model =
      std::get<TrainingRequest>(request.costs.costs).with_ranks(request.schedule.schedule.ranks());
  const std::int64_t parameters =
      model.parameters({request.schedule.schedule.placement, false, {}})[0];
  EXPECT_NEAR(static_cast<double>(peak(with_memory(1, 0.5, 0)) - plain),
              0.5 * static_cast<double>(parameters), 100);
}

// ---- Traces

const std::vector<RunSize> two_sizes{{2, 4, 1, 1, 8}, {8, 2, 1, 4, 4}};

TEST(Fit, TracesTellWhatTimesDoNot) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}, {Constant::p2p_overhead, 4}});
  const std::vector<RunSize> sizes(many_sizes.begin() + 2, many_sizes.begin() + 6);
  const FittedCluster by_times = fit(runs_on(truth, sizes), preset());
  const FittedCluster by_traces = fit(runs_on(truth, sizes, Tells::kinds), preset());
  int narrower = 0;
  for (const Constant constant : time_constants) {
    const double without = constant_of(by_times, constant).open_share;
    const double with = constant_of(by_traces, constant).open_share;
    EXPECT_LE(with, without + 1e-9) << name_of(constant);
    if (with < 0.9 * without) ++narrower;
  }
  EXPECT_GE(narrower, 2);
  EXPECT_TRUE(holds(constant_of(by_traces, Constant::efficiency), std::log(0.8)));
}

TEST(Fit, TwoTracesAreEnough) {
  const Cluster truth = with_factors({{Constant::efficiency, 0.8}});
  const std::vector<MeasuredIteration> runs = runs_on(truth, two_sizes, Tells::kinds);
  const FittedCluster fitted = fit(runs, preset());
  EXPECT_TRUE(constant_of(fitted, Constant::efficiency).is_told);
  EXPECT_TRUE(holds(constant_of(fitted, Constant::efficiency), std::log(0.8)));
  EXPECT_LT(worst_error(fitted.on(preset()), runs), 0.03);
  ASSERT_EQ(fitted.time.by_others.size(), 2U);
}

TEST(Fit, RefusesTooFewRuns) {
  const auto refusal = [](const std::vector<RunSize>& sizes, Tells tells) {
    return testing::input_error_of([&] { fit(runs_on(preset(), sizes, tells), preset()); });
  };
  EXPECT_EQ(refusal(two_sizes, Tells::time),
            "has 2 runs, which is too little; measure 3 or more, or two with traces that give "
            "more times than the 7 constants that are fitted");
  EXPECT_EQ(refusal({two_sizes[0]}, Tells::kinds),
            "has 1 run, which is too little; measure 3 or more, or two with traces that give "
            "more times than the 7 constants that are fitted");
  // Without messages each trace gives two times besides the iteration's.
  EXPECT_EQ(refusal({lone_device[0], lone_device[1]}, Tells::kinds),
            "has 2 runs, which is too little; measure 3 or more, or two with traces that give "
            "more times than the 7 constants that are fitted: these give 6");
}

// ---- Starts of one's own

// The file that a fit writes needs none of those that it started from, and predicts as the fit.
void expect_file_says_it_all(const FitStart& start, FittedCluster fitted) {
  const Cluster cluster = find_start(start);
  for (FittedConstant& one : fitted.constants) {
    one.is_told = has(cluster, one.constant);
    if (one.by == 0) one.by = range_of(cluster, one.constant).most > 0.05 ? 0.05 : -0.05;
  }
  const std::string text = cluster_file(start, {"mine", "runs.csv"}, fitted, cluster);
  const Cluster read = parse_cluster(text, "elsewhere/mine.json");
  const Cluster meant = fitted.on(cluster);
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.device.software.name, meant.device.software.name) << text;
  for (const RunSize& size : many_sizes) {
    const PredictedRun by_file = predict_on(read, request_of(size));
    const PredictedRun by_fit = predict_on(meant, request_of(size));
    EXPECT_NEAR(
        static_cast<double>(by_file.iteration_ns) / static_cast<double>(by_fit.iteration_ns), 1,
        1e-4)
        << text;
    EXPECT_NEAR(static_cast<double>(by_file.peak_bytes) / static_cast<double>(by_fit.peak_bytes), 1,
                1e-4)
        << text;
  }
}

TEST(FitStarts, AreWrittenWhole) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return folder / name;
  };
  const std::string whole_software =
      R"({"format":"pipesim-software","version":1,"name":"own","title":"Own",)"
      R"("values":{"efficiency":0.6,"host_forward":"1ms","p2p_overhead":"0.1ms"},)"
      R"("devices":{"h100-sxm-80gb":{"efficiency":0.65,"kernel_gap":"3us"}}})";
  const std::string own = write("own_software.json", whole_software);
  const std::string changed =
      write("changed_software.json",
            R"({"format":"pipesim-software","version":1,"name":"changed","base":"nemo",)"
            R"("values":{"reserved_memory":"1GiB","state_bytes":0.5}})");
  std::string device(device_preset("h100-sxm-80gb"));
  const std::string software = R"("software": {"base": "megatron-core"})";
  device.replace(device.find(software), software.size(),
                 R"("software": {"base": "megatron-core", "efficiency": 0.9})");
  write("device.json", device);
  const std::string based = write(
      "based.json", R"({"format":"pipesim-cluster","version":1,"name":"based","base":"dgx-h100",)"
                    R"("device":{"memory":"60GiB","software":{"base":"nemo","efficiency":0.9}},)"
                    R"("network":{"share":0.5}})");
  std::string text(cluster_preset("dgx-h100"));
  const std::string named = R"("device": "h100-sxm-80gb")";
  ASSERT_NE(text.find(named), std::string::npos);
  const std::string with_preset = write("with_preset.json", text);
  text.replace(text.find(named), named.size(), R"("device": "./device.json")");
  const std::string with_file = write("with_file.json", text);
  const FittedCluster fitted =
      fit(runs_on(with_memory(1.2, 1, gib), lone_device, Tells::peaks), preset());
  for (const std::string& cluster : {std::string("dgx-h100"), based, with_preset, with_file}) {
    for (const std::optional<std::string>& software_of :
         {std::optional<std::string>(), std::optional<std::string>("torchtitan"),
          std::optional(own), std::optional(changed)}) {
      SCOPED_TRACE(cluster + " with " + software_of.value_or("its own"));
      expect_file_says_it_all({cluster, software_of}, fitted);
    }
  }
  // A fit starts from what another one wrote, too.
  const FitStart start{based, own};
  const std::string first =
      write("first.json", cluster_file(start, {"first", "runs.csv"}, fitted, find_start(start)));
  expect_file_says_it_all({first, std::nullopt}, fitted);
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
