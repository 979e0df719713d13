// `pipesim partition` as a user drives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>

#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using namespace testing;

const std::string two = " --schedule 1f1b --stages 2 --microbatches 4";
const std::string four = " --schedule 1f1b --stages 4 --microbatches 8";
const std::string alexnet = " --graph " + source_file("examples/partition/alexnet_graph.txt");
const std::string resnet = " --graph " + source_file("examples/partition/resnet50_graph.txt");
const std::string uneven = " --costs " + source_file("examples/uneven_costs.json");
const std::string llama = " --model llama-3-8b --cluster dgx-h100";

std::string layout_text(const Json& layout) {
  std::string text;
  for (const Json& size : layout) {
    text += (text.empty() ? "" : ",") + std::to_string(size.get<int>());
  }
  return text;
}

// What the report's last lines say of a layout, such as "Megatron".
std::string last_line(const std::string& report, const std::string& name) {
  for (const std::string& line : lines_of(report)) {
    if (line.starts_with(name + " ")) return line.substr(line.find_last_of(' ') + 1);
  }
  return {};
}

// That the keys of a result agree with each other.
void expect_consistent(const Json& json) {
  EXPECT_EQ(json["format"], "pipesim-partition");
  EXPECT_EQ(json["version"], 1);
  const Json& balanced = json["balanced"];
  EXPECT_EQ(json["layout"], balanced["layout"]);
  const std::size_t stages = json["layout"].size();
  EXPECT_EQ(stages, json["stages"].get<std::size_t>() * json["virtual_stages"].get<std::size_t>());
  std::vector<int> of_rank(json["stages"].get<std::size_t>(), 0);
  ASSERT_EQ(json["parts"].size(), stages);
  int layers = 0;
  std::vector<std::int64_t> busy(of_rank.size(), 0);
  for (std::size_t s = 0; s < stages; ++s) {
    const Json& part = json["parts"][s];
    EXPECT_EQ(part["stage"], s);
    EXPECT_EQ(part["first_layer"], layers);
    EXPECT_EQ(part["layers"], json["layout"][s]);
    EXPECT_GE(part["layers"], 1);
    EXPECT_EQ(part["layers"] == 1, part["from"] == part["to"]);
    layers += part["layers"].get<int>();
    const auto rank = part["rank"].get<std::size_t>();
    ASSERT_LT(rank, of_rank.size());
    ++of_rank[rank];
    busy[rank] += part["forward_ns"].get<std::int64_t>() + part["backward_ns"].get<std::int64_t>();
  }
  EXPECT_EQ(layers, json["layers"]);
  for (const int count : of_rank) EXPECT_EQ(count, json["virtual_stages"]);
  EXPECT_GE(balanced["bottleneck_ns"].get<std::int64_t>(), std::ranges::max(busy));
  for (const char* name : {"even", "given", "balanced"}) {
    if (!json.contains(name)) continue;
    const Json& split = json[name];
    const auto sizes = split["layout"].get<std::vector<int>>();
    EXPECT_EQ(std::reduce(sizes.begin(), sizes.end()), layers);
    std::int64_t peak = 0;
    for (std::size_t r = 0; r < of_rank.size(); ++r) {
      EXPECT_EQ(split["ranks"][r]["rank"], r);
      peak = std::max(peak, split["ranks"][r]["peak_memory_bytes"].get<std::int64_t>());
    }
    EXPECT_EQ(split["peak_memory_bytes"], peak);
    // A rank, or a way, does this for each microbatch.
    EXPECT_LE(split["bottleneck_ns"].get<std::int64_t>() * json["microbatches"].get<int>(),
              split["makespan_ns"].get<std::int64_t>());
  }
  EXPECT_LE(json["bottleneck_at_least_ns"], balanced["bottleneck_ns"]);
  EXPECT_DOUBLE_EQ(
      json["gain_fraction"].get<double>(),
      1 - balanced["makespan_ns"].get<double>() / json["even"]["makespan_ns"].get<double>());
}

