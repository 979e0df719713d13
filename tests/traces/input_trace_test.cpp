// Traces of input pipelines: written and read back, as others see them, and what is refused.
#include "traces/input_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>

#include "tests/errors.h"
#include "tests/files.h"
#include "tests/input_runs.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/input_trace.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

void expect_same(const InputRun& got, const InputRun& want) {
  EXPECT_EQ(got.is_measured, want.is_measured);
  EXPECT_EQ(
      std::tie(got.model, got.cluster, got.device, got.transport, got.batch_size, got.costs),
      std::tie(want.model, want.cluster, want.device, want.transport, want.batch_size, want.costs));
  EXPECT_EQ(got.program.name, want.program.name);
  EXPECT_EQ(got.program.batches, want.program.batches);
  EXPECT_EQ(got.program.accumulate, want.program.accumulate);
  EXPECT_EQ(got.program.is_stale, want.program.is_stale);
  EXPECT_EQ(got.program.calls, want.program.calls);
  EXPECT_EQ(got.spans, want.spans);
  EXPECT_EQ(got.memory, want.memory);
  EXPECT_EQ(got.losses, want.losses);
}

InputRun small_run(int ranks = 2, int batches = 3) {
  std::mt19937_64 random(1);
  InputRun run = testing::random_run(testing::overlapping_program(ranks, batches), random);
  run.model = "dlrm-\"mini\"";
  run.cluster = "laptop";
  run.batch_size = 256;
  run.costs = R"({"format":"pipesim-costs","version":1,"links":[],"odd":[1.5e3,"x"]})";
  return run;
}

InputRun measured_run() {
  InputRun run = small_run();
  run.is_measured = true;
  run.cluster.clear();
  run.costs.clear();
  run.device = "cpu";
  run.transport = "local";
  run.memory = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  run.losses = {0.1, 0.6931471805599453, 1e-300};
  // As clocks have it: issued after it began, on a stream that goes on a little too early.
  run.spans[1][5].issued_ns = run.spans[1][5].start_ns + 3;
  run.spans[0].back().ready_ns -= 1;
  return run;
}

nlohmann::json json_written(const InputRun& run) {
  const testing::TemporaryFolder folder;
  write_input_trace(run, folder / "t.json");
  return nlohmann::json::parse(read_file(folder / "t.json"));
}

TEST(InputTrace, IsReadBackAsItWas) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(2);
  for (int round = 0; round < 30; ++round) {
    const InputRun run = testing::random_run(
        testing::overlapping_program(1 + round % 3, 1 + round % 7, 1 + round % 3), random, 3000);
    const std::string path = folder / (round % 2 == 0 ? "t.json" : "t.json.gz");
    write_input_trace(run, path);
    EXPECT_TRUE(is_input_trace(path));
    expect_same(read_input_run(path), run);
  }
  for (const InputRun& run : {small_run(), measured_run()}) {
    write_input_trace(run, folder / "t.json");
    expect_same(read_input_run(folder / "t.json"), run);
  }
}

