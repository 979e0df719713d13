// `pipesim whatif`, as a user drives it: of a predicted run its answers are known to the
// nanosecond, as the predictions with the costs that it asks for.
#include "sim/request/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "sim/compare/launch_gaps.h"
#include "sim/engine/record_run.h"
#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::expect_one_sentence;
using testing::Outcome;
using testing::pipesim;

Json parsed(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

class WhatIfCommand : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  static Words joined(Words first, const Words& more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
  }
  static std::int64_t makespan(const Words& arguments) {
    return parsed(pipesim(joined(arguments, {"--json"})))["makespan_ns"];
  }
  std::string trace(const Words& arguments) {
    const std::string path = folder_ / "run.json";
    const Outcome outcome = pipesim(joined(arguments, {"--trace", path, "--quiet"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return path;
  }
  static Json ask(const std::string& path, const Words& question) {
    return parsed(pipesim(joined({"whatif", path, "--json"}, question)));
  }

  const Words base_{"--schedule",         "1f1b",
                    "--stages",           "4",
                    "--microbatches",     "8",
                    "--forward",          "1ms,1ms,2ms,1ms",
                    "--backward",         "2ms,2ms,4ms,2ms",
                    "--p2p-latency",      "100us",
                    "--activation-bytes", "1MiB"};
  testing::TemporaryFolder folder_;
};

TEST_F(WhatIfCommand, AnswersWhatIsPredictedWithSuchCosts) {
  const std::string path = trace(base_);
  struct Case {
    Words question, prediction;  // its last flags replace earlier ones
  };
  const Words costs{"--p2p-latency", "100us", "--activation-bytes", "1MiB"};
  const Words uneven{"--forward", "1ms,1ms,2ms,1ms", "--backward", "2ms,2ms,4ms,2ms"};
  const Words four{"--schedule", "1f1b", "--stages", "4", "--microbatches", "8"};
  const std::vector<Case> cases{
      {{"--scale", "B@stage2=0.5"},
       joined(joined(four, costs), {"--forward", "1ms,1ms,2ms,1ms", "--backward", "2ms"})},
      {{"--scale", "stage2=0.5"}, joined(joined(four, costs), {"--forward", "1ms"})},
      {{"--scale", "F@rank2=x0.5,B@rank2=0.5x"}, joined(joined(four, costs), {"--forward", "1ms"})},
      {{"--scale", "F=3"},
       joined(joined(four, costs),
              {"--forward", "3ms,3ms,6ms,3ms", "--backward", "2ms,2ms,4ms,2ms"})},
      {{"--schedule", "zb-h1"},
       joined(joined({"--schedule", "zb-h1", "--stages", "4", "--microbatches", "8"}, uneven),
              costs)},
      {{"--microbatches", "12"},
       joined(joined({"--schedule", "1f1b", "--stages", "4", "--microbatches", "12"}, uneven),
              costs)},
  };
  const std::int64_t before = makespan(base_);
  for (const Case& c : cases) {
    const Json json = ask(path, c.question);
    SCOPED_TRACE(c.question[1]);
    EXPECT_EQ(json["as_it_ran"]["makespan_ns"], before);
    EXPECT_EQ(json["as_it_ran"]["predicted_ns"], before);
    ASSERT_EQ(json["rows"].size(), 1U);
    const std::int64_t after = makespan(c.prediction);
    EXPECT_EQ(json["rows"][0]["makespan_ns"], after);
    EXPECT_DOUBLE_EQ(json["rows"][0]["change"].get<double>(),
                     static_cast<double>(after) / static_cast<double>(before) - 1);
  }
}

TEST_F(WhatIfCommand, MakesLinksFaster) {
  const std::string costs = folder_ / "costs.json";
  const auto with_edges = [&](const std::string& edges) {
    write_file(costs,
               R"({"format": "pipesim-costs", "version": 1, "stages": [
                  {"forward_ns": 1000000, "backward_ns": 2000000, "output_bytes": 1000000},
                  {"forward_ns": 1000000, "backward_ns": 2000000, "output_bytes": 1000000},
                  {"forward_ns": 1000000, "backward_ns": 2000000}],
                  "p2p": {"latency_ns": 200000, "bandwidth_bytes_per_s": 5000000000, "edges": [)" +
                   edges + "]}}");
    return Words{"--schedule", "1f1b", "--stages", "3", "--microbatches", "6", "--costs", costs};
  };
  const std::string path = trace(with_edges(""));
  const Json json = ask(path, {"--link", "1-0=4x"});
  // 200 us and 200 us of bytes become 50 us and 50 us.
  const std::string fast = R"("latency_ns": 50000, "bandwidth_bytes_per_s": 20000000000})";
  EXPECT_EQ(json["rows"][0]["makespan_ns"],
            makespan(with_edges(R"({"from": 0, "to": 1, )" + fast + R"(, {"from": 1, "to": 0, )" +
                                fast)));
}

TEST_F(WhatIfCommand, KeepsTheNumberOfChunks) {
  const Words looped{"--stages", "2", "--microbatches", "4", "--virtual-stages", "3"};
  const std::string path = trace(joined({"--schedule", "interleaved"}, looped));
  const Json json = ask(path, {"--schedule", "bfs", "--microbatches", "6"});
  ASSERT_EQ(json["rows"].size(), 3U);
  EXPECT_EQ(json["rows"][0]["makespan_ns"], makespan(joined({"--schedule", "bfs"}, looped)));
  EXPECT_EQ(json["rows"][1]["makespan_ns"],
            makespan({"--schedule", "interleaved", "--stages", "2", "--microbatches", "6",
                      "--virtual-stages", "3"}));
  EXPECT_EQ(json["rows"][2]["flags"], "--schedule bfs --microbatches 6");
  EXPECT_EQ(json["rows"][2]["makespan_ns"],
            makespan({"--schedule", "bfs", "--stages", "2", "--microbatches", "6",
                      "--virtual-stages", "3"}));
}

TEST_F(WhatIfCommand, KeepsTheV) {
  const Words uneven{"--stages",         "2",
                     "--forward",        "1ms,1.2ms,1.1ms,2ms",
                     "--backward-input", "1ms,1ms,1.5ms,1ms",
                     "--p2p-latency",    "100us"};
  for (const char* name : {"v-half", "dualpipe-v"}) {
    const std::string path = trace(joined({"--schedule", name, "--microbatches", "6"}, uneven));
    const Json json = ask(path, {"--schedule", "zb-v", "--microbatches", "9"});
    ASSERT_EQ(json["rows"].size(), 3U);
    for (const auto& [row, schedule, microbatches] :
         {std::tuple(0, "zb-v", "6"), {1, name, "9"}, {2, "zb-v", "9"}}) {
      EXPECT_EQ(json["rows"][row]["makespan_ns"],
                makespan(joined({"--schedule", schedule, "--microbatches", microbatches}, uneven)))
          << name << ", row " << row;
    }
  }
}

TEST_F(WhatIfCommand, OfIterationsThatFollowEachOtherMeansEachFurtherOne) {
  const Words flags{"--schedule", "zb-h2", "--stages", "4", "--microbatches", "8"};
  const std::string path = trace(joined(flags, {"--iterations", "5"}));
  const Json json = ask(path, {"--scale", "F=1"});
  EXPECT_EQ(json["as_it_ran"]["makespan_ns"], 24'000'000);  // the first takes 27 ms
  EXPECT_EQ(json["rows"][0]["makespan_ns"], 24'000'000);
}

TEST_F(WhatIfCommand, ComesAsATableThatFitsTheTerminal) {
  const std::string path = trace(base_);
  for (const int width : {40, 80, 200}) {
    const Outcome outcome = pipesim({"whatif", path, "--scale", "B@stage2=0.5,F@stage2=0.5",
                                     "--schedule", "zb-h1", "--schedule", "gpipe"},
                                    {"COLUMNS=" + std::to_string(width)});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(width, 80))) << line;
    }
    EXPECT_NE(outcome.out.find("zb-h1"), std::string::npos);
    // Two schedules are two answers, and no one run of both.
    EXPECT_EQ(outcome.out.find("all of these"), std::string::npos);
  }
}

