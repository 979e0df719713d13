// Profiles of PyTorch as runs: what torch.distributed.pipelining really wrote,
// and small profiles of a device, written by hand after what its profiler writes.
#include "traces/read/profile/kineto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/schedule/csv.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/read/profile/range_name.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::error_of;
using testing::input_error_of;
using testing::TemporaryFolder;
using Paths = std::vector<std::string>;

std::string recorded(const std::string& name) {
  return testing::source_file("traces/recorded/" + name);
}
Paths ranks_of(const std::string& name) {
  return {recorded(name + ".rank0.json.gz"), recorded(name + ".rank1.json.gz")};
}

Json json_of(const std::string& path) {
  InputFile file(path);
  std::string text;
  char block[65536];
  for (std::size_t size = 0; (size = file.read(block, sizeof(block))) != 0;)
    text.append(block, size);
  return Json::parse(text);
}

std::string write(const TemporaryFolder& folder, const std::string& name, const Json& trace) {
  write_file(folder / name, trace.dump());
  return folder / name;
}

std::string work_error_of(const Paths& paths, const ReadOptions& options = {}) {
  return error_of([&] {
    try {
      read_profile(paths, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_status(), 1) << error.what();
      throw;
    }
  });
}
std::string refusal_of(const Paths& paths, const ReadOptions& options = {}) {
  return input_error_of([&] { read_profile(paths, options); });
}

// What a rank did in an iteration, by start; transfers only where `transfers`.
std::vector<std::string> order_of(const RecordedRun& run, std::size_t iteration, int rank,
                                  bool transfers) {
  std::vector<std::string> order;
  for (const Span& span : run.spans_of(run.iterations[iteration])) {
    if (span.rank != rank) continue;
    const bool wanted = transfers ? is_transfer(span.action.kind) : is_compute(span.action.kind);
    if (wanted) order.push_back(to_text(span.action));
  }
  return order;
}

std::vector<std::string> row_of(const Schedule& schedule, int rank, bool transfers) {
  std::vector<std::string> row;
  for (const Action& action : schedule.actions[rank]) {
    const bool wanted = transfers ? is_transfer(action.kind) : is_compute(action.kind);
    if (wanted) row.push_back(to_text(action));
  }
  return row;
}

std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  return texts;
}

const Span& span_of(const RecordedRun& run, const std::string& action, std::size_t iteration = 0) {
  static const Span none;
  for (const Span& span : run.spans_of(run.iterations[iteration])) {
    if (to_text(span.action) == action) return span;
  }
  ADD_FAILURE() << "no span of " << action;
  return none;
}

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
    const Json trace = json_of(ranks_of(name)[static_cast<std::size_t>(rank)]);
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

// The recorded 1F1B in another form.
struct Changed {
  TemporaryFolder folder;
  Json first = json_of(ranks_of("1f1b")[0]);
  Json second = json_of(ranks_of("1f1b")[1]);

  template <typename Change>
  void each(Change change) {
    change(first);
    change(second);
  }
  RecordedRun read(const std::string& one = "a.rank0.json",
                   const std::string& other = "a.rank1.json") {
    return read_profile({write(folder, one, first), write(folder, other, second)}, {});
  }
};

using Row = std::tuple<std::string, int, std::int64_t, std::int64_t, std::int64_t>;
std::vector<Row> rows_of(const RecordedRun& run) {
  std::vector<Row> rows;
  for (const Span& span : run.spans) {
    rows.emplace_back(to_text(span.action), span.rank, span.start_ns, span.end_ns, span.queued_ns);
  }
  return rows;
}

void remove_events(Json& trace, const std::string& prefix) {
  Json kept = Json::array();
  for (const Json& event : trace["traceEvents"]) {
    if (!event["name"].get<std::string>().starts_with(prefix)) kept.push_back(event);
  }
  trace["traceEvents"] = kept;
}

TEST(Kineto, TakesFilesInAnyOrder) {
  Paths paths = ranks_of("1f1b");
  const RecordedRun run = read_run(paths);
  std::ranges::reverse(paths);
  EXPECT_EQ(rows_of(read_run(paths)), rows_of(run));
}

