// Profiles that PyTorch wrote of torch.distributed.pipelining, as runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/schedule/csv.h"
#include "sim/schedule/lower.h"
#include "tests/profiles.h"

namespace pipesim {
namespace {

using namespace pipesim::testing;

struct Recording {
  std::string name;
  int stages;
};
void PrintTo(const Recording& recording, std::ostream* out) { *out << recording.name; }

class Recorded : public ::testing::TestWithParam<Recording> {};

TEST_P(Recorded, HoldsTheScheduleThatRan) {
  const auto& [name, stages] = GetParam();
  const RecordedRun run = read_run(ranks_of(name));
  const Schedule schedule = read_csv(recorded(name + ".csv"));
  const Schedule program = lower(schedule);
  EXPECT_EQ(run.warnings.text(), "");
  EXPECT_EQ(run.about.source, Source::profiled);
  EXPECT_EQ(run.about.transport, "gloo");
  EXPECT_EQ(run.about.device, "CPU");
  EXPECT_TRUE(run.about.program.empty());
  EXPECT_TRUE(run.about.clocks.empty());
  EXPECT_EQ(run.identified, Identified::annotated);
  EXPECT_EQ(run.unmatched, 0);
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.microbatches, 4);
  ASSERT_EQ(run.about.rank_of_stage.size(), static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    EXPECT_EQ(run.about.rank_of_stage[static_cast<std::size_t>(stage)], stage % 2);
    EXPECT_EQ(run.chunk_of_stage[static_cast<std::size_t>(stage)], stage / 2);
  }
  ASSERT_EQ(run.iterations.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(run.iterations[i].number, static_cast<int>(i) + 2);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(order_of(run, i, rank, false), row_of(schedule, rank, false));
      // When a transfer starts is the other rank's matter, too.
      EXPECT_EQ(sorted(order_of(run, i, rank, true)), sorted(row_of(program, rank, true)));
    }
  }
}

// A range of an action on a processor is its wait and its work.
TEST_P(Recorded, HasEachRangeInFull) {
  const auto& [name, stages] = GetParam();
  const RecordedRun run = read_run(ranks_of(name));
  std::int64_t compared = 0;
  for (const int rank : {0, 1}) {
    const Json trace = json_in(ranks_of(name)[static_cast<std::size_t>(rank)]);
    std::map<std::string, std::vector<std::int64_t>> lengths;
    for (const Json& event : trace["traceEvents"]) {
      const std::string range = event["name"];
      if (!range.starts_with("PP:")) continue;
      lengths[range.substr(3)].push_back(std::llround(event["dur"].get<double>() * 1000));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      for (const Span& span : run.spans_of(run.iterations[i])) {
        if (span.rank != rank || !is_compute(span.action.kind)) continue;
        ASSERT_EQ(lengths[to_text(span.action)].size(), 3U);
        EXPECT_EQ(span.end_ns - span.start_ns + span.queued_ns, lengths[to_text(span.action)][i]);
        ++compared;
      }
    }
  }
  const Schedule schedule = read_csv(recorded(name + ".csv"));
  const std::size_t cells = row_of(schedule, 0, false).size() + row_of(schedule, 1, false).size();
  EXPECT_EQ(compared, static_cast<std::int64_t>(3 * cells));
}

TEST_P(Recorded, WorksOnlyOnWhatHasArrived) {
  const RecordedRun run = read_run(ranks_of(GetParam().name));
  std::int64_t inputs = 0;
  std::int64_t waits = 0;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    for (const Span& span : run.spans_of(run.iterations[i])) {
      EXPECT_GE(span.start_ns, 0);
      EXPECT_LE(span.start_ns, span.end_ns);
      if (is_receive(span.action.kind)) {
        const Span& send = span_of(run, to_text(peer_of(span.action)), i);
        EXPECT_GE(span.start_ns, send.start_ns);
        EXPECT_GT(span.end_ns, send.start_ns);
        EXPECT_LE(send.end_ns, span.end_ns);
      }
      if (!span.has_input()) continue;
      ++inputs;
      EXPECT_GE(span.start_ns, span.input_arrival_ns);
      waits += span.queued_ns > 0 ? 1 : 0;
    }
  }
  // Every stage but the first has four forwards' inputs, every but the last four backwards'.
  EXPECT_EQ(inputs, 3 * 2 * 4 * (GetParam().stages - 1));
  EXPECT_EQ(waits, inputs);  // each asks for its input, if only to be told that it is there
}

INSTANTIATE_TEST_SUITE_P(Schedules, Recorded,
                         ::testing::Values(Recording{"1f1b", 2}, Recording{"interleaved", 4},
                                           Recording{"zb-h1", 2}),
                         [](const auto& recording) {
                           return recording.param.name == "zb-h1" ? "zbh1" : recording.param.name;
                         });

TEST(Kineto, ReadsOlderNamesOfSingleStageSchedules) {
  const RecordedRun run = read_run(ranks_of("gpipe"));
  EXPECT_EQ(run.warnings.text(), "");
  EXPECT_EQ(run.identified, Identified::annotated);
  EXPECT_EQ(run.about.rank_of_stage, (std::vector<int>{0, 1}));
  ASSERT_EQ(run.iterations.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    using Order = std::vector<std::string>;
    EXPECT_EQ(order_of(run, i, 0, false),
              (Order{"0F0", "0F1", "0F2", "0F3", "0B0", "0B1", "0B2", "0B3"}));
    EXPECT_EQ(order_of(run, i, 1, false),
              (Order{"1F0", "1F1", "1F2", "1F3", "1B0", "1B1", "1B2", "1B3"}));
    EXPECT_EQ(sorted(order_of(run, i, 0, true)),
              (Order{"0RECV_B0", "0RECV_B1", "0RECV_B2", "0RECV_B3", "0SEND_F0", "0SEND_F1",
                     "0SEND_F2", "0SEND_F3"}));
    EXPECT_EQ(sorted(order_of(run, i, 1, true)),
              (Order{"1RECV_F0", "1RECV_F1", "1RECV_F2", "1RECV_F3", "1SEND_B0", "1SEND_B1",
                     "1SEND_B2", "1SEND_B3"}));
    // It waits for its input within the range, and computes after.
    EXPECT_EQ(span_of(run, "1F0", i).start_ns, span_of(run, "1RECV_F0", i).end_ns);
    EXPECT_LE(span_of(run, "1B0", i).end_ns, span_of(run, "1SEND_B0", i).start_ns);
  }
}

