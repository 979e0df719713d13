// `pipesim compare`, as a user drives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::expect_one_sentence;
using testing::Outcome;
using testing::pipesim;

class CompareCommand : public ::testing::Test {
 protected:
  // Predicts into a trace of that name.
  std::string trace(const std::string& name, std::vector<std::string> arguments) {
    const std::string path = folder_ / name;
    arguments.insert(arguments.end(), {"--trace", path, "--quiet"});
    const Outcome outcome = pipesim(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return path;
  }
  std::string usual(const std::string& name, const std::string& forward = "1ms",
                    const std::string& schedule = "1f1b") {
    return trace(name, {"--schedule", schedule, "--stages", "4", "--microbatches", "8", "--forward",
                        forward, "--p2p-latency", "20us"});
  }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    write_file(path, text);
    return path;
  }
  Json compare(const std::string& predicted, const std::string& measured) {
    const Outcome outcome = pipesim({"compare", predicted, measured, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    std::int64_t sum = 0;
    for (const auto& [term, ns] : json["gap_ns"].items()) {
      if (term != "total") sum += ns.get<std::int64_t>();
    }
    EXPECT_EQ(sum, json["gap_ns"]["total"]);
    EXPECT_EQ(sum, json["makespan_ns"]["measured"].get<std::int64_t>() -
                       json["makespan_ns"]["predicted"].get<std::int64_t>());
    return json;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CompareCommand, OfOneTraceWithItselfIsZero) {
  for (const char* name : {"one.json", "one.json.gz"}) {
    const std::string path = usual(name);
    const Json json = compare(path, path);
    EXPECT_EQ(json["format"], "pipesim-comparison");
    EXPECT_EQ(json["gap_ns"]["total"], 0);
    EXPECT_EQ(json["matched"], 160);
    EXPECT_EQ(json["unmatched"], Json({{"predicted", 0}, {"measured", 0}}));
    EXPECT_EQ(json["operation_error"]["mean_abs_fraction"], 0.0);
    EXPECT_EQ(json["conformance"]["in_order"], 64);
    EXPECT_EQ(json["conformance"]["swapped"], 0);
    EXPECT_TRUE(json["root_causes"].empty());
    EXPECT_TRUE(json["warnings"]["measured"].empty());
    const std::string page = folder_ / "page.html";
    const std::string text = pipesim({"compare", path, path, "--html", page}).out;
    EXPECT_NE(text.find("Both are alike"), std::string::npos);
    EXPECT_NE(text.find("\nNo cause: no action differs.\n"), std::string::npos) << text;
    EXPECT_NE(read_file(page).find("<p>No cause: no action differs.</p>"), std::string::npos);
  }
}

TEST_F(CompareCommand, NamesTheSlowStage) {
  const std::string predicted = usual("predicted.json");
  const std::string measured = usual("measured.json", "1ms,1ms,1.3ms,1ms");
  const Json json = compare(predicted, measured);
  ASSERT_EQ(json["root_causes"].size(), 1U);
  const Json& cause = json["root_causes"][0];
  EXPECT_EQ(cause["rank"], 2);
  EXPECT_EQ(cause["stage"], 2);
  EXPECT_EQ(cause["kind"], "F");
  EXPECT_EQ(cause["microbatch"], nullptr);
  EXPECT_EQ(cause["effect_ns"], json["gap_ns"]["total"]);
  EXPECT_EQ(json["gap_ns"]["compute"], json["gap_ns"]["total"]);
  const std::string text = pipesim({"compare", predicted, measured}).out;
  EXPECT_NE(text.find("2F on rank 2: 1.30 ms instead of 1.00 ms"), std::string::npos) << text;
}

TEST_F(CompareCommand, FitsTheTerminal) {
  const std::string predicted = usual("predicted.json");
  const std::string measured = usual("measured.json", "1ms,1ms,1.3ms,1.1ms", "zb-h1");
  for (const std::size_t width : {80, 200}) {
    const Outcome outcome =
        pipesim({"compare", predicted, measured}, {"COLUMNS=" + std::to_string(width)});
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
}

// What a person would do to a trace to see whether clocks are looked at.
// A trace whose rank 1 is ahead by so many microseconds.
std::string with_rank_1_ahead(const std::string& text, int ahead_us) {
  std::string shifted;
  const std::regex event(R"re(("pid":2,"tid":\d+,"ts":)(\d+)(\.\d{3}))re");
  auto last = text.cbegin();
  for (std::sregex_iterator at(text.begin(), text.end(), event), end; at != end; ++at) {
    shifted.append(last, (*at)[2].first);
    shifted += std::to_string(std::stoll((*at)[2].str()) + ahead_us);
    last = (*at)[2].second;
  }
  shifted.append(last, text.cend());
  return shifted;
}

TEST_F(CompareCommand, FindsARankWhoseClockIsOff) {
  const std::string predicted = usual("predicted.json");
  const std::string text = read_file(predicted);
  const Json json = compare(predicted, write("shifted.json", with_rank_1_ahead(text, 15)));
  EXPECT_EQ(json["clocks"][1]["ahead_ns"], 15'000);
  EXPECT_EQ(json["clocks"][0]["ahead_ns"], 0);
  EXPECT_EQ(json["gap_ns"]["clock"], json["gap_ns"]["total"]);
  ASSERT_EQ(json["root_causes"].size(), 1U);
  EXPECT_EQ(json["root_causes"][0]["term"], "clock");
  EXPECT_EQ(json["root_causes"][0]["rank"], 1);
  EXPECT_TRUE(json["warnings"]["measured"].empty());

  // By more than messages take: the reader puts that right, and what is left is found.
  const Json far = compare(predicted, write("far.json", with_rank_1_ahead(text, 5000)));
  ASSERT_EQ(far["warnings"]["measured"].size(), 1U);
  const auto ahead = [&](int rank, const char* key) {
    return far["clocks"][rank][key].get<std::int64_t>();
  };
  EXPECT_EQ(
      ahead(1, "ahead_ns") - ahead(1, "shift_ns") - ahead(0, "ahead_ns") + ahead(0, "shift_ns"),
      5'000'000);
  EXPECT_EQ(far["gap_ns"]["clock"], far["gap_ns"]["total"]);
}

TEST_F(CompareCommand, FindsASwappedPair) {
  const std::string planned =
      write("planned.csv", "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  const std::string done = write("done.csv", "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1B0,1B1,1F2,1B2\n");
  const Json json =
      compare(trace("p.json", {"--schedule", planned}), trace("m.json", {"--schedule", done}));
  EXPECT_EQ(json["conformance"]["swapped"], 1);
  EXPECT_EQ(json["conformance"]["in_order"], 11);
  EXPECT_EQ(json["gap_ns"]["order"], json["gap_ns"]["total"]);
  EXPECT_EQ(json["root_causes"][0]["term"], "order");
  EXPECT_EQ(json["root_causes"][0]["rank"], 1);
}

TEST_F(CompareCommand, CountsWhatOnlyOneSideDoes) {
  const std::string whole =
      trace("whole.json", {"--schedule", "gpipe", "--stages", "1", "--microbatches", "1"});
  const std::string split =
      trace("split.json", {"--schedule", "zb-h1", "--stages", "1", "--microbatches", "1"});
  const auto says = [](const std::string& predicted, const std::string& measured) {
    std::string text = pipesim({"compare", predicted, measured}).out;
    std::ranges::replace(text, '\n', ' ');
    const std::size_t from = std::min(text.find("of F, I, W and B "), text.size());
    return text.substr(from, text.find('.', from) - from);
  };
  EXPECT_EQ(says(whole, split),
            "of F, I, W and B 1 is only in the first run, 2 only in the second run");
  EXPECT_EQ(says(split, whole),
            "of F, I, W and B 2 are only in the first run, 1 only in the second run");
}

TEST_F(CompareCommand, WritesEveryOperation) {
  const std::string predicted = usual("predicted.json");
  const std::string measured = usual("measured.json", "1ms,1ms,1.3ms,1ms");
  const std::string path = folder_ / "operations.csv";
  ASSERT_EQ(pipesim({"compare", predicted, measured, "--operations", path}).status, 0);
  std::istringstream lines(read_file(path));
  std::string line;
  std::getline(lines, line);
  const auto columns = std::ranges::count(line, ',');
  int operations = 0;
  bool found = false;
  for (; std::getline(lines, line); ++operations) {
    EXPECT_EQ(std::ranges::count(line, ','), columns) << line;
    if (!line.starts_with("2F0,")) continue;
    found = true;
    EXPECT_NE(line.find(",1000000,1300000,"), std::string::npos) << line;
    EXPECT_NE(line.find(",300000,0,0,0,0"), std::string::npos) << line;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(operations, 64 + 48);  // and as many transfers
}

// A real training: noise everywhere, but every action is known, and in order.
TEST_F(CompareCommand, TakesAMeasurement) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1"}) {
    const std::string measured = folder_ / "measured.json";
    const Outcome run = testing::run_command(
        {PIPEEXEC_COMMAND, "--schedule", schedule, "--stages", "2", "--microbatches", "4",
         "--transport", "local", "--iterations", "3", "--warmup", "1", "--trace", measured});
    ASSERT_EQ(run.status, 0) << run.err;
    const std::string predicted =
        trace("predicted.json", {"--schedule", schedule, "--stages", "2", "--microbatches", "4"});
    const Json json = compare(predicted, measured);
    EXPECT_EQ(json["unmatched"]["predicted"], 0) << schedule;
    EXPECT_GE(json["unmatched"]["measured"], 4) << schedule;  // reductions and steps
    EXPECT_EQ(json["identified"], "exact");
    EXPECT_EQ(json["conformance"]["swapped"], 0) << schedule;
    EXPECT_EQ(json["iteration_ns"]["count"], 3);
    EXPECT_EQ(json["gap_ns"]["clock"], 0) << schedule;
    for (const char* side : {"predicted", "measured"}) {
      const Json& path = json["critical_path"][side];
      EXPECT_EQ(path["compute_ns"].get<std::int64_t>() + path["p2p_ns"].get<std::int64_t>() +
                    path["other_ns"].get<std::int64_t>(),
                json["makespan_ns"][side]);
    }
    // Of a time in which ranks take turns on few processors nothing is said here.
    EXPECT_GT(json["ranks"]["measured"][0]["peak_memory_bytes"], 1'000'000);
  }
}

TEST_F(CompareCommand, RefusesWrongInput) {
  const std::string good = usual("good.json");
  const std::string other = write("empty.json", "");
  const auto refused = [&](std::vector<std::string> arguments, int status,
                           const std::string& part) {
    arguments.insert(arguments.begin(), "compare");
    std::string line;
    for (const std::string& argument : arguments) line += argument + " ";
    expect_one_sentence(pipesim(arguments), "pipesim", line, status, part);
  };
  refused({}, 2, "give a predicted trace and a measured one");
  refused({good}, 2, "give a predicted trace and a measured one");
  refused({good, folder_ / "absent.json"}, 2, "absent.json");
  std::filesystem::create_symlink("loop", folder_.path() / "loop");
  refused({good, folder_ / "loop"}, 2, "loop");
  refused({good, good, "--schedule", testing::golden("dualpipev_4rank_10mb.csv")}, 2,
          "omit --schedule");
  refused({good, other}, 2, "empty");
  refused({good, write("result.json", R"({"format":"pipesim-result","version":1})")}, 2,
          "pipesim-result");
  refused({good, write("text.json", "hello")}, 2, "text.json");
  refused({good, write("none.json", R"({"traceEvents":[]})")}, 2, "none.json");
  refused({good, good, "--operations", folder_ / "absent/x.csv"}, 2, "absent/x.csv");
  refused({good, good, "--nonsense"}, 2, "--nonsense");
  // Of another run altogether.
  const std::string two = trace("two.json", {"--schedule", write("w.csv", "0F0,0B0\n1F0,1B0\n")});
  EXPECT_EQ(compare(good, two)["matched"], 0);
}

// Stage 3 of 4 is not stage 3 of 8: ranks and totals stand side by side, and nothing is paired.
TEST_F(CompareCommand, PairsNoStagesOfDifferentChunks) {
  const std::string one = usual("one.json");
  const std::string two = trace("two.json", {"--schedule", "interleaved", "--stages", "4",
                                             "--virtual-stages", "2", "--microbatches", "8"});
  const Json json = compare(one, two);
  EXPECT_EQ(json["matched"], 0);
  EXPECT_EQ(json["unmatched"]["predicted"], 160);
  EXPECT_EQ(json["gap_ns"]["unmodelled"], json["gap_ns"]["total"]);
  EXPECT_TRUE(json["root_causes"].empty());
  EXPECT_NE(json["unpaired"].get<std::string>().find("4 virtual stages, the other 8"),
            std::string::npos);
  const Json alone = Json::parse(pipesim({"report", two, "--json"}).out);
  ASSERT_EQ(json["ranks"]["measured"].size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(json["ranks"]["measured"][rank]["bubble_ns"], alone["ranks"][rank]["bubble_ns"]);
  }
  EXPECT_EQ(json["critical_path"]["measured"], alone["critical_path"]);
  for (const char* columns : {"80", "200"}) {
    const Outcome outcome = pipesim({"compare", one, two}, {std::string("COLUMNS=") + columns});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Actions are not"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.out.find("instead of"), std::string::npos) << outcome.out;
  }
  EXPECT_EQ(pipesim({"compare", one, two, "--html", folder_ / "page.html"}).status, 2);
  EXPECT_EQ(pipesim({"compare", one, two, "--operations", folder_ / "all.csv"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "page.html"));
  EXPECT_EQ(pipesim({"compare", one, two, "--figure", folder_ / "both.svg"}).status, 0);
}

// What predictions without a calibration are off by is neither noise nor any stage's fault.
TEST_F(CompareCommand, SaysThatAPredictionIsNotCalibrated) {
  const std::string measured = folder_ / "measured.json";
  const Outcome run = testing::run_command(
      {PIPEEXEC_COMMAND, "--schedule", "1f1b", "--stages", "2", "--microbatches", "4",
       "--transport", "local", "--iterations", "3", "--warmup", "1", "--trace", measured});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto verdict = [&](const std::vector<std::string>& costs) {
    std::vector<std::string> arguments{"--schedule", "1f1b",           "--stages",
                                       "2",          "--microbatches", "4"};
    arguments.insert(arguments.end(), costs.begin(), costs.end());
    return compare(trace("p.json", arguments), measured)["verdict"].get<std::string>();
  };
  const std::string hint = "not calibrated";
  EXPECT_NE(verdict({"--forward", "1s", "--backward", "2s"}).find(hint), std::string::npos);
  const std::string costs = folder_ / "costs.json";
  ASSERT_EQ(pipesim({"calibrate", measured, "-o", costs, "--quiet"}).out, "");
  EXPECT_EQ(verdict({"--costs", costs}).find(hint), std::string::npos);
}

// Causes that change an iteration by less than 0.5 % are one line.
TEST_F(CompareCommand, SumsUpSmallCauses) {
  const std::string predicted = usual("predicted.json");
  const auto causes = [&](const std::string& forward) {
    std::string text = pipesim({"compare", predicted, usual("measured.json", forward)}).out;
    const std::size_t from = text.find("causes, worst first");
    return text.substr(from, text.find("\n\n", from) - from);
  };
  const std::string several = causes("1.001ms,1ms,1.3ms,1.001ms");
  EXPECT_NE(several.find("2F"), std::string::npos) << several;
  EXPECT_EQ(several.find("0F"), std::string::npos) << several;
  EXPECT_NE(several.find("2 others"), std::string::npos) << several;
  // All that differs is told, however little.
  const std::string one = causes("1ms,1ms,1.001ms,1ms");
  EXPECT_NE(one.find("2F"), std::string::npos) << one;
  EXPECT_EQ(one.find("other"), std::string::npos) << one;
}

// Whole events count, and what is lost is said.
TEST_F(CompareCommand, TakesATruncatedTrace) {
  const std::string good = usual("good.json");
  const std::string text = read_file(good);
  const std::string cut = write("cut.json", text.substr(0, text.size() * 2 / 3));
  const Json json = compare(good, cut);
  EXPECT_GT(json["matched"], 50);
  EXPECT_GT(json["unmatched"]["predicted"], 10);
  ASSERT_FALSE(json["warnings"]["measured"].empty());
}

// Whatever the order, each side is called by what it is.
TEST_F(CompareCommand, CallsSidesByTheirSources) {
  const testing::TemporaryFolder folder;
  const std::string predicted = folder / "predicted.json";
  ASSERT_EQ(pipesim({"--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--trace",
                     predicted, "--quiet"})
                .status,
            0);
  const std::vector<std::string> measured{
      testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
      testing::source_file("traces/recorded/1f1b.rank1.json.gz")};
  const Outcome right = pipesim({"compare", predicted, measured[0], measured[1]});
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_TRUE(right.out.starts_with("Profiled ")) << right.out;
  EXPECT_NE(right.out.find("profiled minus predicted"), std::string::npos);
  const Json json =
      Json::parse(pipesim({"compare", predicted, measured[0], measured[1], "--json"}).out);
  EXPECT_EQ(json["sources"]["predicted"], "predicted");
  EXPECT_EQ(json["sources"]["measured"], "profiled");
  const Outcome alike = pipesim({"compare", predicted, predicted});
  EXPECT_NE(alike.out.find("second minus first"), std::string::npos) << alike.out;
}

// A profile that names forward_step and backward_step, and whose schedule says the rest.
TEST_F(CompareCommand, TakesAScheduleForUnnamedActionsOfOneRun) {
  std::string trace = read_file(testing::source_file("tests/fuzz/seeds/kineto/turns.json"));
  trace.erase(0, trace.find('{'));
  const std::string profile = write("rank0.json", trace);
  const std::string schedule = write("order.csv", "0F0,0F1,0B0,0B1\n");
  const Outcome report = pipesim({"report", profile, "--schedule", schedule});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_TRUE(report.out.starts_with("1 rank, 2 microbatches: 39 us")) << report.out;
  EXPECT_EQ(pipesim({"report", profile}).status, 2);
  const std::string costs = folder_ / "costs.json";
  const Outcome calibrated = pipesim({"calibrate", profile, "--schedule", schedule, "-o", costs});
  EXPECT_EQ(calibrated.status, 0) << calibrated.err;
  EXPECT_EQ(pipesim({"--schedule", schedule, "--costs", costs, "--quiet"}).status, 0);
  const std::string two = write("two.csv", "0F0,0B0\n1F0,1B0\n");
  EXPECT_NE(pipesim({"calibrate", profile, "--schedule", two, "-o", costs})
                .err.find("the schedule has 2 ranks"),
            std::string::npos);
}

TEST_F(CompareCommand, AReportSaysWhatOneRunDid) {
  for (const char* columns : {"80", "200"}) {
    const Outcome outcome =
        pipesim({"report", testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
                 testing::source_file("traces/recorded/1f1b.rank1.json.gz")},
                {std::string("COLUMNS=") + columns});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.out.starts_with("2 ranks, 4 microbatches: ")) << outcome.out;
    EXPECT_NE(outcome.out.find("critical path"), std::string::npos);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), std::stoul(columns)) << line;
    }
  }
  const Outcome numbers =
      pipesim({"report", testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
               testing::source_file("traces/recorded/1f1b.rank1.json.gz"), "--json"});
  const Json json = Json::parse(numbers.out);
  EXPECT_EQ(json["format"], "pipesim-report");
  EXPECT_EQ(json["source"], "profiled");
  EXPECT_EQ(json["stages"], 2);
  for (const Json& rank : json["ranks"]) {
    std::int64_t sum = rank["busy_ns"];
    for (const auto& [part, ns] : rank["bubble_ns"].items()) sum += ns.get<std::int64_t>();
    EXPECT_EQ(sum, json["makespan_ns"]);
  }
  const Outcome no_ranks = pipesim(
      {"report", testing::source_file("tests/data/traces/hta_event_sync.json.gz"), "--json"});
  EXPECT_EQ(no_ranks.status, 2);
  EXPECT_EQ(no_ranks.out, "");
  EXPECT_EQ(pipesim({"report"}).status, 2);
  EXPECT_EQ(pipesim({"report", "no.json"}).status, 2);
  const Outcome named =
      pipesim({"report", testing::source_file("traces/recorded/1f1b.rank0.json.gz"),
               testing::source_file("traces/recorded/1f1b.rank1.json.gz"), "--schedule",
               testing::source_file("traces/recorded/1f1b.csv")});
  EXPECT_EQ(named.status, 2);
  EXPECT_NE(named.err.find("omit --schedule"), std::string::npos) << named.err;
}

// Of stages with known times, in closed form: the slowest takes 2 + 2 ms, and the mean of all is
// 3.25 ms.
TEST_F(CompareCommand, AReportNamesTheUnevenStage) {
  const std::string run = usual("run.json", "1ms,2ms,1ms,1ms");
  const Json json = Json::parse(pipesim({"report", run, "--json"}).out);
  EXPECT_EQ(json["makespan_ns"],
            Json::parse(pipesim({"--schedule", "1f1b", "--stages", "4", "--microbatches", "8",
                                 "--forward", "1ms,2ms,1ms,1ms", "--p2p-latency", "20us", "--json"})
                            .out)["makespan_ns"]);
  const auto uneven = std::ranges::find_if(
      json["limits"], [](const Json& limit) { return limit["limit"] == "partition"; });
  ASSERT_NE(uneven, json["limits"].end());
  EXPECT_EQ((*uneven)["stage"], 1);
  EXPECT_EQ((*uneven)["stage_ns"], 4'000'000);
  EXPECT_EQ((*uneven)["mean_ns"], 3'250'000);
  const Outcome outcome = pipesim({"report", run});
  EXPECT_NE(outcome.out.find("stage 1 takes 4.00 ms"), std::string::npos) << outcome.out;
}

// A rank that pauses is named with the action, and its pause is no transfer.
TEST_F(CompareCommand, AReportNamesTheLateLaunch) {
  const std::string costs = write("costs.json", R"({"format": "pipesim-costs", "version": 1,
    "stages": [{"forward_ns": 1000000, "backward_ns": 2000000},
               {"forward_ns": 1000000, "backward_ns": 2000000}],
    "p2p": {"latency_ns": 100000, "bandwidth_bytes_per_s": null}})");
  const std::string measured = folder_ / "measured.json";
  const Outcome run = testing::run_command(
      {PIPEEXEC_COMMAND, "--schedule", "1f1b", "--stages", "2", "--microbatches", "8",
       "--transport", "local", "--device", "emulated", "--costs", costs, "--iterations", "3",
       "--faults", "pause@1B3=60ms", "--trace", measured});
  ASSERT_EQ(run.status, 0) << run.err;
  std::string text = pipesim({"report", measured}, {"COLUMNS=200"}).out;
  EXPECT_NE(text.find("rank 1 most"), std::string::npos) << text;
  EXPECT_NE(text.find("1B3 by 6"), std::string::npos) << text;
  const Json json = Json::parse(pipesim({"report", measured, "--json"}).out);
  EXPECT_GE(json["critical_path"]["other_ns"], 60'000'000);
}

}  // namespace
}  // namespace pipesim
