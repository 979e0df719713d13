// `pipesim report` and `pipesim compare` of runs of input pipelines.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "sim/report/input_comparison.h"
#include "tests/command.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/input_runs.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/input_pipeline/input_trace.h"
#include "traces/print/input_report.h"

namespace pipesim {
namespace {

using nlohmann::json;
using testing::expect_one_sentence;
using testing::Outcome;
using testing::pipesim;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

InputRun some_run(int seed, bool is_measured, int batches = 6) {
  std::mt19937_64 random(static_cast<unsigned>(seed));
  InputRun run = testing::random_run(testing::overlapping_program(2, batches), random, 1'000'000);
  run.is_measured = is_measured;
  run.batch_size = 512;
  run.model = "dlrm-mini";
  run.memory = {{1 << 20, 0, 2 << 20, 3 << 20, 0}, {2 << 20, 0, 2 << 20, 3 << 20, 0}};
  if (is_measured) run.losses = std::vector<double>(static_cast<std::size_t>(batches), 0.25);
  return run;
}

void expect_lines_of(const std::string& text, std::size_t width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
}

TEST(InputReport, SaysOfEachKindWhatIsHiddenAndWhatExposed) {
  const TemporaryFolder folder;
  const InputRun run = some_run(1, true);
  write_input_trace(run, folder / "run.json.gz");
  for (const std::size_t width : {40, 80, 200}) {
    const Outcome outcome =
        pipesim({"report", folder / "run.json.gz"}, {"COLUMNS=" + std::to_string(width)});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, input_report(run, measure(run), {static_cast<int>(width), false}));
    expect_lines_of(outcome.out, width);
  }
  const std::string text = input_report(run, measure(run), {80, false});
  for (const char* part : {"overlapping, dlrm-mini, 2 ranks, 6 batches: ", "samples/s",
                           "\ndata_dist", "\nCOPY ", "\nother ranks ", "\nrank, ", "hidden",
                           "in flight", "7.0 MiB", "loss    0.25 of the first batch"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  }
}

TEST(InputReport, IsAnObjectWhosePartsSumToTheMakespan) {
  const TemporaryFolder folder;
  write_input_trace(some_run(2, true), folder / "run.json");
  const Outcome outcome = pipesim({"report", folder / "run.json", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("format"), "pipesim-input-report");
  EXPECT_EQ(report.at("source"), "measured");
  EXPECT_EQ(report.at("losses").size(), 6U);
  EXPECT_EQ(report.at("peak_memory_bytes"), 7 << 20);
  ASSERT_EQ(report.at("ranks").size(), 2U);
  for (const json& rank : report.at("ranks")) {
    std::int64_t sum =
        rank.at("busy_ns").get<std::int64_t>() + rank.at("drain_ns").get<std::int64_t>();
    for (const auto& [kind, ns] : rank.at("exposed_ns").items()) sum += ns.get<std::int64_t>();
    EXPECT_EQ(sum, report.at("makespan_ns"));
  }
}

TEST(InputReport, HasOneValueInPredictionTraceAndText) {
  const TemporaryFolder folder;
  const std::string trace = folder / "run.json";
  for (const char* program : {"base", "sparse-dist", "fused"}) {
    const auto line = [&](const char* batches, const char* accumulate) {
      return Words{"--input-pipeline", program,    "--model", "dlrm-mini", "--cluster",
                   "dgx-a100",         "--ranks",  "4",       "--batches", batches,
                   "--accumulate",     accumulate, "--trace", trace,       "--json"};
    };
    for (const auto& words : {line("1", "1"), line("7", "1"), line("12", "3")}) {
      const Outcome outcome = pipesim(words);
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      const json predicted = json::parse(outcome.out);
      const json read = json::parse(pipesim({"report", trace, "--json"}).out);
      EXPECT_TRUE(read.at("warnings").empty());
      for (const char* key :
           {"batches", "accumulate", "batch_size", "makespan_ns", "steady_iteration_ns",
            "samples_per_second", "exposed_ns", "peak_memory_bytes"}) {
        EXPECT_EQ(read.at(key), predicted.at(key)) << program << " " << key;
      }
      for (std::size_t rank = 0; rank < 4; ++rank) {
        for (const auto& [key, value] : read.at("ranks")[rank].items()) {
          EXPECT_EQ(predicted.at("ranks")[rank].at(key), value) << program << " " << key;
        }
      }
      const std::string text = pipesim({"report", trace}, {"COLUMNS=400"}).out;
      for (const std::string& part : {format_time(read.at("steady_iteration_ns")) + " per batch",
                                      format_rounded(read.at("samples_per_second")) + " samples/s",
                                      "of " + format_time(read.at("makespan_ns"))}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
      }
    }
  }
}

// A rank whose clock is ahead, or behind by more than the run is long.
TEST(InputReport, SaysWithEveryCommandThatClocksArePutRight) {
  const TemporaryFolder folder;
  const std::string right = folder / "right.json", wrong = folder / "wrong.json";
  for (const std::int64_t ahead_ns : {std::int64_t{900'000'000}, std::int64_t{1'000'000'000'000}}) {
    InputRun run = some_run(10, true);
    write_input_trace(run, right);
    for (InputSpan& span : run.spans[1]) {
      for (std::int64_t* time :
           {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
        *time += ahead_ns;
      }
    }
    write_input_trace(run, wrong);
    for (const Words& words :
         std::vector<Words>{{"report", wrong},
                            {"compare", right, wrong},
                            {"compare", wrong, right},
                            {"calibrate", wrong, "--output", folder / "costs.json"},
                            {"whatif", wrong, "--scale", "COPY=0.5"}}) {
      const Outcome outcome = pipesim(words);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("clocks are shifted by up to"), std::string::npos)
          << words[0] << "\n"
          << outcome.out;
    }
    const json read = json::parse(pipesim({"report", wrong, "--json"}).out);
    const json want = json::parse(pipesim({"report", right, "--json"}).out);
    ASSERT_EQ(read.at("warnings").size(), 1U);
    // Only what collectives leave open is unknown: less than one takes.
    EXPECT_NEAR(read.at("makespan_ns").get<double>(), want.at("makespan_ns").get<double>(), 1e6);
    const json both = json::parse(pipesim({"compare", right, wrong, "--json"}).out);
    EXPECT_TRUE(both.at("warnings").at("predicted").empty());
    EXPECT_EQ(both.at("warnings").at("measured"), read.at("warnings"));
  }
}

TEST(InputReport, RefusesWhatMeansNothing) {
  const TemporaryFolder folder;
  write_input_trace(some_run(3, false), folder / "run.json");
  const std::string run = folder / "run.json";
  expect_one_sentence(pipesim({"report", run, run}), "pipesim", "report run run", 2,
                      "a run of an input pipeline is one trace, of all its ranks; give it alone");
  expect_one_sentence(pipesim({"report", run, "--flame", folder / "f.folded"}), "pipesim",
                      "report run --flame", 2, "--flame: it does not apply to a run of an input");
  write_file(folder / "cut.json", read_file(run).substr(0, 20'000));
  expect_one_sentence(pipesim({"report", folder / "cut.json"}), "pipesim", "report cut", 2,
                      "it breaks off in the middle");
  const std::string other = testing::source_file("tests/data/traces/hta_event_sync.json.gz");
  expect_one_sentence(pipesim({"report", other, "--json"}), "pipesim", "report --json", 2,
                      "--json: no pipeline is known in these files");
}

TEST(InputComparison, PutsBothSideBySide) {
  const InputRun predicted = some_run(4, false), measured = some_run(5, true);
  const InputComparison comparison = compare_inputs(predicted, measured, "p", "m");
  const InputMetrics one = measure(predicted), other = measure(measured);
  EXPECT_EQ(comparison.makespan.predicted_ns, one.makespan_ns);
  EXPECT_EQ(comparison.makespan.measured_ns, other.makespan_ns);
  EXPECT_EQ(comparison.steady_iteration.difference_ns(),
            other.steady_iteration_ns - one.steady_iteration_ns);
  ASSERT_EQ(comparison.kinds.size(), 17U);
  const auto copy = static_cast<std::size_t>(Kind::COPY);
  EXPECT_EQ(comparison.kinds[1].total.measured_ns,
            (other.ranks[0].total[copy] + other.ranks[1].total[copy]) / 2);
  EXPECT_EQ(comparison.kinds[1].exposed.predicted_ns,
            (one.ranks[0].exposed[copy] + one.ranks[1].exposed[copy]) / 2);
  // The worst of all single actions, by hand.
  std::int64_t worst = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t place = 0; place < predicted.spans[rank].size(); ++place) {
      const InputSpan& p = predicted.spans[rank][place];
      const InputSpan& m = measured.spans[rank][place];
      worst = std::max(worst, std::abs((m.end_ns - m.start_ns) - (p.end_ns - p.start_ns)));
    }
  }
  ASSERT_EQ(comparison.worst.size(), 10U);
  EXPECT_EQ(std::abs(comparison.worst.front().duration.difference_ns()), worst);
}

TEST(InputComparison, OfARunWithItselfIsNothing) {
  const InputRun run = some_run(6, false);
  const InputComparison comparison = compare_inputs(run, run, "a", "b");
  EXPECT_TRUE(comparison.worst.empty());
  EXPECT_EQ(comparison.error.p90, 0);
  EXPECT_GT(comparison.error.count, 0);
}

TEST(InputComparison, IsPrintedAndAnObject) {
  const TemporaryFolder folder;
  write_input_trace(some_run(7, false), folder / "p.json");
  write_input_trace(some_run(8, true), folder / "m.json");
  for (const std::size_t width : {40, 80, 200}) {
    const Outcome outcome = pipesim({"compare", folder / "p.json", folder / "m.json"},
                                    {"COLUMNS=" + std::to_string(width)});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_lines_of(outcome.out, width);
    EXPECT_NE(outcome.out.find("Single actions that differ most:"), std::string::npos);
    EXPECT_NE(outcome.out.find("causes, worst first"), std::string::npos);
  }
  const json comparison =
      json::parse(pipesim({"compare", folder / "p.json", folder / "m.json", "--json"}).out);
  EXPECT_EQ(comparison.at("format"), "pipesim-input-comparison");
  EXPECT_EQ(comparison.at("sources"), (json{"predicted", "measured"}));
  EXPECT_EQ(comparison.at("kinds").size(), 17U);
  EXPECT_EQ(comparison.at("worst").size(), 10U);
  EXPECT_GT(comparison.at("root_causes").size(), 10U);
  const json& makespan = comparison.at("makespan_ns");
  EXPECT_EQ(comparison.at("gap_ns").at("total"), makespan.at("measured").get<std::int64_t>() -
                                                     makespan.at("predicted").get<std::int64_t>());
  EXPECT_EQ(comparison.at("gap_ns").at("launch"), 0);  // the run is a simulation's
  EXPECT_DOUBLE_EQ(
      makespan.at("change").get<double>(),
      makespan.at("measured").get<double>() / makespan.at("predicted").get<double>() - 1);
}

TEST(InputComparison, RefusesOtherPrograms) {
  const TemporaryFolder folder;
  write_input_trace(some_run(9, false), folder / "p.json");
  write_input_trace(some_run(9, true, 7), folder / "m.json");
  expect_one_sentence(pipesim({"compare", folder / "p.json", folder / "m.json"}), "pipesim",
                      "compare p m", 2,
                      "2 ranks, 7 batches; compare two runs of one input program");
  expect_one_sentence(
      pipesim({"compare", testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
               folder / "m.json"}),
      "pipesim", "compare 1f1b m", 2, "m.json is a run of an input pipeline, ");
  expect_one_sentence(
      pipesim({"compare", folder / "p.json", folder / "m.json", "--html", folder / "x.html"}),
      "pipesim", "compare p m --html", 2, "--html: it does not apply to runs of an input pipeline");
}

}  // namespace
}  // namespace pipesim