// That a split is what pipesim predicts.
void expect_predicted(const Json& split, const Json& prediction) {
  EXPECT_EQ(split["makespan_ns"], prediction["makespan_ns"]);
  for (const char* metric : {"global", "span"}) {
    EXPECT_EQ(split["bubble_fraction"][metric], prediction["bubble_fraction"][metric]);
  }
  EXPECT_EQ(split["peak_memory_bytes"], prediction["peak_memory_bytes"]);
  ASSERT_EQ(split["ranks"].size(), prediction["ranks"].size());
  for (std::size_t r = 0; r < split["ranks"].size(); ++r) {
    for (const char* key : {"busy_ns", "peak_memory_bytes"}) {
      EXPECT_EQ(split["ranks"][r][key], prediction["ranks"][r][key]);
    }
  }
}

// Both splits against predictions with the same costs, by `costs` of pipesim.
Json expect_as_predicted(const std::string& partition, const std::string& schedule,
                         const std::string& costs) {
  const Json json = json_of("partition" + partition);
  expect_consistent(json);
  expect_predicted(json["even"], json_of(schedule + costs));
  expect_predicted(json["balanced"],
                   json_of(schedule + costs + " --layout " + layout_text(json["layout"])));
  return json;
}

// ---- The four sources of layers

TEST(PartitionCli, OfCostsByLayer) {
  const Json json = expect_as_predicted(four + uneven, four, uneven);
  EXPECT_EQ(json["name"], "uneven_costs.json");
  EXPECT_EQ(json["layers"], 8);
  EXPECT_EQ(json["search"], (Json{{"end", "all_tried"}, {"tried", 35}}));
  EXPECT_EQ(json["objective"], "iteration");
  EXPECT_EQ(json["megatron_layout"], nullptr);
  EXPECT_EQ(json["parts"][0]["from"], "layer 0");
  EXPECT_GT(json["gain_fraction"].get<double>(), 0.05);
  EXPECT_FALSE(json.contains("given"));
  EXPECT_FALSE(json["balanced"].contains("fits"));
}

TEST(PartitionCli, OfAModelOnACluster) {
  for (const std::string& schedule :
       {four, std::string(" --schedule interleaved --stages 4 --microbatches 8"),
        std::string(" --schedule zb-h1 --stages 2 --microbatches 8 --data-parallel 2 --zero 2"),
        std::string(" --schedule bfs --stages 2 --microbatches 4 --data-parallel 4 --zero 3 "
                    "--recompute full")}) {
    SCOPED_TRACE(schedule);
    const Json json = expect_as_predicted(schedule + llama, schedule, llama);
    EXPECT_EQ(json["layers"], 34);
    EXPECT_EQ(json["parts"][0]["from"], "embedding");
    EXPECT_EQ(json["parts"].back()["to"], "head");
    EXPECT_TRUE(json["balanced"]["fits"].get<bool>());
    // Megatron's letters are the same layout.
    const std::string letters = json["megatron_layout"];
    expect_predicted(json["balanced"], json_of(schedule + llama + " --layout " + letters));
  }
}

TEST(PartitionCli, OfAGraph) {
  const TemporaryFolder folder;
  const std::string written = folder / "costs.json";
  const std::string links = " --p2p-latency 20us --p2p-bandwidth 10GB/s --optimizer-multiple 2";
  output_of("partition" + four + alexnet + links + " --write-costs " + written);
  const Json json = expect_as_predicted(four + alexnet + links, four, " --costs " + written);
  EXPECT_EQ(json["name"], "alexnet_graph.txt");
  EXPECT_EQ(json["layers"], 22);
  EXPECT_TRUE(json["parts"][0]["from"].get<std::string>().starts_with("node2 Conv2d(3, 64"));
  // The same from the file that was written, but for names.
  const Json again = json_of("partition" + four + " --costs " + written);
  EXPECT_EQ(again["layout"], json["layout"]);
  EXPECT_EQ(again["even"], json["even"]);
  EXPECT_EQ(again["balanced"], json["balanced"]);
  // Flags count: without links it takes less.
  const Json free = json_of("partition" + four + alexnet);
  EXPECT_LT(free["balanced"]["makespan_ns"], json["balanced"]["makespan_ns"]);
  EXPECT_LT(free["balanced"]["peak_memory_bytes"], json["balanced"]["peak_memory_bytes"]);
}

