// Profiles of a device: what becomes of kernels, launches and messages.
#include <gtest/gtest.h>

#include "tests/profiles.h"

namespace pipesim {
namespace {

using namespace pipesim::testing;
using testing::Json;

TEST(KinetoDevice, TakesActionsFromTheirKernels) {
  const RecordedRun run = read(two_ranks());
  EXPECT_EQ(run.warnings.text(), "");
  EXPECT_EQ(run.unmatched, 0);
  EXPECT_EQ(run.about.device, "NVIDIA H100");
  EXPECT_EQ(run.about.transport, "nccl");
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.microbatches, 1);
  // From the first kernel of one to its last; they count from the first start, 1100.
  EXPECT_EQ(times(run, "0F0"), Times(0, 100'000));
  EXPECT_EQ(times(run, "1F0"), Times(200'000, 300'000));
  EXPECT_EQ(times(run, "1B0"), Times(300'000, 470'000));
  EXPECT_EQ(times(run, "0B0"), Times(510'000, 610'000));
}

TEST(KinetoDevice, SplitsTransfersIntoWaitingAndTransfer) {
  const RecordedRun run = read(two_ranks());
  // The receiver waits 190 us for the sender; both are there at 1200.
  EXPECT_EQ(times(run, "1RECV_F0"), Times(100'000, 185'000));
  EXPECT_EQ(span_of(run, "1RECV_F0").queued_ns, 190'000);
  EXPECT_EQ(times(run, "0SEND_F0"), Times(100'000, 185'000));
  // 0 waits from 1290, 1 sends from 1580: it arrives at 1600.
  EXPECT_EQ(times(run, "0RECV_B0"), Times(480'000, 500'000));
  EXPECT_EQ(span_of(run, "0RECV_B0").queued_ns, 290'000);
  EXPECT_EQ(times(run, "1SEND_B0"), Times(480'000, 500'000));
  EXPECT_EQ(span_of(run, "0SEND_F0").bytes, 2000);
  EXPECT_EQ(span_of(run, "1RECV_F0").bytes, 2000);
  EXPECT_EQ(span_of(run, "1SEND_B0").bytes, 0);
  EXPECT_EQ(span_of(run, "1F0").input_sent_ns, 100'000);
  EXPECT_EQ(span_of(run, "1F0").input_arrival_ns, 185'000);
  EXPECT_EQ(span_of(run, "0B0").input_arrival_ns, 500'000);
}

TEST(KinetoDevice, FindsLaunchesByExternalIdAndFlowToo) {
  std::vector<Json> traces = two_ranks();
  const auto expected = rows_of(read(traces));
  for (Json& trace : traces) {
    Json events = Json::array();
    int ops = 0;
    for (Json event : trace["traceEvents"]) {
      if (event["cat"] == "cuda_runtime" && ops++ % 2 == 0) {
        event["cat"] = "cpu_op";
        event["args"] = {{"External id", event["args"]["correlation"]}};
      } else if (event["cat"] == "cuda_runtime") {
        event["ph"] = "s";
        event["cat"] = "ac2g";
        event["id"] = event["args"]["correlation"];
      } else if (event["cat"] == "kernel") {
        event["args"]["External id"] = event["args"]["correlation"];
      }
      events.push_back(event);
    }
    trace["traceEvents"] = events;
  }
  EXPECT_EQ(rows_of(read(traces)), expected);
}

TEST(KinetoDevice, ReadsTheDialectOfOldFiles) {
  std::vector<Json> traces = two_ranks();
  const auto expected = rows_of(read(traces));
  for (Json& trace : traces) {
    trace.erase("baseTimeNanoseconds");
    for (Json& event : trace["traceEvents"]) {
      // 1970 is told by the times themselves; numbers are text.
      event["ts"] = std::to_string(1'700'000'000'000'000 + event["ts"].get<std::int64_t>());
      event["tid"] = "stream " + event["tid"].dump();
      if (event["cat"] == "cuda_runtime") event["cat"] = "Runtime";
      if (event["cat"] == "kernel") event["cat"] = "Kernel";
      if (event["cat"] == "user_annotation") event["cat"] = "Operator";
    }
    // The first kernel's launch is not there, but the operator around it.
    Json& launch = trace["traceEvents"][1];
    ASSERT_EQ(launch["cat"], "Runtime");
    launch["cat"] = "Operator";
    launch["args"] = {{"external id", launch["args"]["correlation"]}};
    Json& kernel = trace["traceEvents"][2];
    kernel["args"] = {{"external id", launch["args"]["external id"]}};
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(rows_of(run), expected);
  EXPECT_EQ(run.warnings.text(), "");
}

TEST(KinetoDevice, CallsLostKernelsMissing) {
  std::vector<Json> traces = two_ranks();
  for (Json& trace : traces) {
    // The same again, a second later; then the first kernels are lost.
    const Json once = trace["traceEvents"];
    for (Json event : once) {
      event["ts"] = event["ts"].get<double>() + 1e6;
      if (event["args"].contains("correlation")) {
        event["args"]["correlation"] = event["args"]["correlation"].get<int>() + 100;
      }
      trace["traceEvents"].push_back(event);
    }
  }
  ASSERT_EQ(read(traces).iterations.size(), 2U);
  EXPECT_EQ(read(traces).warnings.text(), "");
  Json& events = traces[0]["traceEvents"];
  for (std::size_t i = 0; i < 5; ++i) {
    if (events[i]["cat"] == "kernel") events[i]["cat"] = "lost";
  }
  const RecordedRun run = read(traces);
  const std::string warnings = run.warnings.text();
  EXPECT_NE(warnings.find("ranges of actions whose kernels are not in the file"), std::string::npos)
      << warnings;
  EXPECT_NE(warnings.find("trace0.json: iteration 0, 7 of 8: iterations with fewer actions"),
            std::string::npos)
      << warnings;
  ASSERT_EQ(run.iterations.size(), 1U);
  EXPECT_EQ(run.iterations[0].number, 1);
  EXPECT_EQ(order_of(run, 0, 0, false), (std::vector<std::string>{"0F0", "0B0"}));
}

TEST(KinetoDevice, KeepsAnIterationThatIsNowhereWhole) {
  std::vector<Json> traces = two_ranks();
  Json& events = traces[0]["traceEvents"];
  for (std::size_t i = 0; i < 5; ++i) {
    if (events[i]["cat"] == "kernel") events[i]["cat"] = "lost";
  }
  const RecordedRun run = read(traces);
  ASSERT_EQ(run.iterations.size(), 1U);
  EXPECT_EQ(order_of(run, 0, 0, false), (std::vector<std::string>{"0B0"}));
  EXPECT_EQ(order_of(run, 0, 1, false), (std::vector<std::string>{"1F0", "1B0"}));
  EXPECT_NE(run.warnings.text().find("0F0: ranges of actions whose kernels are not in the file"),
            std::string::npos)
      << run.warnings.text();
}

TEST(KinetoDevice, CountsKernelsOfNoAction) {
  std::vector<Json> traces = two_ranks();
  Profile other(0);
  other.kernel(5000, 5100, 10).kernel(5001, 5111, 10);
  for (Json event : other.json()["traceEvents"]) {
    event["args"]["correlation"] = event["args"]["correlation"].get<int>() + 1000;
    traces[0]["traceEvents"].push_back(event);
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(run.unmatched, 2);
  EXPECT_NE(run.warnings.text().find(
                "kernels that no range of the pipeline launched, left out (2 in all)"),
            std::string::npos);
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
}

TEST(KinetoDevice, KeepsTheWholeTimeOfATransferWithOneEnd) {
  std::vector<Json> traces = two_ranks();
  for (Json& event : traces[0]["traceEvents"]) {
    if (event["name"] == "PP:0SEND_F0") event["name"] = "PP:0WAIT_SEND_F0";
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(times(run, "1RECV_F0"), Times(0, 275'000));
  EXPECT_FALSE(span_of(run, "1F0").has_input());
  EXPECT_NE(run.warnings.text().find("only one end is in the files"), std::string::npos);
}

TEST(KinetoDevice, WarnsWhereOnlyLaunchesWereRecorded) {
  std::vector<Json> traces = two_ranks();
  for (Json& trace : traces) {
    for (Json& event : trace["traceEvents"]) {
      if (event["cat"] == "kernel") event["cat"] = "lost";
    }
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(span_of(run, "0F0").end_ns - span_of(run, "0F0").start_ns, 50'000);
  EXPECT_NE(run.warnings.text().find("times are those of the processor"), std::string::npos);
}

TEST(KinetoDevice, RefusesKernelsThatNothingLaunched) {
  std::vector<Json> traces = two_ranks();
  for (Json& event : traces[1]["traceEvents"]) {
    if (event["cat"] == "cuda_runtime") event["cat"] = "lost";
  }
  EXPECT_EQ(refusal(traces),
            "trace1.json: none of its 5 kernels belongs to a range of the pipeline, as where "
            "launches were not recorded; record activities of CPU and device");
}

TEST(KinetoDevice, ShiftsClocksThatContradictTheMessages) {
  std::vector<Json> traces = two_ranks();
  // Rank 1's clock is 400 us behind: its RECV ends before the SEND starts.
  traces[1]["baseTimeNanoseconds"] = 1'700'000'000'000'000'000 - 400'000;
  const RecordedRun run = read(traces);
  EXPECT_NE(run.warnings.text().find("transfers that arrive before they were sent"),
            std::string::npos);
  ASSERT_EQ(run.about.clocks.size(), 2U);
  EXPECT_EQ(run.about.clocks[0].shift_ns, 0);
  EXPECT_EQ(run.about.clocks[1].shift_ns, 1200'000 - 885'000 + 1);
  EXPECT_EQ(span_of(run, "1RECV_F0").end_ns, span_of(run, "0SEND_F0").start_ns + 1);
}

TEST(KinetoDevice, DoesNotTrustClocksAnHourApart) {
  std::vector<Json> traces = two_ranks();
  traces[1]["baseTimeNanoseconds"] = 1'700'003'600'000'000'000;
  const RecordedRun run = read(traces);
  EXPECT_NE(run.warnings.text().find("clocks are unrelated, 3600"), std::string::npos)
      << run.warnings.text();
  // Both came to their first range at 1000.
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
}

TEST(KinetoDevice, AlignsUnrelatedClocksByTheirSteps) {
  std::vector<Json> traces = two_ranks();
  for (const int rank : {0, 1}) {
    Json& trace = traces[static_cast<std::size_t>(rank)];
    trace["traceEvents"].push_back(
        Profile(rank).range("ProfilerStep#1", 100, 2000).json()["traceEvents"][0]);
    if (rank == 0) continue;
    trace.erase("baseTimeNanoseconds");
    for (Json& event : trace["traceEvents"]) event["ts"] = event["ts"].get<double>() + 77;
  }
  traces[0].erase("baseTimeNanoseconds");
  // Not the first range counts, but the step: rank 0 comes to its own earlier.
  Json& first = traces[0]["traceEvents"][0];
  ASSERT_EQ(first["name"], "PP:0F0");
  first["ts"] = 900;
  first["dur"] = 150;
  const RecordedRun run = read(traces);
  EXPECT_NE(run.warnings.text().find("times have no baseTimeNanoseconds"), std::string::npos);
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
}

// Ranks in one file are told apart by their pids, their kernels by correlation.
Json merged(int apart) {
  std::vector<Json> traces = two_ranks();
  for (Json event : traces[1]["traceEvents"]) {
    if (event["cat"] != "kernel") event["pid"] = 200;
    if (event["args"].contains("correlation")) {
      event["args"]["correlation"] = event["args"]["correlation"].get<int>() + apart;
    }
    traces[0]["traceEvents"].push_back(event);
  }
  return traces[0];
}

TEST(KinetoDevice, ReadsRanksFromOneFile) {
  EXPECT_EQ(rows_of(read({merged(1000)})), rows_of(read(two_ranks())));
}

TEST(KinetoDevice, DoesNotGuessWhichRankLaunchedAKernel) {
  EXPECT_EQ(refusal({merged(0)}),
            "trace0.json: none of its 10 kernels belongs to a range of the pipeline, as where "
            "launches were not recorded; record activities of CPU and device");
}

TEST(KinetoDevice, LeavesRangesOnTheDeviceAlone) {
  std::vector<Json> traces = two_ranks();
  for (Json& trace : traces) {
    const Json once = trace["traceEvents"];
    for (Json event : once) {
      if (event["cat"] != "user_annotation") continue;
      event["cat"] = "gpu_user_annotation";
      event["pid"] = 0;
      event["ts"] = event["ts"].get<double>() + 60;
      trace["traceEvents"].push_back(event);
    }
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
  EXPECT_EQ(run.warnings.text(), "");
}

TEST(KinetoDevice, GivesKernelsToTheInnermostRange) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).kernel(1, 20, 10);
  only.range("PP:0B0", 10, 30).kernel(11, 30, 10);
  only.range("PP:0REDUCE_GRAD", 15, 10).kernel(16, 45, 10);
  only.kernel(30, 60, 10);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(times(run, "0B0"), Times(10'000, 50'000));
  EXPECT_EQ(times(run, "0REDUCE_GRAD"), Times(25'000, 35'000));
}

TEST(KinetoDevice, CountsNoIterationOfAnOptimizerAlone) {
  Profile only(0, 1);
  only.range("ProfilerStep#1", 0, 50).range("ProfilerStep#2", 50, 50);
  only.range("PP:0F0", 0, 10).kernel(1, 20, 10);
  only.range("Optimizer.step#SGD.step", 60, 5).kernel(61, 80, 5);
  const RecordedRun run = read({only.json()});
  ASSERT_EQ(run.iterations.size(), 1U);
  EXPECT_EQ(run.iterations[0].number, 1);
  EXPECT_EQ(run.spans.size(), 1U);
}

TEST(KinetoDevice, ReadsAnOverlappedCell) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).kernel(1, 20, 10);
  only.range("PP:(0F1;0B0)OVERLAP_F_B", 10, 10).kernel(11, 30, 10).kernel(12, 45, 10, 300);
  only.range("PP:0B1", 20, 10).kernel(21, 60, 10);
  const RecordedRun run = read({only.json()});
  ASSERT_EQ(run.spans.size(), 4U);
  EXPECT_EQ(to_text(run.spans[1].action), "0F1");
  EXPECT_TRUE(run.spans[1].action.joined);
  EXPECT_EQ(to_text(run.spans[2].action), "0B0");
  EXPECT_FALSE(run.spans[2].action.joined);
  EXPECT_EQ(times(run, "0F1"), Times(10'000, 35'000));
  EXPECT_EQ(times(run, "0B0"), Times(10'000, 35'000));
  EXPECT_EQ(run.microbatches, 2);
}

TEST(KinetoDevice, TellsMessagesOfOlderNamesByDirectionAndOrder) {
  Profile first(0);
  first.range("Forward 0", 0, 30).kernel(1, 100, 10).message(2, 110, 20);
  first.range("Backward 0", 30, 30);
  first.message(31, 130, 70, {{"Collective name", "recv"}}).kernel(32, 200, 10);
  Profile second(1);
  second.range("Forward 0", 0, 30).message(1, 5, 125).kernel(2, 130, 10);
  second.range("Backward 0", 30, 30).kernel(31, 150, 10);
  second.message(32, 140, 60, {{"Collective name", "send"}});  // before its B: arguments count
  const RecordedRun run = read({first.json(), second.json()});
  EXPECT_EQ(run.warnings.text(), "");
  EXPECT_EQ(times(run, "0F0"), Times(0, 10'000));
  EXPECT_EQ(times(run, "1RECV_F0"), Times(10'000, 30'000));
  EXPECT_EQ(times(run, "1SEND_B0"), Times(40'000, 100'000));
  EXPECT_EQ(times(run, "0RECV_B0"), Times(40'000, 100'000));
  EXPECT_EQ(times(run, "0B0"), Times(100'000, 110'000));
}

TEST(KinetoDevice, TakesOptimizersTogether) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).kernel(1, 20, 10);
  only.range("PP:0B0", 10, 10).kernel(11, 30, 10);
  only.range("PP:0UNSHARD", 20, 10);  // without parameters to gather
  only.range("Optimizer.step#Adam.step", 30, 5).kernel(31, 50, 5);
  only.range("Optimizer.step#SGD.step", 40, 5).kernel(41, 60, 5);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(times(run, "0OPTIMIZER"), Times(30'000, 45'000));
  EXPECT_EQ(run.spans.size(), 3U);
  EXPECT_EQ(run.unmatched, 0);
}

}  // namespace
}  // namespace pipesim
