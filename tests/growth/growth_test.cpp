// Of every reader, whatever there may be much of in its texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/compare/comparison.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/input_pipeline/input_families.h"
#include "sim/report/json.h"
#include "sim/report/report.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "tests/files.h"
#include "tests/fuzz/memory_file.h"
#include "tests/growth/expect_linear.h"
#include "tests/growth/growing_traces.h"
#include "tests/growth/readers.h"
#include "tests/growth/template.h"
#include "traces/base/files.h"
#include "traces/input_trace.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using testing::expect_linear;
using testing::growing;
using testing::Growing;
using testing::Outcome;

// FORMAT.md, "What can be relied on".
constexpr double most_bytes = 64;

void expect_linear_reading(std::string_view reader, const std::vector<Growing>& inputs,
                           Outcome outcome = Outcome::read) {
  for (const Growing& input : inputs) {
    expect_linear(input, most_bytes, outcome, testing::find_reader(reader).read);
  }
}

TEST(Growth, OfTracesAsRuns) {
  expect_linear_reading("run", testing::growing_runs());
  expect_linear_reading("run", testing::growing_profiles());
  expect_linear_reading("run", testing::growing_events(), Outcome::refused);
}

TEST(Growth, OfTracesAsEvents) {
  expect_linear_reading("events", testing::growing_runs());
  expect_linear_reading("events", testing::growing_profiles());
  expect_linear_reading("events", testing::growing_events());
}

TEST(Growth, OfCalibrations) {
  expect_linear_reading("calibration", testing::growing_runs());
  expect_linear_reading("calibration", testing::growing_profiles());
}

RecordedRun read_text(const std::string& text) {
  const testing::MemoryFile file(text);
  return read_run({file.path()});
}

TEST(Growth, OfComparisons) {
  for (const Growing& input : testing::growing_runs()) {
    expect_linear(input, 2 * most_bytes, Outcome::read, [](const std::string& text) {
      const RecordedRun run = read_text(text);
      const Comparison comparison = compare(run, run);
      comparison_json(run, run, comparison);
      comparison_report(run, run, comparison, {80, false});
    });
  }
  expect_linear(
      testing::growing_clocks(), 2 * most_bytes, Outcome::read, [](const std::string& text) {
        const RecordedRun run = read_text(text);
        RecordedRun right = run;
        for (Span& span : right.spans) {
          span.start_ns -= span.rank * testing::clock_error_ns;
          span.end_ns -= span.rank * testing::clock_error_ns;
        }
        std::ranges::stable_sort(
            right.spans, {}, [](const Span& span) { return std::pair(span.start_ns, span.rank); });
        const Comparison comparison = compare(right, run);
        EXPECT_NE(comparison.clocks.front().ahead_ns, 0);
      });
}

TEST(Growth, OfSchedules) {
  const auto csv = [](int ranks, int microbatches, int chunks) {
    ScheduleRequest request;
    request.name = chunks > 1 ? "interleaved" : "1f1b";
    request.ranks = ranks;
    request.microbatches = microbatches;
    if (chunks > 1) request.chunks = chunks;
    return to_csv(generate(request));
  };
  const std::vector<Growing> inputs{
      {"ranks", [&](int n) { return csv(n, 4, 1); }, 200},
      {"microbatches", [&](int n) { return csv(4, n, 1); }, 200},
      {"chunks", [&](int n) { return csv(4, 4, n); }, 50},
      {"ranks of programs", [&](int n) { return to_csv(lower(parse_csv(csv(n, 2, 1), "p"))); },
       200},
      {"ranks of streams",
       [&](int n) {
         return to_program_text(lower(parse_csv(csv(n, 2, 1), "p")), TransferLane::edge);
       },
       200},
      {"microbatches of streams",
       [&](int n) {
         return to_program_text(lower(parse_csv(csv(4, n, 1), "p")), TransferLane::rank);
       },
       200},
      growing("idle cells", "0F0<,>0B0\n", 20000),
      growing("rows of nothing", "0F0,0B0\n<\n>", 20000),
      growing("dependencies",
              "pipesim-program 1\nrank 0\ncompute <0F#| > <0B#| >\n<0B# after 0F#|\n>\n"),
  };
  expect_linear_reading("schedule", inputs);
  const std::string program = "pipesim-program 1\nrank 0\ncompute 0F0 0B0";
  expect_linear_reading(
      "schedule",
      {growing("stages without work", "0F0,0B0,<#UNSHARD|,>\n"),
       growing("streams without ranks", program + "\n<0->#|\n>"),
       growing("streams of one action", program + "<\n0->1# 0SEND_F#|>\n"),
       growing("receives before a send", program + "\ntransfers 0SEND_F5 <0RECV_B#| >"),
       growing("a batch that waits",
               "pipesim-program 1\nrank 0\ncompute<# 0F#| >\n"
               "transfers (<0SEND_F#|;>;0SEND_F9)BATCH_P2P\n"),
       growing("streams and steps",
               "pipesim-program 1\nrank 0\ncompute 0F0 0B0 "
               "<0OPTIMIZER| >\n<0->1# 0SEND_F#|\n>"),
       growing("one that waits", program + "\n0B0 after <0F#| >\n"),
       growing("ranks of one action", "pipesim-program 1<\nrank #\ncompute #F0|>")},
      Outcome::refused);
}