TEST(PartitionCli, OfAMeasuredRun) {
  const TemporaryFolder folder;
  const std::string trace = folder / "run.json";
  const Outcome run =
      run_command({PIPEEXEC_COMMAND, "--transport", "local", "--stages", "2", "--schedule",
                   "interleaved", "--microbatches", "4", "--iterations", "3", "--trace", trace});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string costs = folder / "costs.json";
  output_of("calibrate " + trace + " -o " + costs);
  // Its schedule, where no flag says another.
  const std::string schedule = "--schedule interleaved --stages 2 --microbatches 4";
  const Json json = expect_as_predicted(" --measured " + trace, schedule, " --costs " + costs);
  EXPECT_EQ(json["schedule"], "interleaved");
  EXPECT_EQ(json["layers"], 10);
  EXPECT_EQ(json["microbatches"], 4);
  EXPECT_EQ(json["parts"][0]["from"], "embedding");
  EXPECT_TRUE(json["megatron_layout"].get<std::string>().starts_with("E"));
  EXPECT_EQ(json_of("partition --costs " + costs + " " + schedule)["balanced"], json["balanced"]);
  const Json other =
      expect_as_predicted(" --measured " + trace + " --schedule gpipe --stages 3",
                          "--schedule gpipe --stages 3 --microbatches 4", " --costs " + costs);
  EXPECT_EQ(other["virtual_stages"], 1);
  // A run that was split otherwise is compared, too.
  const Outcome uneven_run = run_command({PIPEEXEC_COMMAND, "--transport", "local", "--stages", "2",
                                          "--schedule", "1f1b", "--layout", "3,7", "--microbatches",
                                          "4", "--iterations", "3", "--trace", trace});
  ASSERT_EQ(uneven_run.status, 0) << uneven_run.err;
  const Json split = json_of("partition --measured " + trace);
  EXPECT_EQ(split["given"]["layout"], (Json{3, 7}));
  EXPECT_LE(split["balanced"]["makespan_ns"], split["given"]["makespan_ns"]);
}

// A schedule from a file, its stages placed in a V.
TEST(PartitionCli, OfAScheduleInAFile) {
  const std::string schedule = "--schedule " + source_file("examples/two_chunks_v.csv");
  const Json json = expect_as_predicted(" " + schedule + uneven, schedule, uneven);
  EXPECT_EQ(json["virtual_stages"], 2);
  EXPECT_EQ(json["parts"][3]["rank"], 0);
  EXPECT_EQ(json["megatron_layout"], nullptr);
}

// ---- Starts, ends, memory