TEST(Kineto, NeedsNoScheduleWhereRangesNameActions) {
  ReadOptions options;
  options.program = {"0F0,0B0", "1F0,1B0"};  // another one
  const RecordedRun run = read_run(ranks_of("1f1b"), options);
  EXPECT_EQ(run.identified, Identified::annotated);
  EXPECT_EQ(run.about.program, options.program);
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

// A profile written by hand. Times in microseconds.
class Profile {
 public:
  explicit Profile(int rank, int ranks = 2) {
    trace_["distributedInfo"] = {{"backend", "nccl"}, {"rank", rank}, {"world_size", ranks}};
    trace_["deviceProperties"] = Json::array({{{"id", 0}, {"name", "NVIDIA H100"}}});
    trace_["baseTimeNanoseconds"] = 1'700'000'000'000'000'000;
    trace_["traceEvents"] = Json::array();
  }

  Profile& event(const std::string& category, const std::string& name, const Json& pid,
                 const Json& tid, double ts, double dur, const Json& args = Json::object()) {
    trace_["traceEvents"].push_back({{"ph", "X"},
                                     {"cat", category},
                                     {"name", name},
                                     {"pid", pid},
                                     {"tid", tid},
                                     {"ts", ts},
                                     {"dur", dur},
                                     {"args", args}});
    return *this;
  }
  Profile& range(const std::string& name, double ts, double dur) {
    return event("user_annotation", name, 100, 100, ts, dur);
  }
  // A launch on the processor, and its kernel on the device.
  Profile& kernel(double launched, double ts, double dur, int tid = 100,
                  const std::string& name = "gemm") {
    const int id = ++last_;
    event("cuda_runtime", "cudaLaunchKernel", 100, tid, launched, 1, {{"correlation", id}});
    return event("kernel", name, 0, 7, ts, dur, {{"correlation", id}});
  }
  Profile& message(double launched, double ts, double dur, const Json& args = Json::object()) {
    const int id = ++last_;
    Json all = args;
    all["correlation"] = id;
    event("cuda_runtime", "cudaLaunchKernelExC", 100, 100, launched, 1, {{"correlation", id}});
    return event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0, 20, ts,
                 dur, all);
  }
  Json& json() { return trace_; }

 private:
  Json trace_;
  int last_ = 10;
};

RecordedRun read(const std::vector<Json>& traces, const ReadOptions& options = {}) {
  const TemporaryFolder folder;
  Paths paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    paths.push_back(write(folder, "trace" + std::to_string(i) + ".json", traces[i]));
  }
  return read_profile(paths, options);
}

// The first line of a refusal, by the files' names alone.
std::string refusal(const std::vector<Json>& traces, int status, const ReadOptions& options = {}) {
  const TemporaryFolder folder;
  Paths paths;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    paths.push_back(write(folder, "trace" + std::to_string(i) + ".json", traces[i]));
  }
  std::string text = status == 2 ? refusal_of(paths, options) : work_error_of(paths, options);
  for (std::size_t at = 0; (at = text.find(folder.path().string())) != std::string::npos;) {
    text.erase(at, folder.path().string().size() + 1);
  }
  return text;
}

std::pair<std::int64_t, std::int64_t> times(const RecordedRun& run, const std::string& action) {
  const Span& span = span_of(run, action);
  return {span.start_ns, span.end_ns};
}
using Times = std::pair<std::int64_t, std::int64_t>;

