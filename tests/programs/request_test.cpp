// A prediction asked for in code is the one that the command line gives.
#include "sim/request/request.h"

#include <gtest/gtest.h>

#include "sim/cost/hardware/cluster.h"
#include "sim/request/result_json.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

std::string result_of_request(PredictionRequest request) {
  const PreparedPrediction prepared = prepare(std::move(request));
  const Prediction prediction = prepared.predict();
  const Shape& shape = prepared.choice.shape;
  const ScheduleRequest generated{.name = std::string(prepared.choice.family->name),
                                  .ranks = shape.ranks,
                                  .microbatches = shape.microbatches};
  return result_json(prepared.choice.schedule, prediction, prepared.memory_cap_bytes,
                     prepared.model, {}, {}, {}, find_notes(prepared, prediction, generated));
}

PredictionRequest request_for(const char* schedule, int ranks, int microbatches) {
  PredictionRequest request;
  request.schedule =
      choose_schedule({.name = schedule, .ranks = ranks, .microbatches = microbatches});
  return request;
}

// ZB-H1 and ZB-H2 are alike for one iteration; what follows tells them apart.
TEST(Request, SplitBackwardsGainFromTheIterationBefore) {
  const auto split_of = [](const char* schedule) {
    return split_backward(prepare(request_for(schedule, 4, 8)));
  };
  EXPECT_FALSE(split_of("1f1b"));
  // 1 ms for each F, I and W: 8 x 3 ms of work, and H1 waits (p-1)(F+I-W).
  EXPECT_EQ(split_of("zb-h1")->steady_ns, 27'000'000);
  EXPECT_EQ(split_of("zb-h2")->steady_ns, 24'000'000);
  EXPECT_EQ(split_of("zb-h1")->chunks_until_weights, 4);
  EXPECT_EQ(split_of("zb-h2")->chunks_until_weights, 7);
  const std::string shape = " --stages 4 --microbatches 8";
  EXPECT_NE(testing::unwrapped(testing::output_of("--schedule zb-h2" + shape))
                .find("; further iterations would take 24.00 ms each"),
            std::string::npos);
  EXPECT_EQ(testing::output_of("--schedule zb-h1" + shape).find("further iterations"),
            std::string::npos);
}

TEST(Request, IsWhatTheCommandLineAsks) {
  const std::string four = "--schedule 1f1b --stages 4 --microbatches 8 --json";
  EXPECT_EQ(result_of_request(request_for("1f1b", 4, 8)), testing::output_of(four));

  PredictionRequest given = request_for("1f1b", 4, 8);
  GivenCosts costs;
  costs.forward_ns = {1'000'000, 1'000'000, 2'000'000, 1'000'000};
  costs.backward_ns = {3'000'001};
  costs.p2p.latency_ns = 5000;
  given.costs.costs = costs;
  given.costs.p2p = P2p::fifo;
  given.iterations = 3;
  given.memory_cap_bytes = 1 << 30;
  EXPECT_EQ(result_of_request(given),
            testing::output_of(four + " --forward 1ms,1ms,2ms,1ms --backward 3000001ns --p2p fifo"
                                      " --p2p-latency 5us --iterations 3 --memory-cap 1GiB"));

  PredictionRequest layers = request_for("interleaved", 2, 4);
  layers.costs.costs = read_costs(testing::source_file("examples/uneven_costs.json"));
  layers.costs.layout = std::vector<int>{2, 3, 2, 1};
  EXPECT_EQ(
      result_of_request(layers),
      testing::output_of("--schedule interleaved --stages 2 --microbatches 4 --json --costs " +
                         testing::source_file("examples/uneven_costs.json") + " --layout 2,3,2,1"));

  PredictionRequest trained = request_for("1f1b", 4, 8);
  TrainingRequest training;
  training.model = find_model("gpt2-small");
  training.cluster = find_cluster("dgx-a100");
  training.training.sequence_length = training.model.max_sequence_length;
  training.training.attention = Attention::unfused;
  training.training.gradient_bytes = 2;
  trained.costs.costs = training;
  EXPECT_EQ(result_of_request(trained), testing::output_of(testing::small + " --json"));
}

TEST(Request, IsRefusedWhereItContradictsItself) {
  const auto refused = [](const PredictionRequest& request) {
    return testing::error_of([&] { prepare(request); });
  };
  PredictionRequest request = request_for("1f1b", 4, 8);
  request.memory_cap_bytes = 0;
  EXPECT_TRUE(refused(request).starts_with("--memory-cap: a rank of 0 bytes"));
  request = request_for("1f1b", 4, 8);
  GivenCosts costs;
  costs.forward_ns = {1, 2};
  request.costs.costs = costs;
  EXPECT_EQ(refused(request),
            "--forward: 2 values for 4 virtual stages; give one value, or one per virtual stage");
  costs.forward_ns.clear();
  costs.backward_ns = costs.backward_input_ns = {5};
  request.costs.costs = costs;
  EXPECT_EQ(refused(request),
            "--backward and --backward-input, --backward-weight exclude each other");
  request = request_for("1f1b", 4, 8);
  request.costs.layout = std::vector<int>{2, 2, 2, 2};
  EXPECT_TRUE(refused(request).starts_with("--layout: needs costs by layer"));
  request = request_for("1f1b", 4, 8);
  request.schedule.schedule.lane = TransferLane::rank;
  request.costs.p2p = P2p::edge_fifo;
  EXPECT_EQ(refused(request), "--p2p edge-fifo: " + request.schedule.schedule.name +
                                  " puts its transfers on streams of fifo; omit it");
}

}  // namespace
}  // namespace pipesim