TEST(InputTrace, IsALineAnEvent) {
  const std::string program =
      "pipesim-program 1\nbatches 1\n\nrank 0\n"
      "host      NEXT0\nmemcpy    COPY0\ndata_dist SPLITS0 after COPY0\n"
      "host      READ0 after SPLITS0\ndata_dist IDS0\ncompute   BOTTOM0\n"
      "compute   LOOKUP0 after IDS0\ncompute   OUTPUT0\ncompute   TOP0\n"
      "compute   TOP_BACKWARD0\nreduction REDUCE_TOP0 after TOP_BACKWARD0\n"
      "compute   OUTPUT_BACKWARD0\ncompute   UPDATE0\ncompute   BOTTOM_BACKWARD0\n"
      "reduction REDUCE_BOTTOM0 after BOTTOM_BACKWARD0\n"
      "compute   OPTIMIZER0 after REDUCE_TOP0 REDUCE_BOTTOM0\n";
  InputRun run;
  run.program = parse_input_program(program, "plain");
  run.spans = {std::vector<InputSpan>(16, {5000, 5000, 5000, 5000, 5000})};
  run.spans[0][0] = {0, 2000, 0, 0, 2000};
  run.spans[0][1] = {2000, 2500, 2500, 2500, 3001};
  run.spans[0][2] = {2500, 2500, 3001, 3500, 4000};
  run.spans[0][3] = {2500, 5000, 4000, 4000, 5000};
  const testing::TemporaryFolder folder;
  write_input_trace(run, folder / "t.json");
  const std::string text = read_file(folder / "t.json");
  const std::size_t first = text.find("\n{\"ph\":\"X\"");
  std::string quoted;  // of the program, on one line
  for (const char c : program) quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            R"({"displayTimeUnit":"ms","metadata":{"pipesim":{"format":"pipesim-trace",)"
            R"("version":1,"source":"predicted","input_pipeline":"plain","program":")" +
                quoted + R"("}},"traceEvents":[)");
  EXPECT_EQ(text.substr(first + 1, text.find("READ0\",\"cat\":\"host") - first - 1),
            R"({"ph":"X","name":"NEXT0","cat":"host","cname":"rail_response","pid":1,"tid":1,)"
            R"("ts":0.000,"dur":2.000,"args":{"kind":"NEXT","batch":0,"rank":0,"stream":"host",)"
            R"("called_ns":0,"issued_ns":2000,"ready_ns":0}},)"
            "\n"
            R"({"ph":"X","name":"call COPY0","cat":"launch","cname":"generic_work","pid":1,)"
            R"("tid":1,"ts":2.000,"dur":0.500,"args":{"calls":"COPY0"}},)"
            "\n"
            R"({"ph":"X","name":"READ0 waits","cat":"wait","cname":"grey","pid":1,"tid":1,)"
            R"("ts":2.500,"dur":1.500,"args":{"waits":"READ0"}},)"
            "\n"
            R"({"ph":"X","name":"COPY0","cat":"copy","cname":"rail_response","pid":1,"tid":2,)"
            R"("ts":2.500,"dur":0.501,"args":{"kind":"COPY","batch":0,"rank":0,)"
            R"("stream":"memcpy","called_ns":2000,"issued_ns":2500,"ready_ns":2500}},)"
            "\n"
            R"({"ph":"s","id":1,"name":"waits for","cat":"wait","pid":1,"tid":2,"ts":3.000},)"
            "\n"
            R"({"ph":"X","name":"SPLITS0 waits","cat":"wait","cname":"grey","pid":1,"tid":4,)"
            R"("ts":3.001,"dur":0.499,"args":{"waits":"SPLITS0"}},)"
            "\n"
            R"({"ph":"X","name":"SPLITS0","cat":"exchange","cname":"rail_response","pid":1,)"
            R"("tid":4,"ts":3.500,"dur":0.500,"args":{"kind":"SPLITS","batch":0,"rank":0,)"
            R"("stream":"data_dist","called_ns":2500,"issued_ns":2500,"ready_ns":3001}},)"
            "\n"
            R"({"ph":"f","bp":"e","id":1,"name":"waits for","cat":"wait","pid":1,"tid":4,)"
            R"("ts":3.500},)"
            "\n"
            R"({"ph":"s","id":2,"name":"waits for","cat":"wait","pid":1,"tid":4,"ts":3.999},)"
            "\n"
            R"({"ph":"X","name":")");
}

TEST(InputTrace, SlicesOfAThreadDoNotOverlapAndArrowsPointForward) {
  const nlohmann::json trace = json_written(small_run(3, 6));
  std::map<std::pair<int, int>, std::int64_t> until;
  std::map<int, std::int64_t> left;
  std::int64_t last = 0;
  int flows = 0, slices = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    const std::int64_t ts = std::llround(event.at("ts").get<double>() * 1000);
    EXPECT_GE(ts, last);
    last = ts;
    if (event.at("ph") == "X") {
      std::int64_t& end = until[{event.at("pid"), event.at("tid")}];
      EXPECT_GE(ts, end) << event;
      end = ts + std::llround(event.at("dur").get<double>() * 1000);
      slices += event.at("args").contains("kind");
    } else if (event.at("ph") == "s") {
      EXPECT_TRUE(left.emplace(event.at("id"), ts).second);
    } else {
      EXPECT_EQ(event.at("ph"), "f");
      EXPECT_LE(left.at(event.at("id")), ts);
      ++flows;
    }
  }
  EXPECT_EQ(slices, 3 * (6 * 19 - 2 * 6));  // no PREPARE, no PREFETCH
  EXPECT_EQ(flows, 3 * 6 * 7);
}