// Two ranks whose pids, tids, streams and correlations are the same.
std::vector<Json> two_ranks() {
  Profile first(0);
  first.range("PP:0F0", 1000, 50).kernel(1010, 1100, 40).kernel(1020, 1145, 55);
  first.range("PP:0SEND_F0", 1060, 10)
      .message(1062, 1200, 90,
               {{"Collective name", "send"},
                {"In msg nelems", 1000},
                {"Out msg nelems", 1000},
                {"dtype", "BFloat16"}});
  first.range("PP:0RECV_B0", 1070, 10).message(1072, 1290, 310);
  first.range("PP:0B0", 1085, 400).kernel(1300, 1610, 100, 300);  // of autograd's thread
  Profile second(1);
  second.range("PP:1RECV_F0", 1000, 10).message(1002, 1010, 275);
  second.range("PP:1F0", 1020, 50).kernel(1030, 1300, 100);
  second.range("PP:1B0", 1080, 400).kernel(1100, 1400, 150, 300).kernel(1120, 1552, 18, 300);
  second.range("PP:1SEND_B0", 1500, 10).message(1501, 1580, 30);
  return {first.json(), second.json()};
}

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
  EXPECT_EQ(refusal(traces, 1),
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
  EXPECT_EQ(refusal({merged(0)}, 1),
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

// Profiles of others, whose functions run one microbatch each.
Json turns_of(int rank) {
  Profile profile(rank);
  double at = 0;
  for (int iteration = 0; iteration < 2; ++iteration) {
    profile.range("ProfilerStep#" + std::to_string(iteration + 7), at, 100);
    const std::string files = "megatron/core/pipeline_parallel/schedules.py(262): ";
    for (const char* name : {"forward_step", "forward_step", "backward_step", "backward_step"}) {
      at += 10;
      profile.event("python_function", files + name, 100, 100, at, 8);
      profile.event("python_function", std::string("pretrain_gpt.py(9): ") + name, 100, 100, at + 1,
                    5);
      profile.kernel(at + 2, at + 1000, 8);
    }
    at += 60;
  }
  return profile.json();
}

TEST(KinetoInferred, TellsTheNthOfAKind) {
  ReadOptions options;
  options.program = {"0F0,0F1,0B0,0B1", ",1F0,1F1,1I1,1I0"};
  const RecordedRun run = read({turns_of(0), turns_of(1)}, options);
  EXPECT_EQ(run.identified, Identified::inferred);
  EXPECT_EQ(run.about.program, options.program);
  ASSERT_EQ(run.iterations.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(run.iterations[i].number, static_cast<int>(i) + 7);
    EXPECT_EQ(order_of(run, i, 0, false), (std::vector<std::string>{"0F0", "0F1", "0B0", "0B1"}));
    EXPECT_EQ(order_of(run, i, 1, false), (std::vector<std::string>{"1F0", "1F1", "1I1", "1I0"}));
  }
  EXPECT_EQ(times(run, "0F1"), Times(10'000, 18'000));
}

TEST(KinetoInferred, CountsWhereThereAreNoSteps) {
  std::vector<Json> traces = {turns_of(0), turns_of(1)};
  for (Json& trace : traces) remove_events(trace, "ProfilerStep#");
  ReadOptions options;
  options.program = {"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"};
  const RecordedRun run = read(traces, options);
  ASSERT_EQ(run.iterations.size(), 2U);
  EXPECT_EQ(order_of(run, 1, 1, false), (std::vector<std::string>{"1F0", "1F1", "1B0", "1B1"}));
}

TEST(KinetoInferred, RefusesWhatDoesNotFit) {
  const std::vector<Json> traces = {turns_of(0), turns_of(1)};
  EXPECT_EQ(
      refusal(traces, 1),
      "trace0.json: no range like `PP:0F0` or `Forward 0` says which action of a pipeline ran, "
      "but it holds 8 backward_step, 8 forward_step: give the schedule that ran, by whose "
      "order the n-th of them is told");
  ReadOptions options;
  options.program = {"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1F2,1B0,1B1,1B2"};
  EXPECT_EQ(refusal(traces, 2, options),
            "trace0.json: iteration 7 of rank 0 has 2 forwards, the schedule 3; give the schedule "
            "that ran");
  options.program = {"0F0,0F1,0I0,0W0,0I1,0W1", "1F0,1F1,1I0,1W0,1I1,1W1"};
  EXPECT_EQ(refusal(traces, 2, options),
            "trace0.json: rank 0 has no weight gradients, the schedule 2 an iteration; give the "
            "schedule that ran");
  options.program = {"0F0,0F1,0B0,0B1"};
  EXPECT_EQ(refusal(traces, 2, options),
            "trace0.json: the schedule has 1 rank, the files 2; give one of each rank");
  options.program = {"0F0,0F1,0B0,0B1", "what"};
  EXPECT_EQ(refusal(traces, 2, options), "the schedule's row of rank 1: 'what' is no action");
}

TEST(KinetoInput, RefusesARankTwice) {
  const std::string message =
      refusal_of({recorded("1f1b.rank0.json.gz"), recorded("interleaved.rank0.json.gz")});
  EXPECT_NE(message.find("1f1b.rank0.json.gz and "), std::string::npos) << message;
  EXPECT_NE(message.find("interleaved.rank0.json.gz: both are of rank 0; give one of each rank"),
            std::string::npos)
      << message;
}

TEST(KinetoInput, RefusesAPartOfThePipeline) {
  const std::string message = refusal_of({recorded("interleaved.rank0.json.gz")});
  EXPECT_NE(
      message.find("nothing here is of stages 1, 3: files of some ranks are not given (1 of 2 "
                   "here), or their kernels were lost; give the files of all ranks of the "
                   "pipeline"),
      std::string::npos)
      << message;
}

TEST(KinetoInput, RefusesReplicas) {
  std::vector<Json> traces = two_ranks();
  Json replica = traces[0];
  replica["distributedInfo"]["rank"] = 2;
  traces.push_back(replica);
  EXPECT_EQ(refusal(traces, 2),
            "trace0.json and trace2.json: stage 0 ran in both, as of two replicas or of one rank "
            "twice; give the files of one pipeline");
}

TEST(KinetoInput, RefusesARankThatSendsForAnother) {
  std::vector<Json> traces = two_ranks();
  Profile third(2);
  third.range("PP:0SEND_F1", 0, 10).message(1, 20, 10);
  third.range("Optimizer.step#SGD.step", 30, 5).kernel(31, 50, 5);
  traces.push_back(third.json());
  EXPECT_EQ(refusal(traces, 2),
            "trace0.json and trace2.json: stage 0 ran in both, as of two replicas or of one rank "
            "twice; give the files of one pipeline");
}

TEST(KinetoInput, TakesOnePipelineOfALargerJob) {
  std::vector<Json> traces = two_ranks();
  for (int i = 0; i < 2; ++i) {
    auto& info = traces[static_cast<std::size_t>(i)]["distributedInfo"];
    info["rank"] = 4 + i;
    info["world_size"] = 8;
  }
  const RecordedRun run = read(traces);
  EXPECT_EQ(rows_of(run), rows_of(read(two_ranks())));
  const std::string warnings = run.warnings.text();
  EXPECT_NE(warnings.find("ranks 4, 5 of the job are taken as the pipeline's"), std::string::npos);
  EXPECT_NE(warnings.find("the job had 8 ranks, of which 2 are given"), std::string::npos);
}

TEST(KinetoInput, RefusesWhatIsNoPipeline) {
  Profile other(0, 1);
  other.range("Optimizer.step#SGD.step", 0, 10).kernel(1, 20, 10);
  other.range("DistributedDataParallel.forward", 20, 10);
  EXPECT_EQ(refusal({other.json()}, 1),
            "trace0.json: no range like `PP:0F0` or `Forward 0` says which action of a pipeline "
            "ran; it holds 4 events: 2 user_annotation, 1 cuda_runtime, 1 kernel; give the traces "
            "of a run by torch.distributed.pipelining");
  std::vector<Json> traces = two_ranks();
  traces[1] = other.json();
  EXPECT_NE(refusal(traces, 1).find("trace1.json: no range like"), std::string::npos);
}

TEST(KinetoInput, SaysWhatTracesOfOthersHold) {
  const auto message = [](const std::string& name) {
    return work_error_of({testing::source_file("tests/data/traces/" + name)});
  };
  EXPECT_NE(message("hta_amd_mi250.json.gz")
                .find("it holds 220 events: 70 cpu_op, 21 cuda_runtime, 14 kernel, 3 "
                      "user_annotation, 2 gpu_memcpy, ...; give the traces of a run by"),
            std::string::npos);
  EXPECT_NE(message("hta_backward_thread.json")
                .find("it holds 7 events: 3 cpu_op, 2 user_annotation, 1 cuda_runtime, 1 kernel;"),
            std::string::npos);
  EXPECT_NE(message("hta_event_sync.json.gz").find("it holds 149 events: 39 cuda_runtime, "),
            std::string::npos);
}

TEST(KinetoInput, RefusesMicrobatchesWithGaps) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0F999999999", 20, 10);
  EXPECT_EQ(refusal({only.json()}, 2),
            "trace0.json: it has microbatch 999999999 but not 1; record whole iterations");
}

TEST(KinetoInput, RefusesTimesThatAreFarApart) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0F1", 2e12, 10);
  EXPECT_EQ(refusal({only.json()}, 2),
            "trace0.json: 0F1 is more than 11 days from the first iteration; leave out what is not "
            "of the run");
}