TEST_F(WhatIfCommand, RefusesInOneSentence) {
  const std::string path = trace(base_);
  const std::string twice = trace(base_);
  struct Case {
    Words question;
    std::string part;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "name a change"},
           {{"--scale", "B@stage4=0.5"}, "there is no stage 4; there are 4 stages"},
           {{"--scale", "B@rank7=0.5"}, "there is no rank 7"},
           {{"--scale", "Q@stage1=0.5"}, "'Q' is not F, I, W or B"},
           {{"--scale", "B@desk2=0.5"}, "'desk2' is neither a stage nor a rank"},
           {{"--scale", "B@stage2"}, "there is no '='"},
           {{"--scale", "B@stage2=fast"}, "'fast' is not a factor"},
           {{"--scale", "B@stage2=-1"}, "'-1' is not a factor"},
           {{"--scale", "=2"}, "'' is not F, I, W or B"},
           {{"--link", "0-2=2x"}, "ranks 0 and 2 exchange no messages"},
           {{"--link", "0=2x"}, "'0' are not two ranks"},
           {{"--schedule", "1f1c"}, "unknown schedule '1f1c'"},
           {{"--schedule", "interleaved", "--virtual-stages", "2"},
            "needs times of 8 virtual stages"},
           {{"--layout", "1,1,1,1"}, "does not give each layer's time"},
           {{"--microbatches", "0"}, "--microbatches"},
           {{"--virtual-stages", "2", "--scale", "B=1"}, "--virtual-stages: belongs to --schedule"},
           {{"--microbatches", "900000000"}, "memory"},
       }) {
    expect_one_sentence(pipesim(joined({"whatif", path}, c.question)), "pipesim",
                        c.question.empty() ? "" : c.question[1], 2, c.part);
  }
  expect_one_sentence(pipesim({"whatif", "--scale", "B=1"}), "pipesim", "", 2, "give a trace");
}

