// What a trace says of its run, read and written again: nothing is lost or made up.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "sim/engine/record_run.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/files.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"
#include "traces/base/files.h"
#include "traces/chrome_writer.h"
#include "traces/read/read_run.h"
#include "traces/run_metadata.h"

namespace pipesim {
namespace {

// As written in the text of a trace of ours.
std::string metadata_in(const std::string& trace) {
  const std::string before = "\"metadata\":{\"pipesim\":";
  const std::string behind = "},\"traceEvents\":";
  const std::size_t begin = trace.find(before) + before.size();
  return trace.substr(begin, trace.find(behind) - begin);
}

void expect_same_again(const std::string& path) {
  EXPECT_EQ(metadata_json(read_run({path})), metadata_in(read_file(path)));
}

TEST(RoundTrip, OfAPrediction) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    const Schedule schedule = testing::random_schedule(random);
    SimulationOptions options;
    options.transfers.mode = static_cast<P2p>(testing::pick(random, 0, 3));
    options.transfers.eager_limit_bytes = testing::pick(random, 0, 60);
    options.iterations = static_cast<int>(testing::pick(random, 1, 3));
    const std::string path = folder / "p.json";
    Costs costs = testing::random_costs(random, schedule);
    testing::take_time(costs);
    const RecordedRun run = record_run(schedule, costs, options);
    OutputFile file(path);
    write_chrome_trace(run, file);
    file.commit();
    expect_same_again(path);
    // And so are the spans, by iteration.
    const RecordedRun again = read_run({path});
    ASSERT_EQ(again.spans.size(), run.spans.size());
    ASSERT_EQ(again.iterations.size(), run.iterations.size());
    for (std::size_t k = 0; k < run.iterations.size(); ++k) {
      EXPECT_EQ(again.iterations[k].start_ns, run.iterations[k].start_ns);
      EXPECT_EQ(again.iterations[k].makespan_ns, run.iterations[k].makespan_ns);
      EXPECT_EQ(again.iterations[k].follows, k > 0);
    }
    const auto parts = [](const Span& span) {
      return std::tuple(span.action, span.rank, span.iteration, span.start_ns, span.end_ns,
                        span.input_sent_ns, span.input_arrival_ns, span.bytes);
    };
    for (std::size_t s = 0; s < run.spans.size(); ++s) {
      EXPECT_TRUE(parts(again.spans[s]) == parts(run.spans[s])) << to_text(run.spans[s].action);
    }
    if (HasFailure()) break;
  }
}

TEST(RoundTrip, OfAMeasurement) {
  const testing::TemporaryFolder folder;
  const Schedule schedule = generate({"interleaved", 2, 2});
  const auto write = [&](exec::TrainingJob training, const std::vector<exec::Clock>& clocks = {}) {
    training.iterations = 3;
    training.warmup = 1;
    training.record_details = true;
    const std::string path = folder / "m.json";
    OutputFile file(path);
    testing::run_locally(training, {}, {}, &file, clocks);
    file.commit();
    return path;
  };
  exec::TrainingJob training = testing::tiny_training(schedule, testing::tiny_model(4));
  expect_same_again(write(training));
  training.verify = false;
  expect_same_again(write(training));
  expect_same_again(write(training, {exec::Clock(), exec::Clock(10'000'000, 50'000, 0)}));
  exec::TrainingJob emulated;
  emulated.program = lower(schedule);
  emulated.costs = testing::costs_of(4, 1000, 2000);
  expect_same_again(write(emulated));
}

}  // namespace
}  // namespace pipesim
