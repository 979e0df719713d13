// `pipesim report` and `pipesim compare` of runs of input pipelines.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "sim/report/exposures.h"
#include "tests/command.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/input_runs.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/input_trace.h"
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
    EXPECT_TRUE(
        outcome.out.starts_with(input_report(run, measure(run), {static_cast<int>(width), false})));
    EXPECT_NE(outcome.out.find("Limited by"), std::string::npos);
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
  EXPECT_EQ(report.at("format"), "pipesim-report");
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
        for (const auto& [key, value] : predicted.at("ranks")[rank].items()) {
          if (key == "fits") continue;  // a question of the device
          EXPECT_EQ(read.at("ranks")[rank].at(key), value) << program << " " << key;
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
  write_file(folder / "cut.json", read_file(run).substr(0, 20'000));
  expect_one_sentence(pipesim({"report", folder / "cut.json"}), "pipesim", "report cut", 2,
                      "it breaks off in the middle");
  const std::string other = testing::source_file("tests/data/traces/hta_event_sync.json.gz");
  expect_one_sentence(pipesim({"report", other, "--json"}), "pipesim", "report --json", 2,
                      "--json: no pipeline is known in these files");
}

TEST(InputReport, HasAFigureAndAFlameGraph) {
  const TemporaryFolder folder;
  write_input_trace(some_run(3, false), folder / "run.json");
  const Outcome outcome = pipesim({"report", folder / "run.json", "--figure", folder / "f.svg",
                                   "--flame", folder / "f.folded"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string figure = read_file(folder / "f.svg");
  for (const char* part : {">rank 0 data_dist<", ">rank 1 host<", ">exchange<", "COPY0"}) {
    EXPECT_NE(figure.find(part), std::string::npos) << part;
  }
  // Each rank's stacks sum to the makespan.
  std::map<std::string, std::int64_t> sums;
  std::istringstream lines(read_file(folder / "f.folded"));
  for (std::string line; std::getline(lines, line);) {
    const auto rank = line.find("rank ");
    sums[line.substr(rank, line.find(';', rank) - rank)] +=
        std::stoll(line.substr(line.rfind(' ') + 1));
  }
  const std::int64_t makespan = makespan_of(some_run(3, false));
  EXPECT_EQ(sums,
            (std::map<std::string, std::int64_t>{{"rank 0", makespan}, {"rank 1", makespan}}));
}

TEST(InputComparison, PutsBothSideBySide) {
  const InputRun predicted = some_run(4, false), measured = some_run(5, true);
  const Exposures exposures = exposures_of(predicted, measured);
  const InputMetrics one = measure(predicted), other = measure(measured);
  EXPECT_EQ(exposures.makespan, (BothTimes{one.makespan_ns, other.makespan_ns}));
  EXPECT_EQ(exposures.steady_iteration,
            (BothTimes{one.steady_iteration_ns, other.steady_iteration_ns}));
  ASSERT_EQ(exposures.kinds.size(), 17U);
  const auto copy = static_cast<std::size_t>(Kind::COPY);
  EXPECT_EQ(exposures.kinds[1].total[1],
            (other.ranks[0].total[copy] + other.ranks[1].total[copy]) / 2);
  EXPECT_EQ(exposures.kinds[1].exposed[0],
            (one.ranks[0].exposed[copy] + one.ranks[1].exposed[copy]) / 2);
}

TEST(InputComparison, IsOfARunWithItselfNothing) {
  const TemporaryFolder folder;
  write_input_trace(some_run(6, false), folder / "run.json");
  const json comparison =
      json::parse(pipesim({"compare", folder / "run.json", folder / "run.json", "--json"}).out);
  EXPECT_EQ(comparison.at("operation_error").at("p90"), 0);
  EXPECT_EQ(comparison.at("gap_ns").at("total"), 0);
  EXPECT_EQ(comparison.at("root_causes"), json::array());
  EXPECT_EQ(comparison.at("conformance").at("swapped"), 0);
}

TEST(InputComparison, IsPrintedAndAnObjectAndAPageAndAFigure) {
  const TemporaryFolder folder;
  const InputRun predicted = some_run(7, false), measured = some_run(8, true);
  write_input_trace(predicted, folder / "p.json");
  write_input_trace(measured, folder / "m.json");
  for (const std::size_t width : {80, 200}) {
    const Outcome outcome = pipesim({"compare", folder / "p.json", folder / "m.json"},
                                    {"COLUMNS=" + std::to_string(width)});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_lines_of(outcome.out, width);
    for (const char* part : {"\nrank 1 data_dist ", "\ncauses, worst first", "\nLOOKUP ",
                             " bubble ", "\ncritical path, "}) {
      EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
    }
  }
  const Outcome outcome =
      pipesim({"compare", folder / "p.json", folder / "m.json", "--json", "--html",
               folder / "c.html", "--figure", folder / "c.svg", "--operations", folder / "c.csv"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const json comparison = json::parse(outcome.out);
  EXPECT_EQ(comparison.at("format"), "pipesim-comparison");
  EXPECT_EQ(comparison.at("sources").at("measured"), "measured");
  EXPECT_EQ(comparison.at("kinds").size(), 17U);
  EXPECT_EQ(comparison.at("matched"), predicted.program.size());
  EXPECT_GT(comparison.at("root_causes").size(), 10U);
  const json& makespan = comparison.at("makespan_ns");
  EXPECT_EQ(comparison.at("gap_ns").at("total"), makespan.at("measured").get<std::int64_t>() -
                                                     makespan.at("predicted").get<std::int64_t>());
  EXPECT_EQ(comparison.at("gap_ns").at("launch"), 0);  // the run is a simulation's
  for (const char* side : {"predicted", "measured"}) {
    const json& path = comparison.at("critical_path").at(side);
    EXPECT_EQ(path.at("compute_ns").get<std::int64_t>() + path.at("p2p_ns").get<std::int64_t>() +
                  path.at("other_ns").get<std::int64_t>(),
              makespan.at(side));
    for (const json& rank : comparison.at("ranks").at(side)) {
      std::int64_t sum = rank.at("busy_ns");
      for (const auto& [part, ns] : rank.at("bubble_ns").items()) sum += ns.get<std::int64_t>();
      EXPECT_EQ(sum, makespan.at(side));
    }
  }
  const json& steady = comparison.at("steady_iteration_ns");
  EXPECT_NEAR(steady.at("change").get<double>(),
              steady.at("measured").get<double>() / steady.at("predicted").get<double>() - 1,
              1e-12);
  const std::string page = read_file(folder / "c.html");
  for (const char* part : {"rank 0 data_dist", "call COPY", "exposed by what they waited for"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_NE(read_file(folder / "c.svg").find(">measured<"), std::string::npos);
}

// Times count from when the first host began, also where a trace says otherwise.
TEST(InputComparison, WhenARunBeginsDoesNotCount) {
  const TemporaryFolder folder;
  const InputRun run = some_run(10, true);
  InputRun late = run;
  for (auto& spans : late.spans) {
    for (InputSpan& span : spans) {
      for (std::int64_t* time :
           {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
        *time += 10'000'000;
      }
    }
  }
  write_input_trace(run, folder / "run.json");
  write_input_trace(late, folder / "late.json");
  const json comparison =
      json::parse(pipesim({"compare", folder / "run.json", folder / "late.json", "--json"}).out);
  for (const auto& [term, ns] : comparison.at("gap_ns").items()) EXPECT_EQ(ns, 0) << term;
  EXPECT_EQ(comparison.at("bubble_fraction").at("measured"),
            comparison.at("bubble_fraction").at("predicted"));
}

TEST(InputComparison, RefusesOtherPrograms) {
  const TemporaryFolder folder;
  write_input_trace(some_run(9, false), folder / "p.json");
  write_input_trace(some_run(9, true, 7), folder / "m.json");
  expect_one_sentence(pipesim({"compare", folder / "p.json", folder / "m.json"}), "pipesim",
                      "compare p m", 2, "2 ranks, 7 batches; compare two runs of one program");
  expect_one_sentence(
      pipesim({"compare", testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
               folder / "m.json"}),
      "pipesim", "compare 1f1b m", 2, "files of some ranks are not given");
  expect_one_sentence(
      pipesim({"compare", folder / "p.json", testing::source_file("tests/data/traces/none.json")}),
      "pipesim", "compare p none", 2, "none.json");
}

}  // namespace
}  // namespace pipesim