TEST(InputTrace, NamesStreamsInOneOrder) {
  std::string names;
  const nlohmann::json trace = json_written(small_run(1));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    const auto& args = event.at("args");
    names += args.contains("name") ? args.at("name").get<std::string>() + ":"
                                   : std::to_string(args.at("sort_index").get<int>()) + " ";
  }
  EXPECT_EQ(names, "rank 0:0 host:1 memcpy:2 data_dist:4 compute:7 reduction:9 ");
}

TEST(InputTrace, NumbersHostsLikeTheirRanks) {
  int hosts = 0;
  const nlohmann::json trace = json_written(small_run());
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "M" || event.at("args").value("name", "") != "host") continue;
    EXPECT_EQ(event.at("tid"), event.at("pid"));
    ++hosts;
  }
  EXPECT_EQ(hosts, small_run().program.ranks());
}

// The trace with something else in place of something.
std::string error_with(const std::string& what, const std::string& instead,
                       const InputRun& run = small_run()) {
  const testing::TemporaryFolder folder;
  write_input_trace(run, folder / "t.json");
  std::string text = read_file(folder / "t.json");
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  write_file(folder / "t.json", text.replace(at, what.size(), instead));
  std::string error = testing::input_error_of([&] { read_input_run(folder / "t.json"); });
  const std::string folder_name = folder.path().string() + "/";
  for (std::size_t place = 0; (place = error.find(folder_name)) != std::string::npos;) {
    error.erase(place, folder_name.size());
  }
  return error;
}

TEST(InputTrace, IsReadByItsOldName) {
  const testing::TemporaryFolder folder;
  const InputRun run = small_run();
  write_input_trace(run, folder / "t.json");
  std::string text = read_file(folder / "t.json");
  for (const std::string name : {"pipesim-trace", "pipesim-program"}) {
    const std::string old = "pipesim-input" + name.substr(name.find('-'));
    text.replace(text.find(name), name.size(), old);
  }
  write_file(folder / "old.json", text);
  EXPECT_TRUE(is_input_trace(folder / "old.json"));
  EXPECT_EQ(read_input_run(folder / "old.json").spans, run.spans);
}

TEST(InputTrace, RefusesWhatIsWrong) {
  EXPECT_EQ(error_with("\"input_pipeline\"", "\"schedule\""),
            "t.json: it is not a trace of an input pipeline: metadata.pipesim has no "
            "input_pipeline");
  EXPECT_EQ(error_with("\"version\":1", "\"version\":2"),
            "t.json: metadata.pipesim:1:37: version: this program reads version 1");
  EXPECT_EQ(
      error_with("predicted", "guessed"),
      "t.json: metadata.pipesim:1:48: source: 'guessed' is neither 'predicted' nor 'measured'");
  EXPECT_EQ(error_with("\"model\"", "\"modul\""),
            "t.json: metadata.pipesim:1:99: unknown key 'modul'; known, nearest first: model, "
            "costs, format, losses, memory, source, device, program, cluster, version, transport, "
            "batch_size, input_pipeline");
  EXPECT_EQ(error_with("COPY0\\n", "COPY7\\n"),
            "t.json: metadata.pipesim:1:161: program:7: SPLITS0 waits for COPY0, which its rank "
            "has not called before it");
  EXPECT_EQ(error_with("\"kind\":\"COPY\",\"batch\":1", "\"kind\":\"COPY\",\"batch\":2"),
            "t.json: event 133: COPY2 of rank 1 is given twice");
  EXPECT_EQ(error_with("\"kind\":\"COPY\",\"batch\":1", "\"kind\":\"COPY\",\"batch\":3"),
            "t.json: event 77: COPY3 of rank 1 is not in the program");
  EXPECT_EQ(error_with("\"kind\":\"COPY\"", "\"kind\":\"PREPARE\""),
            "t.json: event 27: PREPARE0 of rank 1 is not in the program");
  EXPECT_EQ(error_with("\"kind\":\"COPY\"", "\"kind\":\"MOVE\""),
            "t.json: event 27: unknown kind 'MOVE'");
  EXPECT_EQ(error_with("\"kind\":\"COPY\"", "\"kid\":\"COPY\""),
            "t.json: COPY0 of rank 1 is missing");
  EXPECT_EQ(error_with("\"rank\":1", "\"rank\":2"),
            "t.json: event 25: NEXT0 of rank 2 is not in the program");
  EXPECT_EQ(error_with("\"stream\":\"memcpy\"", "\"stream\":\"compute\""),
            "t.json: event 27: COPY0 of rank 1 is on stream compute, in the program on memcpy");
  EXPECT_EQ(error_with("\"ready_ns\":", "\"ready_ns\":9"),
            "t.json: event 24: NEXT0 of rank 0 starts before it is ready");
  EXPECT_EQ(error_with("\"called_ns\":0,", ""),
            "t.json: event 24: called_ns must be a whole number, not ''");
  EXPECT_EQ(error_with("\n]}\n", ""), "t.json: it breaks off in the middle");
  EXPECT_EQ(error_with("\"losses\":[", "\"losses\":[1,", measured_run()),
            "t.json: metadata.pipesim:1:309: losses: it has a number per batch");
  EXPECT_EQ(error_with("\"memory\":[", "\"memory\":[{},", measured_run()),
            "t.json: metadata.pipesim:1:176: memory[0]: key 'tables' is missing");
}

