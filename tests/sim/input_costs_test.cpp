// Costs of an input pipeline from files, and what ranks hold while a run goes on.
#include "sim/input_pipeline/input_costs.h"

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/files.h"

namespace pipesim {
namespace {

using enum Kind;

// By the old name of the format, which is still read; to_json() writes the new one.
std::string costs_file(const std::string& rest) {
  return R"({"format":"pipesim-input-costs","version":1,)" + rest + "}";
}
std::string input_costs_error(const std::string& rest) {
  return testing::input_error_of([&] { parse_input_costs(costs_file(rest), "c.json"); });
}

const char* const usual =
    "\n"
    R"("ranks":2,"batch_size":64,"links":[{"name":"x","bandwidth_bytes_per_s":1000},)"
    "\n"
    R"({"name":"y","bandwidth_bytes_per_s":2000}],)"
    "\n"
    R"("work":{"COPY":{"duration_ns":5,"bytes":100,"links":["x"],"host_ns":3},)"
    "\n"
    R"("IDS":[{"duration_ns":7,"bytes":1,"links":["y","x"]},{"duration_ns":8}],"NEXT":{"duration_ns":9}},)"
    "\n"
    R"("holdings":{"table_bytes":1,"optimizer_bytes":2,"dense_bytes":3,"batch_bytes":4,"ids_bytes":5,)"
    R"("pooled_bytes":6,"activation_bytes":7})";

TEST(InputCostsFiles, FileIsRead) {
  const InputCosts costs = parse_input_costs(costs_file(usual), "c.json");
  ASSERT_EQ(costs.ranks(), 2);
  EXPECT_EQ(costs.batch_size, 64);
  EXPECT_EQ(costs.links, (std::vector<InputLink>{{"x", 1000}, {"y", 2000}}));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(costs.of(rank, COPY), (InputWork{5, 100, {0}, 3}));
    EXPECT_EQ(costs.of(rank, NEXT), (InputWork{9, 0, {}, 0}));
    EXPECT_EQ(costs.of(rank, TOP), InputWork());
  }
  EXPECT_EQ(costs.of(0, IDS), (InputWork{7, 1, {1, 0}, 0}));
  EXPECT_EQ(costs.of(1, IDS), (InputWork{8, 0, {}, 0}));
  const InputHoldings held{{1, 2, 3, 0, 0}, 4, 5, 6, 7};
  EXPECT_EQ(costs.holdings, (std::vector<InputHoldings>{held, held}));
}

TEST(InputCostsFiles, WhatIsWrittenReadsBack) {
  InputCosts costs = parse_input_costs(costs_file(usual), "c.json");
  EXPECT_EQ(parse_input_costs(to_json(costs), "again.json"), costs);
  EXPECT_EQ(parse_input_costs(to_json(costs, 2), "again.json"), costs);
  // What all ranks have alike is there once.
  EXPECT_EQ(to_json(costs).find("\"COPY\""), to_json(costs).rfind("\"COPY\""));
  EXPECT_NE(to_json(costs).find(R"("COPY":{)"), std::string::npos);
  EXPECT_NE(to_json(costs).find(R"("IDS":[)"), std::string::npos);
  costs.holdings[1].ids_bytes = 50;
  costs.of(1, UPDATE).host_ns = 12;
  EXPECT_EQ(parse_input_costs(to_json(costs), "again.json"), costs);
  costs.holdings.clear();
  costs.links.clear();
  for (auto& work : costs.work) work = {};
  costs.batch_size = 0;
  EXPECT_EQ(parse_input_costs(to_json(costs), "again.json"), costs);
}

TEST(InputCostsFiles, TheFormatsExampleIsRead) {
  const InputCosts costs =
      parse_input_costs(testing::format_example("Input costs: `pipesim-costs`"), "FORMAT.md");
  EXPECT_EQ(costs.ranks(), 2);
  EXPECT_EQ(costs.of(1, COPY), (InputWork{10'000, 8'000'000, {1}, 20'000}));
  EXPECT_EQ(costs.holdings[1].batch_bytes, 8'000'000);
}

TEST(InputCostsFiles, WrongFilesAreRefused) {
  EXPECT_EQ(
      input_costs_error(R"("ranks":2,"work":{"COPY":{"links":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,)"
                        R"(16,17]}})"),
      "c.json:1:79: work.COPY.links: 17 links are more than 16; name those that are full");
  EXPECT_EQ(input_costs_error(R"("work":{})"), "c.json:1:1: key 'ranks' is missing");
  EXPECT_EQ(input_costs_error(R"("ranks":2)"), "c.json:1:1: key 'work' is missing");
  EXPECT_EQ(input_costs_error(R"("ranks":0,"work":{})"),
            "c.json:1:53: ranks: 0 is out of range: it must lie between 1 and 4096");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{"SEND":{}})"),
            "c.json:1:70: work: unknown key 'SEND'; known, nearest first: READ, NEXT, COPY, IDS, "
            "TOP, SPLITS, BOTTOM, LOOKUP, OUTPUT, PREPARE, UPDATE, PREFETCH, ZERO_GRAD, OPTIMIZER, "
            "REDUCE_TOP, TOP_BACKWARD, REDUCE_BOTTOM, BOTTOM_BACKWARD, OUTPUT_BACKWARD");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{"COPY":[{},{},{}]})"),
            "c.json:1:70: work.COPY: 3 values for 2 ranks; give one for all, or one per rank");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{"COPY":{"links":["x"]}})"),
            "c.json:1:80: work.COPY.links[0]: there are no links; list them in `links`");
  const std::string link = R"("links":[{"name":"x","bandwidth_bytes_per_s":1000}],)";
  EXPECT_EQ(input_costs_error(link + R"("ranks":2,"work":{"COPY":{"links":["y"]}})"),
            "c.json:1:132: work.COPY.links[0]: unknown link 'y'; known, nearest first: x");
  EXPECT_EQ(input_costs_error(link + R"("ranks":2,"work":{"COPY":{"links":["x","x"]}})"),
            "c.json:1:136: work.COPY.links[1]: link 'x' is given twice; name each once");
  EXPECT_EQ(
      input_costs_error(R"("links":[{"name":"x","bandwidth_bytes_per_s":0}],"ranks":2,"work":{})"),
      "c.json:1:90: links[0].bandwidth_bytes_per_s: 0 is out of range: it must lie between 1 "
      "and 1000000000000000");
  EXPECT_EQ(input_costs_error(R"("links":[{"name":"x","bandwidth_bytes_per_s":1},)"
                              R"({"name":"x","bandwidth_bytes_per_s":1}],"ranks":2,"work":{})"),
            "c.json:1:101: links[1].name: there are two links 'x'; give each a name of its own");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{"READ":{"host_ns":1}})"),
            "c.json:1:81: work.READ.host_ns: the host does READ itself; give its time as "
            "duration_ns");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{"TOP":{"duration_ns":-1}})"),
            "c.json:1:84: work.TOP.duration_ns: -1 is out of range: it must lie between 0 and "
            "1000000000000000");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{},"holdings":[{}])"),
            "c.json:1:76: holdings: 1 value for 2 ranks; give one for all, or one per rank");
  EXPECT_EQ(input_costs_error(R"("ranks":2,"work":{},"holdings":{"batches":1})"),
            "c.json:1:87: holdings: unknown key 'batches'; known, nearest first: batch_bytes, "
            "ids_bytes, table_bytes, dense_bytes, pooled_bytes, activation_bytes, optimizer_bytes");
}

