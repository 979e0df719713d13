// `pipesim schedules --compare`, as a user gives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "sim/schedule/family.h"
#include "tests/command.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "tests/xml.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::call;
using testing::Json;
using testing::json_of;
using testing::Outcome;
using testing::TemporaryFolder;

void expect_refused(const std::string& line, const std::string& part) {
  testing::expect_one_sentence(call(line), "pipesim", line, 2, part);
}

Json rows_of(const std::string& line) { return json_of("schedules --compare " + line)["rows"]; }

// The only row, or the first, of that schedule.
Json row_of(const Json& rows, const std::string& schedule) {
  for (const Json& row : rows) {
    if (row["schedule"] == schedule) return row;
  }
  ADD_FAILURE() << "no row of " << schedule << " in " << rows.dump(1);
  return {};
}

void expect_alike(const Json& row, const Json& alone) {
  SCOPED_TRACE(row.dump());
  EXPECT_EQ(row["makespan_ns"], alone["makespan_ns"]);
  EXPECT_EQ(row["bubble_fraction"]["global"], alone["bubble_fraction"]["global"]);
  EXPECT_EQ(row["bubble_fraction"]["span"], alone["bubble_fraction"]["span"]);
  EXPECT_EQ(row["peak_activation_chunks"], alone["peak_activation_chunks"]);
  EXPECT_EQ(row["peak_activation_bytes"], alone["peak_activation_bytes"]);
  EXPECT_EQ(row["peak_memory_bytes"], alone["peak_memory_bytes"]);
}

const std::string small = "--stages 4 --microbatches 8";

// ---- The same model