TEST(PartitionCli, StartsFromALayoutAndWritesOne) {
  const TemporaryFolder folder;
  const std::string file = folder / "layout.txt";
  const std::string line = "partition" + four + resnet + " --p2p-bandwidth 1GB/s --trials 3";
  const Json json = json_of(line + " --layout 89,60,26,1 -o " + file);
  expect_consistent(json);
  EXPECT_EQ(json["given"]["layout"], Json({89, 60, 26, 1}));
  EXPECT_LE(json["balanced"]["makespan_ns"], json["given"]["makespan_ns"]);
  EXPECT_EQ(json["search"]["end"], "trials");
  EXPECT_EQ(read_file(file), layout_text(json["layout"]) + "\n");
  // Read back it is a start that is not lost.
  const Json next = json_of(line + " --layout " + file);
  EXPECT_EQ(next["given"]["layout"], json["layout"]);
  EXPECT_EQ(next["given"]["makespan_ns"], json["balanced"]["makespan_ns"]);
  EXPECT_LE(next["balanced"]["makespan_ns"], json["balanced"]["makespan_ns"]);
  const std::string report = output_of(line + " --layout " + file + " -o " + (folder / "other"));
  EXPECT_NE(report.find("\ngiven "), std::string::npos) << report;
  EXPECT_NE(report.find("\nLayout: " + (folder / "other") + " (for --layout)\n"), std::string::npos)
      << report;
  EXPECT_EQ(last_line(report, "layout") + "\n", read_file(folder / "other"));
  // pipesim reads the same file.
  output_of("partition" + four + uneven + " -o " + file);
  EXPECT_EQ(json_of(four + uneven + " --layout " + file)["makespan_ns"],
            json_of("partition" + four + uneven)["balanced"]["makespan_ns"]);
}

TEST(PartitionCli, ForTheLeastBottleneck) {
  const Json json = json_of("partition" + four + resnet + " --objective bottleneck");
  expect_consistent(json);
  EXPECT_EQ(json["objective"], "bottleneck");
  EXPECT_EQ(json["search"]["end"], "not_searched");
  EXPECT_EQ(json["balanced"]["bottleneck_ns"], json["bottleneck_at_least_ns"]);
  const Json searched = json_of("partition" + four + resnet);
  EXPECT_LE(json["balanced"]["bottleneck_ns"], searched["balanced"]["bottleneck_ns"]);
  EXPECT_GE(json["balanced"]["makespan_ns"], searched["balanced"]["makespan_ns"]);
}

TEST(PartitionCli, KeepsWithinMemory) {
  const Json free = json_of("partition" + four + uneven);
  const auto needed = free["balanced"]["peak_memory_bytes"].get<std::int64_t>();
  const std::string cap = " --memory-cap " + std::to_string(needed - 1) + "B";
  const Json json = json_of("partition" + four + uneven + cap);
  expect_consistent(json);
  EXPECT_LT(json["balanced"]["peak_memory_bytes"], needed);
  EXPECT_EQ(json["balanced"]["fits"], true);
  EXPECT_GE(json["balanced"]["makespan_ns"], free["balanced"]["makespan_ns"]);
  EXPECT_EQ(json["even"]["fits"], json["even"]["peak_memory_bytes"] < needed);
  // The even split of ResNet-50 does not fit; the report says by how much.
  const std::string report = output_of("partition" + four + resnet + " --memory-cap 15GB");
  EXPECT_NE(report.find(" GiB !\n"), std::string::npos) << report;
  EXPECT_NE(unwrapped(report).find("Of 14.0 GiB per rank it needs "), std::string::npos) << report;
  EXPECT_NE(unwrapped(report).find("the even split would need "), std::string::npos) << report;
}

TEST(PartitionCli, SaysWhatMemoryLacks) {
  expect_one_sentence(call("partition" + two + alexnet + " --memory-cap 1MiB"), "pipesim", "", 2,
                      "no layout fits into 1.0 MiB per rank: with ");
  const Outcome model = call("partition" + four + llama + " --memory-cap 30GiB");
  expect_one_sentence(model, "pipesim", "", 2, "no layout fits into 30.0 GiB per rank: with ");
  EXPECT_NE(model.err.find("; its largest layer is "), std::string::npos) << model.err;
  EXPECT_TRUE(model.err.ends_with("Give more memory, more stages or smaller microbatches\n"));
  // What it says that is lacking is what that layout lacks.
  const std::string with = "per rank: with ";
  const std::size_t at = model.err.find(with) + with.size();
  const std::string layout = model.err.substr(at, model.err.find(' ', at) - at);
  const Json prediction = json_of(four + llama + " --layout " + layout);
  const std::int64_t peak = prediction["peak_memory_bytes"];
  EXPECT_NE(model.err.find(" lacks " + format_bytes(peak - (std::int64_t{30} << 30)) + ";"),
            std::string::npos)
      << model.err;
}