TEST(Growth, OfFamilies) {
  for (const Family& family : all_families()) {
    const Growing input{std::string(family.name),
                        [](int n) { return std::string(static_cast<std::size_t>(n), 'r'); }, 200};
    // With the number of ranks; orders on a V, which are made for twice as many microbatches as
    // ranks at least, with that of microbatches.
    const bool by_ranks = family.placement == "loop";
    expect_linear(input, 4096, Outcome::read, [&](const std::string& text) {
      const int size = static_cast<int>(text.size());
      ScheduleRequest request;
      request.name = family.name;
      request.ranks = by_ranks ? size : 8;
      request.microbatches = by_ranks ? 4 : size;
      generate(request);
    });
  }
}

TEST(Growth, OfCosts) {
  const auto costs = [](const std::string& stages, const std::string& p2p) {
    return R"({"format":"pipesim-costs","version":1,"stages":[)" + stages +
           R"(],"p2p":{"latency_ns":0)" + p2p + "}}";
  };
  const std::string stage = R"({"forward_ns":1,"backward_input_ns":1,"backward_weight_ns":1})";
  const std::string stages = stage + "," + stage;
  const std::string links = R"(,"links":[<{"name":"link#","bandwidth_bytes_per_s":1000}|,>])";
  const auto edges = [&](int n) {
    std::string list;
    for (int i = 1; i < n; ++i) {
      list += fmt::format(R"({}{{"from":{},"to":0}})", i == 1 ? "" : ",", i);
    }
    return costs(testing::grown("<" + stage + "|,>", n), R"(,"edges":[)" + list + "]");
  };
  expect_linear_reading(
      "costs",
      {growing("stages", costs("<" + stage + "|,>", "")),  //
       growing("links", costs(stages, links)),
       growing("a route of links",
               costs(stages, links + R"(,"edges":[{"from":0,"to":1,"links":[<"link#"|,>]}])")),
       {"edges", edges}});
  expect_linear_reading(
      "costs",
      {growing("an unknown link",
               costs(stages, links + R"(,"edges":[{"from":0,"to":1,"links":["lnk"]}])")),
       growing("edges of nobody", costs(stages, R"(,"edges":[<{"from":0,"to":1#}|,>])")),
       growing("unknown keys", costs(stages, R"(,<"k#":1|,>)")),  //
       growing("nesting", "<[><]>"), growing("a long key", costs(stages, R"(,"<x>":1)"), 50000)},
      Outcome::refused);
}

TEST(Growth, OfModels) {
  const auto model = [](const std::string& members) {
    return R"({"format":"pipesim-model","version":1,)" + members + "}";
  };
  const auto listed = [&](const std::string& layers) {
    return model(R"("architecture":"layers","layers":[)" + layers + "]");
  };
  expect_linear_reading(
      "model",
      {growing("layers", listed(R"(<{"name":"l#","forward_ns":5,"backward_ns":9}|,>)")),
       growing("layers of one name", listed(R"(<{"name":"l","forward_ns":5,"backward_ns":9}|,>)")),
       growing("a long name", listed(R"({"name":"<x>","forward_ns":5,"backward_ns":9})"), 50000)});
  expect_linear_reading("model", {growing("unknown keys", model(R"(<"k#":1|,>)"))},
                        Outcome::refused);
}

TEST(Growth, OfConfigurationsOfOthers) {
  const std::string config =
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
      R"("intermediate_size":96,"vocab_size":100,"max_position_embeddings":32,)";
  expect_linear_reading("model", {growing("unknown keys of a config", config + R"(<"k#":1|,>})"),
                                  growing("layer types", config + R"("layer_types":[<"a"|,>]})")});
  const std::string small =
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 --vocab-size 9 ";
  expect_linear_reading(
      "import",
      {growing("arguments", small + "<--k# 1 >"), growing("values", small + "--k < 1>"),
       growing("one argument", small + "<--lr 1 >"), growing("variables", "<A#=1\n>x " + small),
       growing("appended", "A=\n<A+=1\n>x " + small),
       growing("words of a variable", "A=\"<--lr 1 >\"\nx " + small + "$A"),
       growing("a variable that no command uses", "A=\"" + small + "<--lr 1 >\"\ntorchrun x\n",
               4000),
       growing("a list", "A=(<1 >)\nx " + small + "${A[@]}"),
       growing("defaults", "x " + small + "<${A:-1} >"),
       growing("sums", "x " + small + "--k $((0<+1>))"),
       growing("settings", "[training]\n<k# = 1\n>"),
       growing("parts", "[parallelism]\nk = [<[1]|,>]\n"),
       growing("members", R"({"train_batch_size":8,<"k#":1|,>})")});
  expect_linear_reading(
      "import",
      {growing("words of a variable, again and again", "A=\"<a >\"\n<x $A\n>", 4000),
       growing("variables of variables", "A0=\"a a a a\"\n<A=\"$A $A\"\n>x $A", 100)},
      Outcome::refused);
}

TEST(Growth, OfRecommendationModels) {
  const auto model = [](const std::string& members) {
    return R"({"format":"pipesim-model","version":1,"dense_features":1,)"
           R"("bottom":[2],"top":[1],"interaction":"dot",)" +
           members + "}";
  };
  expect_linear_reading(
      "recommendation model",
      {growing("tables", model(R"("tables":[<{"name":"t#","rows":5}|,>])")),
       growing("a long name", model(R"("tables":[{"name":"<x>","rows":5}])"), 50000)});
  expect_linear_reading(
      "recommendation model",
      {growing("unknown keys", model(R"("tables":[{"name":"t","rows":5}],<"k#":1|,>)")),
       growing("unknown keys of a table", model(R"("tables":[{"name":"t","rows":5,<"k#":1|,>}])"))},
      Outcome::refused);
}

TEST(Growth, OfShardingPlans) {
  const auto plan = [](const std::string& tables) {
    return R"({"format":"pipesim-sharding-plan","version":1,"tables":{)" + tables + "}}";
  };
  expect_linear_reading(
      "sharding plan",
      {growing("tables", plan(R"(<"t#":{"sharding":"row-wise"}|,>)")),
       growing("unknown tables", plan(R"(<"u#":{"sharding":"row-wise"}|,>)")),
       growing("ranks", plan(R"("t0":{"sharding":"column-wise","ranks":[<#|,>,0]})")),
       growing("unknown keys", plan(R"("t0":{"sharding":"row-wise",<"k#":1|,>})"))},
      Outcome::refused);
}

TEST(Growth, OfInputCosts) {
  const auto costs = [](const std::string& members) {
    return R"({"format":"pipesim-costs","version":1,)" + members + "}";
  };
  const std::string links = R"("links":[<{"name":"l#","bandwidth_bytes_per_s":1000}|,>],)";
  expect_linear_reading("input costs", {growing("links", costs(links + R"("ranks":2,"work":{})"))});
  expect_linear_reading(
      "input costs",
      {growing("an unknown link", costs(links + R"("ranks":2,"work":{"TOP":{"links":["l"]}})")),
       growing("links of one action",
               costs(links + R"("ranks":2,"work":{"TOP":{"links":[<"l#"|,>]}})")),
       growing("ranks", costs(R"("ranks":2,"work":{"TOP":[<{"duration_ns":5}|,>]})")),
       growing("unknown keys", costs(R"("ranks":2,"work":{},<"k#":1|,>)"))},
      Outcome::refused);
}

TEST(Growth, OfInputPipelines) {
  const auto program = [](int ranks, int batches) {
    const std::string text = to_text(make_input_program({"sparse-dist", 1, batches, 1}));
    const std::size_t calls = text.find("rank 0");
    std::string all = text.substr(0, calls);
    for (int rank = 0; rank < ranks; ++rank) {
      all += "rank " + std::to_string(rank) + text.substr(calls + 6);
    }
    return all;
  };
  // So that who waits for whom has to be looked at.
  const auto unlike = [&](int ranks) {
    std::string text = program(ranks, 2);
    const std::string left_out = "compute   ZERO_GRAD0\n";
    return text.erase(text.find(left_out), left_out.size());
  };
  const std::vector<Growing> programs{{"ranks", [&](int n) { return program(n, 2); }, 100},
                                      {"batches", [&](int n) { return program(2, n); }, 100},
                                      growing("waits",
                                              "pipesim-program 1\nbatches 1\nrank 0\nhost NEXT0\n"
                                              "memcpy COPY0 after< NEXT0>\n")};
  expect_linear_reading("input program",
                        {programs[0], programs[1], {"ranks that differ", unlike, 100}});
  expect_linear_reading("input program", {programs[2]}, Outcome::refused);
  const auto trace = [&](int ranks, int batches) {
    InputRun run;
    run.program = parse_input_program(program(ranks, batches), "grown");
    for (const InputCalls& calls : run.program.calls) run.spans.emplace_back(calls.size());
    const testing::TemporaryFolder folder;
    write_input_trace(run, folder / "grown.json");
    return read_file(folder / "grown.json");
  };
  expect_linear_reading("input trace", {{"ranks", [&](int n) { return trace(n, 2); }, 30},
                                        {"batches", [&](int n) { return trace(2, n); }, 30}});
}

TEST(Growth, OfHardware) {
  for (const std::string kind : {"device", "cluster"}) {
    const std::string format = R"("format":"pipesim-)" + kind + R"(","version":1,)";
    expect_linear_reading(kind,
                          {growing("unknown keys", "{" + format + R"(<"k#":1|,>})"),
                           growing("nesting", "{" + format + R"("name":<{"a":>1<}>})"),
                           growing("a long name", "{" + format + R"("name":"<x>"})", 50000)},
                          Outcome::refused);
  }
}

TEST(Growth, OfTiles) {
  std::string text(device_preset("laptop-cpu"));
  const std::string section = R"("matmul": {)";
  text.insert(text.find(section) + section.size(),
              R"("tiles":[<{"rows":{"value":1#,"source":"s"},"columns":{"value":128,"source":"s"},)"
              R"("efficiency":{"value":0.5,"source":"s"}}|,>],)");
  expect_linear_reading("device", {growing("tiles", text, 250)});
}

TEST(Growth, OfPipedreamGraphs) {
  const std::string node =
      " -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, "
      "parameter_size=8.0\n";
  const auto chain = [&](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "node" + std::to_string(i) + node;
    for (int i = 1; i < n; ++i) text += fmt::format("\tnode{} -- node{}\n", i - 1, i);
    return text;
  };
  expect_linear_reading(
      "graph",
      {{"a chain", chain},
       growing("layers that one layer feeds",
               "node0" + node + "<node1#" + node + "><\tnode0 -- node1#\n>"),
       growing("layers that feed one layer",
               "node0" + node + "<node1#" + node + "><\tnode1# -- node0\n>"),
       growing("pairs of layers", "<node1#" + node + "node2#" + node + "><\tnode1# -- node2#\n>"),
       growing("edges between the same",
               "node1" + node + "node2" + node + "<\tnode1 -- node2\n>")});
}

TEST(Growth, OfLayouts) {
  expect_linear_reading("layout", {growing("letters", "E<t>L"), growing("stages", "<t||>L"),
                                   growing("numbers", "<1|,>"), growing("repeats", "<t*3>")});
  expect_linear_reading("layout", {growing("brackets", "<(>t<)>"), growing("a name", "<x>")},
                        Outcome::refused);
}

TEST(Growth, OfMessages) {
  expect_linear_reading("message", {growing("letters", "<a>", 50000),
                                    growing("letters of two bytes", "<\xc3\xa9>", 50000),
                                    growing("what is no letter", "<\xff>", 50000)});
}

}  // namespace
}  // namespace pipesim