// Whatever a run's report advises can be run: of predictions, of an emulated run, whose costs are
// by stage, and of a training, whose costs are by layer.
TEST_F(WhatIfCommand, RunsWhatAReportAdvises) {
  const std::string looped =
      trace({"--schedule", "interleaved", "--stages", "3", "--microbatches", "6"});
  const std::string emulated = folder_ / "emulated run.json";
  const std::string trained = folder_ / "trained.json.gz";
  for (const Words& more :
       {Words{"--device", "emulated", "--stages", "4", "--pace", "anchored", "--trace", emulated},
        Words{"--stages", "2", "--micro-batch-size", "1", "--trace", trained}}) {
    const Outcome outcome = testing::run_command(
        joined({PIPEEXEC_COMMAND, "--schedule", "1f1b", "--microbatches", "4", "--transport",
                "local", "--iterations", "2", "--warmup", "0", "--quiet"},
               more));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  int run = 0;
  for (const std::string& path : {looped, emulated, trained}) {
    const Outcome report = pipesim({"report", path}, {"COLUMNS=80"});
    EXPECT_EQ(report.status, 0) << report.err;
    EXPECT_NE(report.out.find("Limited by"), std::string::npos) << report.out;
    for (const std::string& command : testing::advised_commands(report.out)) {
      const Outcome outcome =
          testing::run_command({"/bin/sh", "-c", std::string(PIPESIM_COMMAND) + " " + command});
      EXPECT_EQ(outcome.status, 0) << command << ": " << outcome.err;
      ++run;
    }
  }
  EXPECT_GE(run, 5);
}

// What no costs know of is taken to cost as much in proportion.
TEST(RecordedBasis, PutsPredictionsRightByWhatTheRunTookMore) {
  const ScheduleChoice choice = choose_schedule({.name = "1f1b", .ranks = 2, .microbatches = 4});
  Costs costs;
  costs.stages.assign(2, usual_stage_costs());
  RecordedRun run = record_run(choice.schedule, costs);
  const std::int64_t planned = run.iterations[0].makespan_ns;
  // All ranks stand still for a while where nothing runs: between two actions of rank 1 that rank
  // 0 waits for.
  const std::int64_t stall = planned / 4;
  const std::int64_t at = 1'000'000;
  for (Span& span : run.spans) {
    if (span.start_ns >= at) span.start_ns += stall;
    if (span.end_ns > at) span.end_ns += stall;
    if (span.input_sent_ns > at) span.input_sent_ns += stall;
    if (span.input_arrival_ns > at) span.input_arrival_ns += stall;
  }
  find_iterations(run);
  ASSERT_EQ(run.iterations[0].makespan_ns, planned + stall);
  const RecordedBasis basis(run);
  EXPECT_EQ(basis.as_it_ran().predicted_ns, planned);
  EXPECT_EQ(basis.measured_ns(), planned + stall);
  WhatIf twice;
  twice.times = parse_time_changes("F=2,B=2");
  EXPECT_EQ(basis.answer(twice).predicted_ns, 2 * planned);
  EXPECT_EQ(basis.answer(twice).iteration_ns, 2 * (planned + stall));
  // The bubble is that of the record, as a report has it; twice the work has as much.
  EXPECT_DOUBLE_EQ(basis.as_it_ran().bubble, run.metrics(0).global_bubble());
  EXPECT_DOUBLE_EQ(basis.answer(twice).bubble, run.metrics(0).global_bubble());
}

// A run of several iterations, in each of which rank 1 pauses before one action.
RecordedRun with_pauses(const std::vector<std::int64_t>& forward_ns, std::int64_t pause_ns) {
  const int ranks = static_cast<int>(forward_ns.size());
  const ScheduleChoice choice =
      choose_schedule({.name = "1f1b", .ranks = ranks, .microbatches = 8});
  Costs costs;
  costs.stages.assign(forward_ns.size(), usual_stage_costs());
  for (std::size_t i = 0; i < forward_ns.size(); ++i) costs.stages[i].forward_ns = forward_ns[i];
  const RecordedRun one = record_run(choice.schedule, costs);
  // The same played again, messages taking no time.
  std::vector<Span> played(one.spans.begin(), one.spans.end());
  std::map<std::tuple<Kind, int, int>, std::int64_t> ends;
  std::vector<std::int64_t> free_ns(forward_ns.size(), 0);
  const auto end_of = [&](Kind kind, int stage, int microbatch) {
    const auto end = ends.find({kind, stage, microbatch});
    return end == ends.end() ? 0 : end->second;
  };
  for (Span& span : played) {
    const auto [stage, microbatch] = std::pair(span.action.stage, span.action.microbatch);
    if (is_transfer(span.action.kind)) continue;
    std::int64_t& free = free_ns[static_cast<std::size_t>(span.rank)];
    const bool is_forward = span.action.kind == Kind::F;
    const std::int64_t input_ns =
        end_of(span.action.kind, stage + (is_forward ? -1 : 1), microbatch);
    const std::int64_t duration_ns = span.end_ns - span.start_ns;
    const bool pauses = span.action == make_action(1, Kind::B, 4);
    span.queued_ns = std::max<std::int64_t>(0, input_ns - free) + (pauses ? pause_ns : 0);
    span.start_ns = std::max(free, input_ns) + (pauses ? pause_ns : 0);
    free = span.end_ns = ends[{span.action.kind, stage, microbatch}] = span.start_ns + duration_ns;
  }
  for (Span& span : played) {
    if (!is_transfer(span.action.kind)) continue;
    const Action send = is_send(span.action.kind) ? span.action : peer_of(span.action);
    span.start_ns = span.end_ns =
        end_of(send.kind == Kind::SEND_F ? Kind::F : Kind::B, send.stage, send.microbatch);
  }
  RecordedRun run = one;
  run.about.source = Source::measured;
  run.about.transport = "local";
  run.spans.clear();
  const std::int64_t whole = *std::ranges::max_element(free_ns);
  for (int iteration = 0; iteration < 5; ++iteration) {
    for (Span span : played) {
      span.start_ns += iteration * whole;
      span.end_ns += iteration * whole;
      span.iteration = iteration;
      run.spans.push_back(span);
    }
  }
  std::ranges::stable_sort(run.spans, {}, [](const Span& span) {
    return std::tuple(span.iteration, span.start_ns, span.rank);
  });
  find_iterations(run);
  for (const RecordedIteration& iteration : run.iterations) {
    const std::span<Span> spans(run.spans.data() + iteration.begin,
                                iteration.end - iteration.begin);
    join_inputs(spans, SpanIndex(spans));
  }
  return run;
}

// A pause is a late launch, and makes no stage uneven: what stages take is what they compute.
TEST(RecordedBasis, LimitsTellPausesFromUnevenStages) {
  constexpr std::int64_t ms = 1'000'000;
  const auto partition_of = [](const RecordedRun& run) {
    const LaunchLoss loss = launch_loss(run);
    const std::vector<Limit> limits = RecordedBasis(run, loss.ns).limits();
    const auto found = std::ranges::find(limits, LimitKind::partition, &Limit::kind);
    return found == limits.end() ? std::optional<Limit>() : *found;
  };
  const RecordedRun even = with_pauses({ms, ms, ms, ms}, 8 * ms);
  EXPECT_FALSE(partition_of(even));
  const LaunchLoss loss = launch_loss(even);
  EXPECT_EQ(loss.rank, 1);
  EXPECT_EQ(to_text(loss.action), "1B4");
  EXPECT_GE(loss.action_gap_ns, 8 * ms);

  const RecordedRun uneven = with_pauses({ms, 2 * ms, ms, ms}, 8 * ms);
  const std::optional<Limit> limit = partition_of(uneven);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->stage, 1);
  EXPECT_EQ(limit->stage_ns, 4 * ms);
  EXPECT_EQ(limit->mean_ns, 13 * ms / 4);
}