// ---- Refused

// Refused before hours and gigabytes are spent.
TEST(PartitionCli, RefusesWhatIsTooLargeToSearch) {
  const TemporaryFolder folder;
  std::string layers;
  for (int i = 0; i < 8000; ++i) {
    layers += std::string(i == 0 ? "" : ",") + R"({"forward_ns":0,"backward_ns":0})";
  }
  const std::string costs = folder / "many.json";
  write_file(costs, R"({"format":"pipesim-costs","version":1,"layers":[)" + layers + "]}");
  const Outcome refused =
      call("partition --schedule 1f1b --stages 6000 --microbatches 4 --costs " + costs);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("8,000 layers in 6,000 virtual stages: more than can be searched"),
            std::string::npos)
      << refused.err;
}

TEST(PartitionCli, RefusesWhatItCannotDo) {
  const TemporaryFolder folder;
  const std::string stages = folder / "stages.json";
  write_file(stages, R"({"format":"pipesim-costs","version":1,"stages":[)"
                     R"({"forward_ns":1,"backward_ns":2},{"forward_ns":1,"backward_ns":2}]})");
  const std::string graph = folder / "graph.txt";
  write_file(graph, read_file(source_file("examples/partition/alexnet_graph.txt")));
  const std::string schedule = folder / "order.csv";
  write_file(schedule, read_file(source_file("examples/two_chunks_v.csv")));
  const std::string emulated = folder / "emulated.json";
  const Outcome run = run_command({PIPEEXEC_COMMAND, "--device", "emulated", "--transport", "local",
                                   "--stages", "2", "--schedule", "1f1b", "--microbatches", "4",
                                   "--costs", stages, "--iterations", "1", "--trace", emulated});
  ASSERT_EQ(run.status, 0) << run.err;
  struct Wrong {
    std::string line;
    std::string message;
  };
  const std::vector<Wrong> all{
      {two + llama + " --recompute full:4",
       "--recompute full:4: which blocks are computed again follows from the stages, so that these "
       "cannot be balanced; give none or full here, or try --layout without this command"},
      {two,
       "no layers to deal out: give --model and --cluster, --costs with a file of layers, --graph "
       "with a profile of PipeDream's, or --measured with a trace"},
      {two + alexnet + uneven, "--costs and --graph both give layers; keep one"},
      {two + llama + uneven, "--model and --costs both give layers; keep one"},
      {two + alexnet + " --measured run.json", "--graph and --measured both give layers; keep one"},
      {two + uneven + " --p2p-latency 1us",
       "--p2p-latency belongs to --graph, not to --costs; omit it"},
      {two + llama + " --p2p-bandwidth 1GB/s",
       "--p2p-bandwidth belongs to --graph, not to --model; omit it"},
      {two + uneven + " --optimizer-multiple 2",
       "--optimizer-multiple belongs to --graph, not to --costs; omit it"},
      {two + " --costs " + stages,
       stages + ": has times by stage, but only layers can be distributed; give costs by layer"},
      {" --measured " + emulated,
       emulated + ": has times by stage, but only layers can be distributed; give a trace that "
                  "pipeexec wrote of a training"},
      {" --schedule 1f1b --stages 9 --microbatches 4" + uneven,
       "uneven_costs.json: 8 layers cannot fill 9 virtual stages; use fewer stages"},
      {two + alexnet + " --objective speed",
       "--objective: unknown 'speed'; give iteration or bottleneck"},
      {two + alexnet + " --trials 0", "--trials: 0 must be 1 or more"},
      {two + alexnet + " --trials many", "--trials: 'many' is not a whole number"},
      {two + alexnet + " --budget 0s",
       "--budget: 0 leaves no time to search; give some, such as 10s"},
      {two + alexnet + " --budget 5",
       "--budget: '5' has no unit; write one of ns, us, ms, s, such as 1.5ms"},
      {two + alexnet + " --memory-cap 0",
       "--memory-cap: a rank of 0 bytes holds nothing; give a limit such as 80GiB"},
      {two + " --graph " + graph + " -o " + graph,
       "--graph and -o name the same file; write to another"},
      {" --schedule " + schedule + uneven + " -o " + schedule,
       "--schedule and -o name the same file; write to another"},
      {two + alexnet + " -o " + graph + " --write-costs " + graph,
       "-o and --write-costs name the same file; write to another"},
      {two + llama + " --write-costs costs.json",
       "--write-costs writes the layers of a file; a model has no such file"},
      {" --stages 2 --microbatches 4" + alexnet,
       "--schedule is missing: give a name (see `pipesim schedules`) or a file"},
      {" --schedule 1f1b --microbatches 4" + alexnet,
       "--stages is missing: give the number of pipeline ranks"},
      {two + alexnet + " --layout 3,2",
       "--layout: 5 layers on 2 virtual stages, but alexnet_graph.txt has 22 layers (embedding and "
       "head included) and the schedule 2 virtual stages"},
      {two + llama + " --layout Et*16|mt*16L",
       "--layout: layer 17 on virtual stage 1 is m, multi-token prediction, which llama-3-8b does "
       "not have; its layers are E, 32 t and L in this order"},
      {two + " --measured " + source_file("traces/recorded/1f1b.rank0.json.gz"),
       "--measured: " + source_file("traces/recorded/1f1b.rank0.json.gz") +
           " is not a trace of ours; give one that pipeexec wrote of a training"},
      {two + " --graph " + (folder / "none.txt"),
       "cannot read '" + (folder / "none.txt") + "': No such file or directory"},
      {two + " --graph " + stages,
       stages + ": is JSON; a graph of PipeDream has lines such as 'node4 -- Linear(8, 8) -- "
                "forward_compute_time=0.539, backward_compute_time=0.188, activation_size=1024.0, "
                "parameter_size=256.000'"},
      {" --measured " + stages,
       stages +
           ": not a trace but \"pipesim-costs\"; give it as --costs, and --trace writes a trace"},
  };
  for (const Wrong& wrong : all) {
    const Outcome outcome = call("partition" + wrong.line);
    EXPECT_EQ(outcome.status, 2) << wrong.line;
    EXPECT_EQ(outcome.out, "") << wrong.line;
    EXPECT_EQ(outcome.err, "pipesim: " + wrong.message + "\n") << wrong.line;
  }
  // Nothing was written over.
  EXPECT_EQ(read_file(graph), read_file(source_file("examples/partition/alexnet_graph.txt")));
  EXPECT_EQ(read_file(schedule), read_file(source_file("examples/two_chunks_v.csv")));
}