TEST(ComparedSchedules, AreTheSameModel) {
  const Json rows = rows_of(small);
  EXPECT_EQ(row_of(rows, "1f1b")["makespan_ns"], 33'000'000);
  EXPECT_EQ(row_of(rows, "interleaved")["makespan_ns"], 28'500'000);
  const std::string halves =
      " --forward 500us --backward-input 500us --backward-weight 500us --activation-bytes 512KiB";
  int compared = 0;
  for (const Json& row : rows_of(small + " --activation-bytes 1MiB")) {
    const std::string name = row["schedule"];
    const std::string line = "--schedule " + name + " " + small;
    if (row.contains("error")) continue;
    if (row["virtual_stages"] == 1) {
      expect_alike(row, json_of(line + " --activation-bytes 1MiB"));
    } else if (row["virtual_stages"] == 2) {
      expect_alike(row, json_of(line + halves));
    }
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

// Nanoseconds that 2 does not divide; a message is as large between chunks as between stages.
TEST(ComparedSchedules, DealStagesOutInTheOrderOfTheModel) {
  const Json odd = rows_of("--stages 2 --microbatches 4 --forward 3ns --backward 5ns");
  expect_alike(row_of(odd, "interleaved"),
               json_of("--schedule interleaved --stages 2 --microbatches 4 "
                       "--forward 1ns,2ns,1ns,2ns --backward-input 1ns --backward-weight "
                       "1ns,2ns,1ns,2ns"));
  const std::string messages = " --p2p-bytes 1MB --p2p-bandwidth 10GB/s --p2p-latency 5us";
  const Json uneven = rows_of(small + messages + " --forward 1ms,1ms,1.3ms,1ms --backward 2ms");
  expect_alike(
      row_of(uneven, "interleaved"),
      json_of("--schedule interleaved " + small + messages +
              " --forward 500us,500us,500us,500us,650us,650us,500us,500us --backward 1ms"));
  expect_alike(row_of(uneven, "zb-h1"), json_of("--schedule zb-h1 " + small + messages +
                                                " --forward 1ms,1ms,1.3ms,1ms --backward 2ms"));
  EXPECT_EQ(row_of(uneven, "1f1b")["sent_bytes"], 2 * 3 * 8 * 1'000'000);
  EXPECT_EQ(row_of(uneven, "interleaved")["sent_bytes"], 2 * 7 * 8 * 1'000'000);
  EXPECT_EQ(row_of(uneven, "1f1b")["sent_bytes_of_rank"], 2 * 8 * 1'000'000);
  // Twice as many values as ranks are halves of what ranks do.
  const Json halves = rows_of("--stages 2 --microbatches 4 --forward 1ms,2ms,3ms,4ms --backward 0");
  expect_alike(row_of(halves, "1f1b"), json_of("--schedule 1f1b --stages 2 --microbatches 4 "
                                               "--forward 3ms,7ms --backward 0"));
  expect_alike(row_of(halves, "interleaved"),
               json_of("--schedule interleaved --stages 2 --microbatches 4 --forward "
                       "1ms,2ms,3ms,4ms --backward 0"));
}

TEST(ComparedSchedules, TakeCostsByStage) {
  const TemporaryFolder folder;
  const std::string costs = folder / "costs.json";
  const auto write = [&](const std::string& stages, const std::string& more) {
    write_file(costs, R"({"format": "pipesim-costs", "version": 1, "stages": [)" + stages + "]" +
                          more + "}");
  };
  const std::string stage = R"({"forward_ns": 300, "backward_ns": 600, "activation_bytes": 50})";
  const std::string last = R"({"forward_ns": 500, "backward_ns": 900, "activation_bytes": 70})";
  write(stage + "," + last, R"(, "optimizer_ns": [40, 60])");
  const std::string line = "--stages 2 --microbatches 6 --costs " + costs;
  const Json rows = rows_of(line);
  expect_alike(row_of(rows, "1f1b"), json_of("--schedule 1f1b " + line));
  const Json looped = row_of(rows, "interleaved");
  const auto half = [](int forward, int backward, int bytes) {
    return R"({"forward_ns": )" + std::to_string(forward) + R"(, "backward_ns": )" +
           std::to_string(backward) + R"(, "activation_bytes": )" + std::to_string(bytes) + "}";
  };
  const std::string first_half = half(150, 300, 25);
  const std::string last_half = half(250, 450, 35);
  write(first_half + "," + first_half + "," + last_half + "," + last_half,
        R"(, "optimizer_ns": [50, 50])");
  expect_alike(looped, json_of("--schedule interleaved " + line));
  expect_refused("schedules --compare --stages 3 --microbatches 6 --costs " + costs,
                 "of 4 virtual stages, but the model is to be split over 3 ranks");
  expect_refused(
      "schedules --compare --stages 4 --microbatches 8 --forward 1ms,2ms,3ms",
      "of 3 virtual stages, but the model is to be split over 4 ranks; give one value for all, "
      "4 in its order");
  expect_refused(
      "schedules --compare --stages 2 --microbatches 8 --forward 1ms,2ms,3ms,4ms "
      "--backward 1ms,2ms",
      "--backward: 2 values for 4 virtual stages");
}

TEST(ComparedSchedules, TakeLayersAsTheyAre) {
  const std::string line = small + " --model gpt2-small --cluster dgx-a100";
  const Json rows = rows_of(line + " --virtual-stages 3");
  for (const char* name : {"1f1b", "interleaved", "bfs"}) {
    const Json row = row_of(rows, name);
    expect_alike(row, json_of("--schedule " + std::string(name) + " " + line +
                              (row["virtual_stages"] == 3 ? " --virtual-stages 3" : "")));
  }
}

// ---- What is said

TEST(ComparedSchedules, StandFastestFirst) {
  const Json all =
      json_of("schedules --compare --stages 4 --microbatches 9,8 --virtual-stages 2,1");
  EXPECT_EQ(all["format"], "pipesim-schedules-comparison");
  EXPECT_EQ(all["stages"], 4);
  std::set<std::string> names;
  int microbatches = 9;
  std::int64_t before = 0;
  bool left_out = false;
  int fronts = 0;
  for (const Json& row : all["rows"]) {
    SCOPED_TRACE(row.dump());
    names.insert(row["schedule"].get<std::string>());
    if (row["microbatches"] != microbatches) {
      EXPECT_EQ(microbatches, 9);
      microbatches = row["microbatches"];
      before = 0;
      left_out = false;
    }
    if (row.contains("error")) {
      left_out = true;
      EXPECT_TRUE(row.contains("nearest"));
      continue;
    }
    EXPECT_FALSE(left_out) << "comes after what is left out";
    EXPECT_GE(row["makespan_ns"], before);
    if (before == 0) {
      EXPECT_EQ(row["why"], "the fastest");
      EXPECT_TRUE(row["on_front"].get<bool>());
    } else {
      EXPECT_NE(row["why"], "the fastest");
      EXPECT_NE(row["why"], "");
    }
    before = row["makespan_ns"];
    if (row["on_front"].get<bool>()) ++fronts;
    std::int64_t sum = 0;
    for (const auto& [share, ns] : row["time_ns"].items()) sum += ns.get<std::int64_t>();
    EXPECT_EQ(sum, 4 * before);
  }
  EXPECT_EQ(microbatches, 8);
  EXPECT_EQ(names.size(), all_families().size());
  EXPECT_GE(fronts, 2);
}

TEST(ComparedSchedules, SayWhyOthersAreSlower) {
  EXPECT_EQ(row_of(rows_of(small), "1f1b")["why"].get<std::string>().substr(0, 9), "+7.50 ms:");
  const std::string text = call("schedules --compare " + small).out;
  EXPECT_NE(
      text.find("8 microbatches: interleaved-zb, 2 chunks per rank, is the fastest, 25.50 ms"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\n* interleaved-zb "), std::string::npos) << text;
}

// Its bubble is smaller, but a split backward hides no communication: that is where the time goes.
TEST(ComparedSchedules, SayThatASplitBackwardHidesNoCommunication) {
  const std::string line =
      "--stages 4 --microbatches 64 --model gpt3-13b --cluster dgx-a100 --tensor-parallel 8 "
      "--sequence-parallel";
  const Json rows = rows_of(line);
  const Json plain = row_of(rows, "1f1b");
  const Json split = row_of(rows, "zb-h1");
  ASSERT_LT(split["bubble_fraction"]["global"], plain["bubble_fraction"]["global"]);
  ASSERT_GT(split["makespan_ns"], plain["makespan_ns"]);
  const std::string why = split["why"];
  EXPECT_NE(why.find("but separate I and W hide no tensor-parallel communication: compute "),
            std::string::npos)
      << why;
  EXPECT_EQ(call("schedules --compare " + small).out.find("tensor-parallel"), std::string::npos);
}

TEST(ComparedSchedules, SayWhatFits) {
  const std::string line = small + " --activation-bytes 1GiB --memory-cap 5GiB";
  const Json rows = rows_of(line);
  const Json large = row_of(rows, "gpipe");
  EXPECT_FALSE(large["fits"].get<bool>());
  EXPECT_NE(large["why"].get<std::string>().find("3.0 GiB too much"), std::string::npos) << large;
  // Of those that fit one is called the fastest.
  int fastest = 0;
  for (const Json& row : rows) {
    if (row["why"] != "the fastest") continue;
    ++fastest;
    EXPECT_TRUE(row["fits"].get<bool>());
  }
  EXPECT_EQ(fastest, 1);
  const std::string text = call("schedules --compare " + line).out;
  EXPECT_NE(text.find("\n! gpipe "), std::string::npos) << text;
  EXPECT_NE(text.find("! exceeds the 5.0 GiB of --memory-cap."), std::string::npos) << text;
  const std::string none =
      call("schedules --compare " + small + " --activation-bytes 1GiB --memory-cap 1MiB").out;
  EXPECT_NE(none.find("8 microbatches: none fits 1.0 MiB; "), std::string::npos) << none;
}

TEST(ComparedSchedules, NameShapesThatWork) {
  const Json rows = rows_of("--stages 8 --microbatches 12");
  const Json ragged = row_of(rows, "interleaved");
  ASSERT_TRUE(ragged.contains("error")) << ragged;
  const Json& nearest = ragged["nearest"];
  ASSERT_FALSE(nearest.is_null()) << ragged;
  EXPECT_EQ(
      call("--quiet --schedule interleaved --stages 8 --microbatches " +
           nearest["microbatches"].dump() + " --virtual-stages " + nearest["virtual_stages"].dump())
          .status,
      0);
  // 12 blocks are too few for 16 chunks, whatever the number of microbatches.
  const Json few = row_of(rows_of("--stages 8 --microbatches 8 --model gpt2-small --cluster "
                                  "dgx-a100"),
                          "interleaved");
  EXPECT_EQ(few["nearest"], (Json{{"microbatches", 8}, {"virtual_stages", 1}}));
  const std::string text = call("schedules --compare --stages 8 --microbatches 12").out;
  EXPECT_NE(text.find("\nomitted\n"), std::string::npos) << text;
  EXPECT_NE(text.find("works with"), std::string::npos) << text;
}

TEST(ComparedSchedules, RefuseInOneSentence) {
  expect_refused("schedules --compare --stages 4", "--microbatches is missing");
  expect_refused("schedules --compare --stages 4 --microbatches 8,,9", "--microbatches");
  expect_refused("schedules --compare --microbatches 8", "--stages is missing");
  expect_refused("schedules --compare " + small + " --virtual-stages 1,x", "--virtual-stages");
  expect_refused("schedules --compare " + small + " --picture --json", "--figure FILE.svg");
  expect_refused("schedules --compare " + small + " --figure a.pdf", "ends in .svg or");
  expect_refused("schedules own.csv", "files belongs to --compare");
}

// ---- Schedules of one's own

TEST(ComparedSchedules, AreThoseThatAreAskedFor) {
  const TemporaryFolder folder;
  const std::string own = folder / "own.csv";
  ASSERT_EQ(call("--quiet --schedule gpipe " + small + " --export " + own).status, 0);
  std::set<std::string> names;
  for (const Json& row : rows_of(small + " --schedule ZBVZeroBubble,1f1b," + own)) {
    names.insert(row["schedule"]);
  }
  EXPECT_EQ(names, (std::set<std::string>{"1f1b", "zb-v", own}));
  EXPECT_EQ(rows_of("--schedule " + own).size(), 1U);
  expect_refused("schedules --compare --schedule 1f1b,smoke " + small, "unknown schedule 'smoke'");
  expect_refused("schedules --compare --schedule 1f1b, " + small, "unknown schedule ''");
}

TEST(ComparedSchedules, HaveFilesBeside) {
  const TemporaryFolder folder;
  const std::string plain = folder / "plain.csv";
  const std::string looped = folder / "looped.csv";
  ASSERT_EQ(call("--quiet --schedule zb-h1 " + small + " --export " + plain).status, 0);
  ASSERT_EQ(call("--quiet --schedule interleaved " + small + " --export " + looped).status, 0);
  const Json rows = rows_of(plain + " " + looped + " " + small);
  for (const auto& [file, family] : {std::pair(plain, "zb-h1"), {looped, "interleaved"}}) {
    Json own = row_of(rows, file);
    const Json same = row_of(rows, family);
    own["schedule"] = family;
    EXPECT_EQ(own, same);
  }
  // What the flags leave open is the file's.
  EXPECT_EQ(rows_of(plain).size(), all_families().size() + 1);
  EXPECT_EQ(rows_of(plain + " --microbatches 4,8").size(), 2 * all_families().size() + 1);
  const std::string table = call("schedules --compare " + plain).out;
  EXPECT_NE(table.find(" plain.csv "), std::string::npos) << table;
  expect_refused("schedules --compare --stages 2 --microbatches 8 " + plain,
                 "has 4 ranks, but the others 2");
  expect_refused("schedules --compare --stages 4 --microbatches 4 " + plain,
                 "has 8 microbatches, which --microbatches 4 lacks; give --microbatches 4,8");
  expect_refused("schedules --compare " + (folder / "none.csv"), "none.csv");
}

// Whose transfers stand on streams that its file says.
TEST(ComparedSchedules, KeepAProgramsStreams) {
  const TemporaryFolder folder;
  const std::string program = folder / "own.program";
  ASSERT_EQ(call("schedule streams 1f1b " + small + " --p2p fifo -o " + program).status, 0);
  const std::string times = " --p2p-latency 300us";
  expect_alike(row_of(rows_of(program + times), program),
               json_of("--schedule 1f1b --p2p fifo " + small + times));
}

// ---- Costs of a run

TEST(ComparedSchedules, TakeCostsOfARun) {
  const TemporaryFolder folder;
  const std::string run = folder / "run.json";
  const std::string costs = folder / "costs.json";
  const std::string times = " --forward 1.1ms --backward 2.3ms --p2p-latency 40us";
  ASSERT_EQ(call("--quiet --schedule gpipe " + small + times + " --trace " + run).status, 0);
  ASSERT_EQ(call("calibrate " + run + " -o " + costs).status, 0);
  const Json rows = rows_of("--run " + run);
  EXPECT_EQ(rows, rows_of(small + " --costs " + costs));
  EXPECT_EQ(row_of(rows, "1f1b")["makespan_ns"],
            json_of("--schedule 1f1b " + small + times)["makespan_ns"]);
  // Of a run with two chunks a rank the stages are halves of what ranks compute.
  const std::string looped = folder / "looped.json";
  const std::string halves =
      "--schedule interleaved " + small + " --forward 550us --backward 1.15ms --p2p-latency 40us";
  ASSERT_EQ(call("--quiet " + halves + " --trace " + looped).status, 0);
  const Json of_looped = rows_of("--run " + looped);
  EXPECT_EQ(row_of(of_looped, "interleaved")["makespan_ns"], json_of(halves)["makespan_ns"]);
  EXPECT_EQ(row_of(of_looped, "1f1b")["makespan_ns"],
            json_of("--schedule 1f1b " + small + times)["makespan_ns"]);
  EXPECT_EQ(rows_of("--microbatches 4,16 --run " + run).size(), 2 * all_families().size());
  const std::string text = call("schedules --compare --run " + run).out;
  EXPECT_NE(text.find("costs as measured in"), std::string::npos) << text;
  expect_refused("schedules --compare --forward 1ms --run " + run, "--forward and --run");
  expect_refused("schedules --compare --costs " + costs + " --run " + run, "--costs and --run");
  expect_refused("schedules --compare --stages 3 --run " + run,
                 "of 4 virtual stages, but the model is to be split over 3 ranks");
}

// ---- Pictures

TEST(ComparedSchedules, AreDrawnOnOneAxis) {
  const std::string line = "schedules --compare " + small + " --virtual-stages 2 --picture";
  const std::string text = call(line).out;
  // Below the table a picture of each, of 4 ranks: an axis, a legend, and the same columns for
  // the same time.
  const std::string pictures = text.substr(text.rfind("8 microbatches: "));
  std::istringstream lines(pictures);
  std::map<std::string, std::size_t> widths;  // of rank 0, by schedule
  std::string title;
  int axes = 0;
  for (std::string at; std::getline(lines, at);) {
    if (at.starts_with("   0 ms")) ++axes;
    if (at.starts_with("0  ")) {
      widths[title] = at.size() - 1;
    } else {
      title = at.substr(0, at.find_first_of(",:"));
    }
  }
  EXPECT_EQ(axes, 1) << pictures;
  // All but naive, which takes 96 ms.
  EXPECT_EQ(widths.size(), all_families().size() - 1);
  EXPECT_NE(pictures.find("\ntoo long to draw: naive, 2 chunks per rank, 96.00 ms\n"),
            std::string::npos);
  // 66 and 57 halves of a millisecond, a column each, in which rank 0 ends with a backward.
  EXPECT_EQ(widths.at("1f1b"), 3 + 66 - 1U) << pictures;
  EXPECT_EQ(widths.at("interleaved"), 3 + 57 - 1U) << pictures;
  EXPECT_NE(pictures.find("F forward; "), std::string::npos);
}

TEST(ComparedSchedules, FitTheTerminal) {
  for (const std::string columns : {"80", "200"}) {
    for (const char* more :
         {"", " --jitter 5% --seeds 3", " --model gpt2-small --cluster dgx-a100 --virtual-stages 3",
          " --p2p-bytes 1MB --activation-bytes 1GB --memory-cap 6GiB", " --stages 8"}) {
      const std::string shape = std::string(more) == " --stages 8" ? "--microbatches 12" : small;
      std::istringstream words("schedules --compare --picture " + shape + more);
      std::vector<std::string> arguments;
      for (std::string word; words >> word;) arguments.push_back(word);
      const Outcome outcome = testing::pipesim(arguments, {"COLUMNS=" + columns});
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      std::istringstream lines(outcome.out);
      for (std::string text; std::getline(lines, text);) {
        EXPECT_LE(text.size(), std::stoul(columns)) << text;
        EXPECT_FALSE(text.ends_with(' ')) << '"' << text << '"';
      }
    }
  }
}

TEST(ComparedSchedules, AreDrawnAsAnSvg) {
  const TemporaryFolder folder;
  const std::string file = folder / "figure.svg";
  const std::string line = "schedules --compare " + small + ",16 --virtual-stages 1,2";
  ASSERT_EQ(call(line + " --figure " + file).status, 0);
  const std::string first = read_file(file);
  const testing::Xml svg = testing::read_xml(first);
  EXPECT_EQ(svg.fault, "");
  // A box with a title for each F, and for each B or I and W, and nothing else.
  std::size_t actions = 0;
  const Json all = json_of(line);
  for (const Json& row : all["rows"]) {
    if (row.contains("error") || row["schedule"] == "naive") continue;  // it is too long
    ScheduleRequest request{row["schedule"].get<std::string>(), 4, row["microbatches"].get<int>()};
    if (family(request.name).many_chunks) request.chunks = row["virtual_stages"].get<int>();
    const Schedule schedule = generate(request);
    actions += static_cast<std::size_t>(std::ranges::count_if(
        schedule.actions.all(), [](const Action& action) { return is_compute(action.kind); }));
  }
  EXPECT_EQ(svg.named("title").size(), actions);
  ASSERT_EQ(call(line + " --figure " + file + " --json").status, 0);
  EXPECT_EQ(read_file(file), first);
  // Nothing is left of one that fails.
  const std::string other = folder / "other.svg";
  EXPECT_EQ(call("schedules --compare --stages 4 --microbatches 8 --forward 1ms,2ms,3ms --figure " +
                 other)
                .status,
            2);
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_EQ(call(line + " --figure " + (folder / "none/figure.svg")).status, 2);
}

}  // namespace
}  // namespace pipesim