TEST(Kineto, TakesFilesInAnyOrder) {
  Paths paths = ranks_of("1f1b");
  const RecordedRun run = read_run(paths);
  std::ranges::reverse(paths);
  EXPECT_EQ(rows_of(read_run(paths)), rows_of(run));
}

TEST(Kineto, NeedsNoScheduleWhereRangesNameActions) {
  ReadOptions options;
  options.profile.program = {"0F0,0B0", "1F0,1B0"};  // another one
  const RecordedRun run = read_run(ranks_of("1f1b"), options);
  EXPECT_EQ(run.identified, Identified::annotated);
  EXPECT_EQ(run.about.program, options.profile.program);
  EXPECT_EQ(rows_of(run), rows_of(read_run(ranks_of("1f1b"))));
}

TEST(Kineto, TellsIterationsByRecurrenceWhereThereAreNoSteps) {
  Changed changed;
  changed.each([](Json& trace) { remove_events(trace, "ProfilerStep#"); });
  const RecordedRun run = changed.read();
  EXPECT_EQ(rows_of(run), rows_of(read_run(ranks_of("1f1b"))));
  ASSERT_EQ(run.iterations.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(run.iterations[i].number, static_cast<int>(i));
  EXPECT_EQ(run.warnings.text(), "");
}

TEST(Kineto, LeavesOutIterationsThatNotAllRanksHave) {
  Changed changed;
  remove_events(changed.second, "ProfilerStep#3");
  const RecordedRun run = changed.read();
  ASSERT_EQ(run.iterations.size(), 2U);
  EXPECT_EQ(run.iterations[0].number, 2);
  EXPECT_EQ(run.iterations[1].number, 4);
  EXPECT_NE(run.warnings.text().find("iterations that not all ranks have, left out"),
            std::string::npos);
  EXPECT_NE(run.warnings.text().find("outside of any ProfilerStep"), std::string::npos);
}

TEST(Kineto, ReadsAllRanksFromOneFile) {
  Changed changed;
  for (const Json& event : changed.second["traceEvents"])
    changed.first["traceEvents"].push_back(event);
  changed.first.erase("distributedInfo");
  const RecordedRun run = read_profile({write(changed.folder, "merged.json", changed.first)}, {});
  EXPECT_EQ(rows_of(run), rows_of(read_run(ranks_of("1f1b"))));
  EXPECT_NE(run.warnings.text().find("in the order of their stages"), std::string::npos);
}

TEST(Kineto, TellsRanksByFileNameProcessNameAndStages) {
  const auto expected = rows_of(read_run(ranks_of("1f1b")));
  Changed changed;
  changed.each([](Json& trace) { trace.erase("distributedInfo"); });
  const RecordedRun by_name = changed.read("worker_rank-0.pt.trace.json", "worker_RANK1.pt.json");
  EXPECT_EQ(rows_of(by_name), expected);
  EXPECT_EQ(by_name.warnings.text(), "");
  const RecordedRun by_stage = changed.read("b.json", "a.json");
  EXPECT_EQ(rows_of(by_stage), expected);
  EXPECT_NE(by_stage.warnings.text().find("in the order of their stages"), std::string::npos);
  int rank = 0;
  changed.each([&](Json& trace) {
    for (Json& event : trace["traceEvents"]) {
      if (event["name"] == "process_name")
        event["args"]["name"] = "python [rank " + std::to_string(rank) + "]";
    }
    ++rank;
  });
  const RecordedRun by_process = changed.read("b.json", "a.json");
  EXPECT_EQ(rows_of(by_process), expected);
  EXPECT_EQ(by_process.warnings.text(), "");
}

TEST(Kineto, AlignsUnrelatedClocksByTheFirstIteration) {
  const RecordedRun expected = read_run(ranks_of("1f1b"));
  Changed changed;
  changed.each([](Json& trace) { trace.erase("baseTimeNanoseconds"); });
  for (Json& event : changed.second["traceEvents"]) {
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - 4e12;
  }
  const RecordedRun run = changed.read();
  EXPECT_NE(run.warnings.text().find("clocks are unrelated"), std::string::npos);
  // Within a rank nothing changes but for the last digits, which a double lacks.
  for (const int rank : {0, 1}) {
    std::vector<std::int64_t> before, after;
    for (const Span& span : expected.spans) {
      if (span.rank == rank && is_compute(span.action.kind)) before.push_back(span.start_ns);
    }
    for (const Span& span : run.spans) {
      if (span.rank == rank && is_compute(span.action.kind)) after.push_back(span.start_ns);
    }
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(before[i] - before[0]),
                  static_cast<double>(after[i] - after[0]), 2000);
    }
  }
  for (const Span& span : run.spans) {
    if (!span.has_input()) continue;
    EXPECT_GE(span.start_ns, span.input_sent_ns);
  }
}

}  // namespace
}  // namespace pipesim