// ---- For people

// No line is longer, but for those to copy.
void expect_width(const std::string& report, std::size_t most) {
  for (const std::string& line : lines_of(report)) {
    if (line.starts_with("layout ") || line.starts_with("Megatron ")) continue;
    EXPECT_LE(line.size(), most) << line;
  }
  EXPECT_EQ(report.find('\x1b'), std::string::npos);
}

TEST(PartitionReport, FitsTheTerminal) {
  for (const std::string& line :
       {"partition" + four + resnet + " --p2p-bandwidth 10GB/s --memory-cap 15GB --trials 50",
        "partition" + four + llama, "partition" + four + uneven}) {
    for (const auto& [columns, most] : {std::pair("80", 80U), {"200", 200U}}) {
      const std::string report = output_of(line, {std::string("COLUMNS=") + columns});
      expect_width(report, most);
      EXPECT_GT(lines_of(report).size(), 15U);
    }
    // Tables keep their columns; all else wraps.
    const std::string narrow = output_of(line, {"COLUMNS=40"});
    expect_width(narrow, 58);
    const std::size_t sentence = narrow.find("The bottleneck is");
    ASSERT_NE(sentence, std::string::npos) << narrow;
    expect_width(narrow.substr(sentence), 40);
    expect_width(narrow.substr(0, narrow.find("\n\n")), 40);
  }
}