// ---- Memory

// One rank; each call begins and ends when it says.
struct TimedCall {
  Kind kind;
  std::int32_t batch;
  std::int64_t start_ns, end_ns;
};

InputRun input_run_of(const std::vector<TimedCall>& calls, int batches) {
  InputRun run;
  run.program.batches = batches;
  run.program.calls.resize(1);
  run.spans.resize(1);
  for (const TimedCall& call : calls) {
    run.program.calls[0].push_back({input_action(call.kind, call.batch), InputStream::compute, {}});
    run.spans[0].push_back({0, 0, call.start_ns, call.start_ns, call.end_ns});
  }
  return run;
}

InputMemory fullest(const InputRun& run, const InputHoldings& held) {
  InputCosts costs;
  costs.work.resize(1);
  costs.holdings = {held};
  return memory_of(run, costs).at(0);
}

const std::vector<TimedCall> one_batch{{COPY, 0, 10, 20},   {IDS, 0, 20, 30},
                                       {LOOKUP, 0, 30, 40}, {BOTTOM, 0, 40, 50},
                                       {UPDATE, 0, 60, 70}, {BOTTOM_BACKWARD, 0, 70, 80}};

TEST(InputMemoryOfRuns, OneBatchHoldsAllAtOnceBeforeItsUpdate) {
  EXPECT_EQ(fullest(input_run_of(one_batch, 1), {{1, 2, 3, 0, 0}, 10, 100, 1000, 10'000}),
            (InputMemory{1, 2, 3, 10, 11'100}));
}

TEST(InputMemoryOfRuns, NothingIsHeldBeforeItComes) {
  EXPECT_EQ(fullest(input_run_of({}, 0), {{1, 2, 3, 0, 0}, 10, 100, 1000, 10'000}),
            (InputMemory{1, 2, 3, 0, 0}));
  EXPECT_EQ(fullest(input_run_of({{COPY, 0, 0, 5}}, 1), {{1, 2, 3, 0, 0}, 10, 100, 1000, 10'000}),
            (InputMemory{1, 2, 3, 10, 0}));
}

// Batch 1 is copied while batch 0 has its rows: the fullest instant is where both sum up most, not
// where each is largest.
TEST(InputMemoryOfRuns, FullestInstantIsOfTheSum) {
  std::vector<TimedCall> calls = one_batch;
  calls.push_back({COPY, 1, 65, 68});
  // Batches are 2 x 10 from 65 to 80, buffers 1,000 + 100 up to 70 only.
  EXPECT_EQ(fullest(input_run_of(calls, 2), {{}, 10, 100, 1000, 0}),
            (InputMemory{0, 0, 0, 20, 1100}));
  calls.back() = {COPY, 1, 70, 71};  // when the buffers have gone
  EXPECT_EQ(fullest(input_run_of(calls, 2), {{}, 10, 100, 1000, 0}),
            (InputMemory{0, 0, 0, 10, 1100}));
  EXPECT_EQ(fullest(input_run_of(calls, 2), {{}, 10'000, 100, 1000, 0}),
            (InputMemory{0, 0, 0, 20'000, 0}));
}

// A batch goes with the later of UPDATE and BOTTOM_BACKWARD.
TEST(InputMemoryOfRuns, BatchStaysUntilItsLastUse) {
  for (const bool update_is_last : {false, true}) {
    std::vector<TimedCall> calls = one_batch;
    if (update_is_last) calls[4].end_ns = 90;
    const std::int64_t end = update_is_last ? 90 : 80;
    calls.push_back({COPY, 1, end - 1, 200});
    EXPECT_EQ(fullest(input_run_of(calls, 2), {{}, 10, 0, 0, 0}).batches, 20);
    calls.back() = {COPY, 1, end, 200};
    EXPECT_EQ(fullest(input_run_of(calls, 2), {{}, 10, 0, 0, 0}).batches, 10);
  }
}

TEST(InputMemoryOfRuns, RanksAreApart) {
  InputRun run = input_run_of(one_batch, 1);
  run.program.calls.push_back(run.program.calls[0]);
  run.spans.push_back(run.spans[0]);
  InputCosts costs;
  costs.work.resize(2);
  costs.holdings = {{{7, 0, 0, 0, 0}, 1, 0, 0, 0}, {{0, 0, 9, 0, 0}, 0, 2, 0, 0}};
  EXPECT_EQ(memory_of(run, costs), (std::vector<InputMemory>{{7, 0, 0, 1, 0}, {0, 0, 9, 0, 2}}));
}

}  // namespace
}  // namespace pipesim