// Gaps before what a rank computes, but for those that nobody waits for.
TEST(LaunchLoss, IsWhatGapsCost) {
  const ScheduleChoice choice = choose_schedule({.name = "1f1b", .ranks = 1, .microbatches = 3});
  Costs costs;
  costs.stages.assign(1, usual_stage_costs());
  RecordedRun run = record_run(choice.schedule, costs);
  EXPECT_EQ(launch_loss(run).ns, 0);
  std::int64_t later = 0;
  for (Span& span : run.spans) {
    if (span.action.kind == Kind::B) later += 300'000;
    span.start_ns += later;
    span.end_ns += later;
  }
  find_iterations(run);
  const LaunchLoss loss = launch_loss(run);
  EXPECT_EQ(loss.ns, 900'000);
  EXPECT_EQ(loss.rank, 0);
  EXPECT_EQ(loss.rank_gaps_ns, 900'000);
  EXPECT_EQ(loss.action.kind, Kind::B);
  EXPECT_EQ(loss.action_gap_ns, 300'000);
  run.iterations.clear();
  EXPECT_EQ(launch_loss(run).ns, 0);
}

// What no message is recorded for may have waited for one.
TEST(LaunchLoss, IsNoMessageThatWasNotRecorded) {
  const ScheduleChoice choice = choose_schedule({.name = "1f1b", .ranks = 2, .microbatches = 4});
  Costs costs;
  costs.stages.assign(2, usual_stage_costs());
  costs.p2p.latency_ns = 700'000;
  RecordedRun run = record_run(choice.schedule, costs);
  EXPECT_EQ(launch_loss(run).ns, 0);
  std::erase_if(run.spans, [](const Span& span) { return is_transfer(span.action.kind); });
  for (Span& span : run.spans) span.input_sent_ns = span.input_arrival_ns = 0;
  find_iterations(run);
  EXPECT_EQ(launch_loss(run).ns, 0);
}

}  // namespace
}  // namespace pipesim