TEST(KinetoInput, WarnsOfRangesOfUnknownKinds) {
  Profile only(0, 1);
  only.range("PP:0F0", 0, 10).range("PP:0DREAM0", 20, 10).range("PP:0WAIT_REDUCE_GRAD", 30, 1);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(run.unmatched, 1);
  EXPECT_EQ(run.spans.size(), 1U);
  EXPECT_NE(run.warnings.text().find("ranges PP: of an unknown kind, left out"), std::string::npos);
}

TEST(KinetoInput, TellsIterationsByRecurrenceWithinAStep) {
  Profile only(0, 1);
  only.range("ProfilerStep#5", 0, 100);
  only.range("PP:0F0", 0, 10).range("PP:0B0", 10, 10);
  only.range("PP:0F0", 50, 10).range("PP:0B0", 60, 10);
  const RecordedRun run = read({only.json()});
  EXPECT_EQ(run.iterations.size(), 2U);
  EXPECT_NE(run.warnings.text().find("recurs within a ProfilerStep"), std::string::npos);
}

TEST(RangeName, SaysWhatItKnows) {
  using Says = RangeName::Says;
  const auto says = [](std::string_view name) { return parse_range_name(name).says; };
  EXPECT_EQ(says("PP:0F0"), Says::action);
  EXPECT_EQ(says("PP:12SEND_B345"), Says::action);
  EXPECT_EQ(says("PP:0REDUCE_GRAD"), Says::action);
  EXPECT_EQ(says("PP:(1F0;2B1)OVERLAP_F_B"), Says::action);
  EXPECT_EQ(says("PP:(1F0;2I1)OVERLAP_F_B"), Says::action);
  EXPECT_EQ(says("PP:(1B0;2F1)OVERLAP_F_B"), Says::unknown);
  EXPECT_EQ(says("PP:(1F0)OVERLAP_F_B"), Says::unknown);
  EXPECT_EQ(says("PP:0WAIT_SEND_F1"), Says::wait);
  EXPECT_EQ(says("PP:"), Says::unknown);
  EXPECT_EQ(says("PP:WAIT_SEND_F1"), Says::unknown);
  EXPECT_EQ(says("Forward 3"), Says::microbatch);
  EXPECT_EQ(parse_range_name("Backward 3").action, make_action(0, Kind::B, 3));
  EXPECT_EQ(says("Forward 2147483647"), Says::nothing);
  EXPECT_EQ(says("Forward -1"), Says::nothing);
  EXPECT_EQ(says("Forward pass"), Says::nothing);
  EXPECT_EQ(parse_range_name("ProfilerStep#17").number, 17);
  EXPECT_EQ(says("ProfilerStep#99999999999"), Says::nothing);
  EXPECT_EQ(says("ProfilerStep*"), Says::nothing);
  EXPECT_EQ(says("Optimizer.step#AdamW.step"), Says::optimizer);
  EXPECT_EQ(says("Optimizer.zero_grad#AdamW.zero_grad"), Says::nothing);
  EXPECT_EQ(says("torch/distributed/pipelining/stage.py(9): backward_weight_one_chunk"),
            Says::turn);
  EXPECT_EQ(says("forward_step"), Says::turn);
  EXPECT_EQ(says("my_forward_step"), Says::nothing);
  EXPECT_EQ(says("aten::mm"), Says::nothing);
}

}  // namespace
}  // namespace pipesim