TEST(PartitionReport, HelpFits80Columns) { expect_width(output_of("partition --help"), 80); }

TEST(PartitionReport, SaysTheSameAsJson) {
  const std::string line = "partition" + four + llama;
  const Json json = json_of(line);
  const std::string report = output_of(line);
  EXPECT_EQ(last_line(report, "layout"), layout_text(json["layout"]));
  EXPECT_EQ(last_line(report, "Megatron"), json["megatron_layout"]);
  for (const char* name : {"even", "balanced"}) {
    const Json& split = json[name];
    const std::string row = name + (" " + format_time(split["makespan_ns"])) + " " +
                            format_percent(split["bubble_fraction"]["global"]) + " " +
                            format_time(split["bottleneck_ns"]) + " " +
                            format_bytes(split["peak_memory_bytes"]) + " ";
    EXPECT_NE(unwrapped(report).find(row), std::string::npos) << row << "\n" << report;
  }
  std::ostringstream gain;
  gain.precision(1);
  gain << std::fixed << json["gain_fraction"].get<double>() * 100 << " % less than split evenly";
  EXPECT_NE(unwrapped(report).find(gain.str()), std::string::npos) << report;
  // Where the even split is as good as any.
  const TemporaryFolder folder;
  write_file(folder / "alike.json",
             R"({"format":"pipesim-costs","version":1,"layers":[)"
             R"({"forward_ns":1000,"backward_ns":2000},{"forward_ns":1000,"backward_ns":2000}]})");
  EXPECT_NE(unwrapped(output_of("partition" + two + " --costs " + (folder / "alike.json")))
                .find(" per iteration; the even split is the best found"),
            std::string::npos);
}

// A thousand layers on 64 stages: only some stages are shown, the slowest among them.
TEST(PartitionReport, OfManyStagesIsShort) {
  const TemporaryFolder folder;
  std::mt19937_64 random(1);
  std::string layers;
  for (int l = 0; l < 1000; ++l) {
    const auto ms = 1 + random() % 9;
    layers += (l == 0 ? "" : ",\n") + ("{\"forward_ns\":" + std::to_string(ms)) +
              "000000,\"backward_ns\":" + std::to_string(2 * ms) +
              "000000,\"output_bytes\":1000000}";
  }
  write_file(folder / "deep.json", R"({"format":"pipesim-costs","version":1,"layers":[)" + layers +
                                       R"(],"p2p":{"bandwidth_bytes_per_s":10000000000}})");
  const std::string line =
      "partition --schedule 1f1b --stages 64 --microbatches 64 --trials 10 --budget 300s --costs " +
      (folder / "deep.json");
  const Json json = json_of(line);
  expect_consistent(json);
  EXPECT_EQ(json["layers"], 1000);
  EXPECT_EQ(json["layout"].size(), 64U);
  EXPECT_LT(json["balanced"]["bottleneck_ns"], json["even"]["bottleneck_ns"]);
  const std::string report = output_of(line, {"COLUMNS=80"});
  expect_width(report, 80);
  EXPECT_LT(lines_of(report).size(), 60U);
  const std::string held = "The bottleneck is rank ";
  const std::size_t at = report.find(held);
  ASSERT_NE(at, std::string::npos) << report;
  const int slowest = std::stoi(report.substr(at + held.size()));
  std::ostringstream row;
  row.width(5);
  row << slowest;
  row.width(5);
  row << slowest << "  F";
  EXPECT_NE(report.find("\n" + row.str()), std::string::npos) << row.str() << "\n" << report;
}

}  // namespace
}  // namespace pipesim