// Sums of times, over calls and over ranks, and of bytes have room in 64 bits.
TEST(InputTrace, RefusesWhatSumsHaveNoRoomFor) {
  const testing::TemporaryFolder folder;
  const auto error_of = [&](const InputRun& run) {
    write_input_trace(run, folder / "t.json");
    return testing::input_error_of([&] { measure(read_input_run(folder / "t.json")); });
  };
  const std::string too_long =
      folder / "t.json" + std::string(
                              ": its ranks take more than 146 years together; times "
                              "of traces are microseconds, of costs nanoseconds");
  const auto four_ranks = [] {
    InputRun run = small_run(4);
    run.is_measured = true;
    return run;
  };
  InputRun run = four_ranks();
  run.spans[0].back().end_ns = max_input_ns / 4;
  EXPECT_EQ(error_of(run), testing::no_error);
  run.spans[0].back().end_ns += 1;
  EXPECT_EQ(error_of(run), too_long);
  run = four_ranks();
  run.spans[1].back().issued_ns = max_input_ns;
  EXPECT_EQ(error_of(run), too_long);
  run = four_ranks();
  for (InputSpan& span : run.spans[0]) span.end_ns = max_input_ns / 8;
  EXPECT_EQ(error_of(run), too_long);
  run = measured_run();
  run.memory[0].tables = max_input_bytes + 1;
  EXPECT_NE(error_of(run).find("memory[0].tables: 1152921504606846977 is out of range"),
            std::string::npos);
}

TEST(InputTrace, IsToldFromOtherTraces) {
  const testing::TemporaryFolder folder;
  write_file(folder / "other.json", R"({"traceEvents":[]})");
  write_file(folder / "ours.json",
             R"({"metadata":{"pipesim":{"format":"pipesim-trace"}},"traceEvents":[]})");
  write_file(folder / "behind.json",
             R"({"traceEvents":[],"metadata":{"pipesim":{"format":"pipesim-trace",)"
             R"("input_pipeline":"base"}}})");
  EXPECT_FALSE(is_input_trace(folder / "other.json"));
  EXPECT_FALSE(is_input_trace(folder / "ours.json"));
  EXPECT_FALSE(is_input_trace(folder.path().string()));
  EXPECT_FALSE(is_input_trace(folder / "behind.json"));
  write_file(folder / "text", "rank 0");
  EXPECT_NE(testing::input_error_of([&] { is_input_trace(folder / "text"); }), testing::no_error);
}

// What reads runs of schedules, and can't look into a pipe before, says what it is.
TEST(InputTrace, IsNoRunOfASchedule) {
  const testing::TemporaryFolder folder;
  write_input_trace(small_run(), folder / "t.json");
  const std::string error = testing::input_error_of([&] { read_run({folder / "t.json"}); });
  EXPECT_NE(error.find("t.json: it is a run of an input pipeline"), std::string::npos) << error;
}

}  // namespace
}  // namespace pipesim
