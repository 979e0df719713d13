// What `pipesim --explain` and the report say of a model's time and memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "sim/cost/costs.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/model.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "tests/words.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

using namespace testing;

// ---- Explained

const std::vector<std::string> explained_lines{
    small,
    small + " --recompute full --micro-batch-size 3",
    small + " --recompute norms,activation",
    "--schedule zb-h1 --stages 4 --microbatches 9 --model gpt2-small --cluster dgx-a100 "
    "--tensor-parallel 2 --recompute selective --data-parallel 4 --zero 2",
    "--schedule interleaved --stages 3 --virtual-stages 2 --microbatches 6 --model gpt2-small "
    "--cluster vtrain-a100 --tensor-parallel 4 --sequence-parallel",
    "--schedule gpipe --stages 4 --microbatches 4 --model gpt2-small --cluster dgx-a100 "
    "--tensor-parallel 2 --p2p fifo",
    "--schedule " + testing::golden("dualpipev_4rank_10mb.csv") +
        " --model gpt2-small --cluster dgx-a100",
    "--schedule interleaved-zb --stages 2 --microbatches 4 --model llama-3-8b --cluster dgx-h100 "
    "--sequence-length 1024 --recompute selective",
};

std::int64_t sum_of(const Json& numbers) {
  std::int64_t sum = 0;
  for (const Json& number : numbers) sum += number.get<std::int64_t>();
  return sum;
}

// A bubble that a gather fills is the warm-up's.
TEST(Explanation, SaysWhatRanksExchangeNextToCompute) {
  const std::string line =
      "--schedule 1f1b --stages 4 --microbatches 8 --model gpt2-xl --cluster dgx-h100 --zero 1 "
      "--data-parallel 8 --explain";
  const Json apart = json_of(line + " --bucket-bytes off --overlap-gather off");
  for (const Json& rank : apart["explanation"]["ranks"]) {
    EXPECT_EQ(sum_of(rank["next_to_compute_ns"]), 0);
  }
  const Json beside = json_of(line + " --bucket-bytes 25MB --overlap-gather on");
  for (const Json& rank : beside["explanation"]["ranks"]) {
    const Json& ns = rank["next_to_compute_ns"];
    EXPECT_GT(ns["reduction"], ns["reduction_in_bubbles"]);
    EXPECT_GT(ns["reduction_in_bubbles"], 0);  // of the last bucket
    // The last rank has not begun when its weights are there.
    EXPECT_EQ(ns["gather"] == ns["gather_in_bubbles"], rank["rank"] != 0);
  }
  EXPECT_LT(beside["makespan_ns"], apart["makespan_ns"]);
}

// Within actions a trace has the same as layers are explained to have.
TEST(Explanation, TracesSayWhatActionsHide) {
  const testing::TemporaryFolder folder;
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 2 --model gpt2-small --cluster dgx-h100 "
      "--tensor-parallel 4 --explain --trace " +
      (folder / "t.json") + " --tensor-overlap ";
  for (const bool hides : {true, false}) {
    const Json explained = json_of(line + (hides ? "on" : "off"))["explanation"];
    std::int64_t exchanged = 0, hidden = 0;
    for (const Json& kind : explained["layers"]) {
      for (const char* pass : {"forward_ns", "backward_ns"}) {
        exchanged += kind["count"].get<int>() * kind[pass]["tensor_parallel"].get<std::int64_t>();
        hidden -= kind["count"].get<int>() * kind[pass]["hidden_reduction"].get<std::int64_t>();
      }
    }
    std::int64_t traced = 0, traced_hidden = 0;
    const Json trace = Json::parse(read_file(folder / "t.json"));
    for (const Json& event : trace["traceEvents"]) {
      if (!event.contains("args") || !event["args"].contains("tensor_ns")) continue;
      if (event["args"]["microbatch"] != 0) continue;
      traced += event["args"]["tensor_ns"].get<std::int64_t>();
      traced_hidden += event["args"]["tensor_hidden_ns"].get<std::int64_t>();
    }
    EXPECT_GT(traced, 0);
    EXPECT_EQ(traced_hidden > 0, hides);
    EXPECT_NEAR(static_cast<double>(traced), static_cast<double>(exchanged), 50);
    EXPECT_NEAR(static_cast<double>(traced_hidden), static_cast<double>(hidden), 50);
  }
}

TEST(Explanation, TimesSumToWhatRanksDo) {
  for (const std::string& line : explained_lines) {
    const Json json = json_of(line + " --explain");
    const Json& explained = json["explanation"];
    // The other way round: all layers, each as often as there are microbatches.
    std::map<std::string, std::int64_t> of_layers;
    int layers = 0;
    for (const Json& kind : explained["layers"]) {
      layers += kind["count"].get<int>();
      for (const char* pass : {"forward_ns", "backward_ns"}) {
        for (const auto& [use, ns] : kind[pass].items()) {
          of_layers[use] += kind["count"].get<std::int64_t>() * ns.get<std::int64_t>() *
                            json["microbatches"].get<std::int64_t>();
        }
      }
    }
    EXPECT_EQ(layers, find_model(json["training"]["model"]).layers());
    for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
      const Json& time = explained["ranks"][r]["time_ns"];
      EXPECT_EQ(sum_of(time), json["ranks"][r]["busy_ns"]) << line;
      EXPECT_EQ(time["beside_transfers"], 0) << line;
      EXPECT_GT(time["messages"], 0);
      EXPECT_GT(time["optimizer"], 0);
      for (auto& [use, ns] : of_layers) ns -= time[use].get<std::int64_t>();
    }
    for (const auto& [use, ns] : of_layers) EXPECT_EQ(ns, 0) << line << " " << use;
  }
}

// Closing work takes what the trace of the same prediction has of it, and messages what the
// costs say.
TEST(Explanation, TellsWhatThePredictionDid) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> lines = explained_lines;
  for (const char* replicas :
       {" --data-parallel 4", " --data-parallel 4 --zero 3", " --tensor-parallel 4",
        " --data-parallel 4 --zero 1 --iterations 3 --p2p edge-fifo"}) {
    lines.push_back(small + replicas);
  }
  std::int64_t reductions_ns = 0;
  for (const std::string& line : lines) {
    const Json json = json_of(line + " --explain --trace " + (folder / "trace.json"));
    const RecordedRun run = read_run({folder / "trace.json"});
    const Costs costs = parse_costs(run.about.costs_json, "trace").costs;
    const Metrics metrics = run.metrics(0);
    for (std::size_t r = 0; r < metrics.ranks.size(); ++r) {
      const Json& time = json["explanation"]["ranks"][r]["time_ns"];
      const ClosingTimes& closing = metrics.ranks[r].closing;
      EXPECT_EQ(time["reduction"], closing.of(Kind::REDUCE_GRAD) + closing.of(Kind::REDUCE_TIED));
      EXPECT_EQ(time["optimizer"], closing.of(Kind::OPTIMIZER) + closing.of(Kind::GRAD_NORM));
      reductions_ns += time["reduction"].get<std::int64_t>();
      std::int64_t messages_ns = 0;
      for (std::size_t s = 0; s < costs.stages.size(); ++s) {
        if (run.about.rank_of_stage[s] != static_cast<int>(r)) continue;
        messages_ns += json["microbatches"].get<std::int64_t>() * costs.stages[s].messages_ns();
      }
      EXPECT_EQ(time["messages"], messages_ns) << line;
    }
  }
  EXPECT_GT(reductions_ns, 0);
}

// As many blocks as a model may have.
TEST(Explanation, BlocksAreCounted) {
  const testing::TemporaryFolder folder;
  const int blocks = 1 << 20;
  write_file(folder / "deep.json", replaced(output_of("models gpt2-small"), "\"blocks\": 12",
                                            "\"blocks\": " + std::to_string(blocks)));
  const std::string line = schedule + " --cluster dgx-a100 --model " + (folder / "deep.json");
  const Json json = json_of(line + " --explain");
  const Json& explained = json["explanation"];
  ASSERT_EQ(explained["layers"].size(), 3);
  EXPECT_EQ(explained["layers"][1]["count"], blocks);
  const Json& block = explained["layers"][1];
  const std::int64_t of_blocks =
      8 * (blocks / 4) * block["forward_ns"]["matrix_products"].get<std::int64_t>();
  EXPECT_EQ(explained["ranks"][1]["time_ns"]["matrix_products"].get<std::int64_t>() - of_blocks,
            8 * (blocks / 4) * block["backward_ns"]["matrix_products"].get<std::int64_t>());
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(sum_of(explained["ranks"][r]["time_ns"]), json["ranks"][r]["busy_ns"]);
    EXPECT_EQ(explained["ranks"][r]["time_ns"]["beside_transfers"], 0);
  }
  EXPECT_NE(output_of(line).find(" ranks exceed "), std::string::npos);
}

TEST(Explanation, MemorySumsToThePeak) {
  for (const std::string& line : explained_lines) {
    const Json json = json_of(line + " --explain");
    const std::int64_t memory = find_device(json["training"]["device"]).memory_bytes;
    EXPECT_EQ(json["explanation"]["memory_bytes"], memory);
    for (std::size_t r = 0; r < json["ranks"].size(); ++r) {
      const Json& rank = json["explanation"]["ranks"][r];
      const std::int64_t peak = json["ranks"][r]["peak_memory_bytes"];
      EXPECT_EQ(sum_of(rank["memory_bytes"]), peak) << line;
      EXPECT_EQ(rank["left_bytes"], memory - peak) << line;
    }
  }
}

const Json& block_of(const Json& json) {
  for (const Json& kind : json["explanation"]["layers"]) {
    if (kind["name"] == "block") return kind;
  }
  throw std::runtime_error("no block");
}

TEST(Explanation, WhatIsComputedAgainTakesAForward) {
  const Json json = json_of(small + " --recompute full --tensor-parallel 2 --explain");
  const Json& block = block_of(json);
  // Each use is rounded by itself.
  EXPECT_NEAR(block["backward_ns"]["computed_again"].get<double>(),
              static_cast<double>(sum_of(block["forward_ns"])), 10);
  EXPECT_EQ(block_of(json_of(small + " --explain"))["backward_ns"]["computed_again"], 0);
  // Of FLOPs a block's forward: a third of what it needs.
  const double again = 12 * 8 * (24 * 1024. * 768 * 768 + 4. * 1024 * 1024 * 768);
  EXPECT_DOUBLE_EQ(json["explanation"]["recomputed_flops"].get<double>(), again);
  const double needed = gpt_flops(8, 1024, 768, 12, 50257);
  EXPECT_NEAR(json["explanation"]["hfu"].get<double>() / json["mfu"].get<double>(),
              1 + again / needed, 1e-12);
  const Json selective = json_of(small + " --recompute selective --explain");
  EXPECT_DOUBLE_EQ(selective["explanation"]["recomputed_flops"].get<double>(),
                   12 * 8 * 4. * 1024 * 1024 * 768);
  // Parts add up; norms and activations have no products.
  const auto computed_again = [](const char* parts) {
    const Json parted = json_of(small + " --explain --recompute " + parts);
    return block_of(parted)["backward_ns"]["computed_again"].get<std::int64_t>();
  };
  EXPECT_NEAR(static_cast<double>(computed_again("attention,norms,activation")),
              static_cast<double>(computed_again("attention") + computed_again("norms") +
                                  computed_again("activation")),
              10);
  const Json both = json_of(small + " --recompute activation,norms --explain");
  EXPECT_EQ(both["training"]["recompute"], "norms,activation");
  EXPECT_EQ(both["explanation"]["recomputed_flops"], 0);
}

TEST(Explanation, ReductionsHideOnlyWhereABackwardIsWhole) {
  const std::string line =
      " --stages 4 --microbatches 8 --model gpt2-small --cluster dgx-a100 "
      "--tensor-parallel 4 --micro-batch-size 4 --explain";
  const auto hidden = [](const Json& json) {
    return block_of(json)["backward_ns"]["hidden_reduction"].get<std::int64_t>();
  };
  EXPECT_LT(hidden(json_of("--schedule 1f1b" + line)), 0);
  EXPECT_EQ(hidden(json_of("--schedule 1f1b --tensor-overlap off" + line)), 0);
  EXPECT_EQ(hidden(json_of("--schedule zb-h1" + line)), 0);
}

// A device whose compute is slowed down by transfers.
TEST(Explanation, SlowerBesideTransfers) {
  const testing::TemporaryFolder folder;
  write_file(folder / "device.json", replaced(output_of("devices a100-sxm-80gb"), "\"software\": {",
                                              "\"software\": {\"compute_slowdown\": 0.5,"));
  write_file(folder / "cluster.json",
             replaced(output_of("clusters dgx-a100"), "\"a100-sxm-80gb\"", "\"./device.json\""));
  const Json json = json_of(schedule + " --model gpt2-small --explain --cluster " +
                            (folder / "cluster.json") + " --micro-batch-size 8");
  std::int64_t slower = 0;
  for (std::size_t r = 0; r < 4; ++r) {
    const Json& time = json["explanation"]["ranks"][r]["time_ns"];
    EXPECT_EQ(sum_of(time), json["ranks"][r]["busy_ns"]);
    EXPECT_GE(time["beside_transfers"], 0);
    slower += time["beside_transfers"].get<std::int64_t>();
  }
  EXPECT_GT(slower, 0);
}

TEST(Explanation, NamesWhatIsNotVerified) {
  const DeviceSpec device = find_device("a100-sxm-80gb");
  const Json of_node = json_of(small + " --explain")["explanation"]["unverified"];
  for (const Json& key : of_node["device"]) {
    EXPECT_NE(std::ranges::find(device.unverified, key.get<std::string>()),
              device.unverified.end());
  }
  EXPECT_FALSE(of_node["device"].empty());
  // What lies between nodes counts only where there are several.
  const auto of_network = [](const Json& unverified) {
    return std::ranges::count_if(unverified["cluster"], [](const Json& key) {
      return key.get<std::string>().starts_with("network.");
    });
  };
  EXPECT_EQ(of_network(of_node), 0);
  const Json of_nodes = json_of(small + " --devices 32 --explain")["explanation"]["unverified"];
  EXPECT_GT(of_network(of_nodes), 0);
  const std::string text = unwrapped(output_of(small + " --devices 32 --explain"));
  EXPECT_NE(text.find("Assumed, not verified: a100-sxm-80gb "), std::string::npos) << text;
  for (const Json& key : of_nodes["cluster"]) {
    EXPECT_NE(text.find(key.get<std::string>()), std::string::npos) << key;
  }
}

// Layers that are given by times alone have no FLOPs to tell.
TEST(Explanation, ListedLayers) {
  const testing::TemporaryFolder folder;
  const std::string head =
      R"({"format":"pipesim-model","version":1,"name":"tower","architecture":"layers","layers":[)"
      R"({"name":"stem","parameters":1000,"forward_flops":1e12,"output_bytes":1000,"repeat":3},)";
  write_file(folder / "flops.json", head + R"({"name":"top","forward_flops":2e12}]})");
  write_file(folder / "times.json", head + R"({"name":"top","forward_ns":3000000}]})");
  const std::string line =
      "--schedule 1f1b --stages 2 --microbatches 4 --micro-batch-size 2 --cluster dgx-a100 "
      "--explain --model " +
      folder.path().string();
  const Json flops = json_of(line + "/flops.json");
  const double seconds = flops["makespan_ns"].get<double>() * 1e-9;
  EXPECT_NEAR(flops["mfu"].get<double>() / (3 * 5e12 * 8 / (2 * peak_of_a100 * seconds)), 1, 1e-12);
  EXPECT_DOUBLE_EQ(flops["tokens_per_second"].get<double>(), 8 / seconds);
  const Json times = json_of(line + "/times.json");
  EXPECT_EQ(times["mfu"], nullptr);
  EXPECT_EQ(times["explanation"]["layers"][0]["count"], 3);
  EXPECT_EQ(times["explanation"]["layers"][1]["forward_ns"]["listed"], 6'000'000);
  const std::string text = unwrapped(output_of(line + "/times.json"));
  EXPECT_NE(text.find(" samples/s; a100-sxm-80gb with megatron-2022, no measurement of such runs "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tower does not say its FLOPs."), std::string::npos) << text;
}

// ---- For people

TEST(ModelReport, VerdictNamesWhatRunsWhere) {
  const Json json = json_of(large);
  const std::string text = unwrapped(output_of(large));
  const std::string verdict =
      "gpt3-175b on 64 a100-sxm-80gb of dgx-a100, 1F1B, 8 stages, "
      "64 microbatches: " +
      format_time(json["makespan_ns"]) +
      fmt::format(" +-{:.0f} %, of which ", 100 * json["error_band"]["fraction"].get<double>());
  EXPECT_TRUE(text.starts_with(verdict)) << text;
  const std::string rate = format_count(std::llround(json["tokens_per_second"].get<double>())) +
                           " tokens/s, " +
                           std::to_string(std::lround(json["mfu"].get<double>() * 100)) + " % MFU";
  EXPECT_NE(text.find(rate), std::string::npos) << text;
}

// What is proposed is what one gets.
TEST(ModelReport, RemediesAreComputed) {
  const std::string text = unwrapped(output_of(large));
  const Json plain = json_of(large);
  const std::int64_t memory = find_device("a100-sxm-80gb").memory_bytes;
  // In 1F1B the first ranks keep most.
  int over = 0;
  for (const Json& rank : plain["ranks"]) over += rank["fits"] == true ? 0 : 1;
  ASSERT_GT(over, 1);
  ASSERT_LT(over, 8);
  const std::int64_t peak = plain["ranks"][0]["peak_memory_bytes"];
  const double fraction = plain["memory_error_band"]["fraction"];
  const bool may_fit = static_cast<double>(peak) * (1 - fraction) <= static_cast<double>(memory);
  const std::string verdict =
      std::string("memory ") + (may_fit ? "may" : "does") + " not fit: " + std::to_string(over) +
      " of 8 ranks (0-" + std::to_string(over - 1) + ") exceed " + format_bytes(memory) +
      "; rank 0 needs " + format_bytes(peak) + fmt::format(" +-{:.0f} %, ", 100 * fraction) +
      format_bytes(peak - memory) + " too much";
  EXPECT_NE(text.find(verdict), std::string::npos) << text;
  const std::int64_t now = plain["makespan_ns"];
  const std::pair<const char*, const char*> remedies[] = {
      {"fused attention", " --attention fused"},
      {"selective recomputation", " --recompute selective"},
      {"sequence parallelism", " --sequence-parallel"}};
  const std::size_t from = text.find("would fit with ");
  ASSERT_NE(from, std::string::npos) << text;
  for (const auto& [what, flag] : remedies) {
    const Json json = json_of(large + flag);
    EXPECT_EQ(json["fits"], true) << flag;
    const double share = json["makespan_ns"].get<double>() / static_cast<double>(now) - 1;
    const std::string want = std::string(what) + " (" + format_bytes(json["peak_memory_bytes"]) +
                             ", " + std::to_string(std::lround(std::abs(share) * 100)) +
                             (share > 0 ? " % slower)" : " % faster)");
    EXPECT_NE(text.find(want, from), std::string::npos) << want << "\n" << text;
  }
  // What selective recomputation leaves too large, norms and activations may mend.
  const Json parts = json_of(large + " --recompute attention,norms,activation");
  const std::string tight = large + " --memory-cap " +
                            std::to_string(parts["peak_memory_bytes"].get<std::int64_t>()) + "B";
  EXPECT_EQ(json_of(tight + " --recompute selective")["fits"], false);
  EXPECT_NE(unwrapped(output_of(tight))
                .find("recomputation of attention, norms and activation (" +
                      format_bytes(parts["peak_memory_bytes"]) + ", "),
            std::string::npos);
  // Where one does not help enough, several together.
  const std::string together =
      "--schedule 1f1b --stages 2 --microbatches 8 --model gpt3-13b --cluster dgx-a100 --devices "
      "16 --micro-batch-size 2";
  const Json joint = json_of(together + " --recompute full --zero 2");
  EXPECT_EQ(joint["fits"], true);
  EXPECT_EQ(json_of(together + " --recompute full")["fits"], false);
  EXPECT_EQ(json_of(together + " --zero 2")["fits"], false);
  const std::string proposed = unwrapped(output_of(together));
  EXPECT_NE(proposed.find("would fit with full recomputation and ZeRO 2 (" +
                          format_bytes(joint["peak_memory_bytes"]) + ", "),
            std::string::npos)
      << proposed;
  // A rank that gathers all of its weights needs more with ZeRO 3 than with 2.
  const std::string gathering =
      "--schedule 1f1b --stages 4 --microbatches 8 --model gpt3-6.7b --cluster dgx-a100 "
      "--data-parallel 2 --attention fused --memory-cap 18GiB";
  EXPECT_EQ(json_of(gathering + " --recompute full --zero 3")["fits"], false);
  const Json lighter = json_of(gathering + " --recompute full --zero 2");
  EXPECT_EQ(lighter["fits"], true);
  const std::string lighter_proposed = unwrapped(output_of(gathering));
  EXPECT_NE(lighter_proposed.find("would fit with ZeRO 2 and full recomputation (" +
                                  format_bytes(lighter["peak_memory_bytes"]) + ", "),
            std::string::npos)
      << lighter_proposed;
  // Where nothing helps enough, what helps most.
  const std::string hopeless = unwrapped(output_of(large + " --memory-cap 1GiB"));
  EXPECT_NE(hopeless.find("memory does not fit: 8 of 8 ranks exceed 1.0 GiB; "), std::string::npos);
  EXPECT_NE(hopeless.find("no change tried makes it fit; full recomputation ("), std::string::npos)
      << hopeless;
}

// Changes are tried on the program that a file lists, as they would be with their flag.
TEST(ModelReport, RemediesKeepWhatAFileReduces) {
  const TemporaryFolder folder;
  write_file(folder / "own.csv", "0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3,0REDUCE_GRAD\n");
  const std::string line = "--schedule " + (folder / "own.csv") +
                           " --model gpt3-1.3b --cluster dgx-a100 --data-parallel 9 --zero 2";
  const double now = json_of(line)["makespan_ns"];
  const double fused = json_of(line + " --attention fused")["makespan_ns"];
  ASSERT_LT(fused, now);
  const std::string text = unwrapped(output_of(line + " --memory-cap 15GiB"));
  EXPECT_NE(text.find("would fit with fused attention ("), std::string::npos) << text;
  EXPECT_NE(text.find(", " + std::to_string(std::lround((1 - fused / now) * 100)) + " % faster)"),
            std::string::npos)
      << text;
  // It gathers nothing, and can't be run where weights are split.
  EXPECT_EQ(text.find("ZeRO 3"), std::string::npos) << text;
}

// What is computed again must fit, too.
TEST(ModelReport, WhatABackwardHoldsCounts) {
  const std::string full = small + " --recompute full --micro-batch-size 8";
  const Json json = json_of(full);
  std::int64_t most = 0;
  for (const Json& rank : json["ranks"]) {
    EXPECT_GT(rank["memory_bytes"]["workspace"], 0);
    most = std::max(most, sum_of(rank["memory_bytes"]));
  }
  EXPECT_EQ(json["peak_memory_bytes"], most);
  EXPECT_EQ(json_of(full + " --memory-cap " + std::to_string(most) + "B")["fits"], true);
  EXPECT_EQ(json_of(full + " --memory-cap " + std::to_string(most - 1) + "B")["fits"], false);
}

TEST(ModelReport, FitsTheTerminal) {
  std::vector<std::string> lines{
      large + " --explain --recompute selective",
      small + " --explain --layout 5,4,1,4 --memory-cap 2GiB",
      "--schedule zb-h2 --stages 40 --microbatches 80 --model gpt3-175b --cluster dgx-a100 "
      "--tensor-parallel 8 --explain",
      "--schedule interleaved --stages 12 --microbatches 24 --model gpt3-175b --cluster "
      "dgx-a100 --tensor-parallel 4 --p2p fifo --explain",
      "schedules --compare --stages 4 --microbatches 8,16 --model gpt2-small --cluster dgx-a100",
      "models",
      "clusters",
      "devices"};
  for (const char* columns : {"80", "200"}) {
    for (const std::string& line : lines) {
      std::istringstream in(output_of(line, {std::string("COLUMNS=") + columns}));
      for (std::string text; std::getline(in, text);) {
        EXPECT_LE(text.size(), std::stoul(columns)) << line << "\n" << text;
        EXPECT_FALSE(text.ends_with(' ')) << '"' << text << '"';
      }
    }
  }
}

// The tables have the numbers of the JSON.
TEST(ModelReport, TablesShowTheSums) {
  const Json json = json_of(small + " --explain");
  std::istringstream in(output_of(small + " --explain"));
  bool in_ranks = false;
  int found = 0;
  for (std::string line; std::getline(in, line);) {
    if (line == "one iteration on each rank") in_ranks = true;
    if (!in_ranks || !(line.starts_with("busy ") || line.starts_with("iteration "))) continue;
    std::istringstream cells(line);
    std::string label;
    double ms = 0;
    double percent = 0;
    ASSERT_TRUE(cells >> label >> ms >> percent) << line;
    const std::int64_t want = label == "busy" ? json["ranks"][0]["busy_ns"] : json["makespan_ns"];
    EXPECT_NEAR(ms, static_cast<double>(want) / 1e6, 0.0006);
    EXPECT_NEAR(percent, 100 * static_cast<double>(want) / json["makespan_ns"].get<double>(), 0.06);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(ModelReport, IsTheSameToTheByte) {
  for (const char* mode : {" --explain", " --explain --json"}) {
    EXPECT_EQ(output_of(large + mode), output_of(large + mode));
  }
}

// Software that lists its kernels: each with its time, which sum to the layer's.
TEST(Explain, ListsKernels) {
  for (const char* cluster : {"dgx-h100", "mi300x-node"}) {
    const std::string line =
        "--schedule 1f1b --stages 2 --microbatches 4 --model llama-3-8b "
        "--sequence-length 4096 --software pytorch --explain --cluster ";
    const Json layers = json_of(line + cluster)["explanation"]["layers"];
    for (const Json& layer : layers) {
      std::int64_t forward_ns = 0, backward_ns = 0, uses_ns = 0;
      for (const Json& kernel : layer["kernels"]) {
        (kernel["pass"] == "forward" ? forward_ns : backward_ns) +=
            kernel["time_ns"].get<std::int64_t>();
        EXPECT_GT(kernel["time_ns"], 0);
        EXPECT_GT(kernel["launches"], 0);
      }
      for (const auto& [use, ns] : layer["forward_ns"].items()) uses_ns += ns.get<std::int64_t>();
      EXPECT_NEAR(static_cast<double>(forward_ns), static_cast<double>(uses_ns), 20);
      for (const auto& [use, ns] : layer["backward_ns"].items()) uses_ns += ns.get<std::int64_t>();
      EXPECT_NEAR(static_cast<double>(forward_ns + backward_ns), static_cast<double>(uses_ns), 40);
    }
    EXPECT_EQ(layers.size(), 3);
    const std::string printed = output_of(line + cluster, {"COLUMNS=80"});
    std::istringstream lines(printed);
    for (std::string one; std::getline(lines, one);) EXPECT_LE(one.size(), 80) << one;
    const std::string text = unwrapped(printed);
    EXPECT_NE(text.find("at the rates by kernel of h100-sxm-80gb"), std::string::npos);
    const bool is_scaled = text.find("scaled by the peaks") != std::string::npos;
    EXPECT_EQ(is_scaled, std::string(cluster) == "mi300x-node");
  }
  const std::string partly = unwrapped(
      output_of("--schedule 1f1b --stages 2 --microbatches 4 --model llama-3-8b --cluster dgx-b200 "
                "--explain"));
  EXPECT_NE(partly.find("of b200, and where it has none of h100-sxm-80gb, scaled by the peaks"),
            std::string::npos);
  EXPECT_FALSE(
      json_of(testing::small + " --explain")["explanation"]["layers"][1].contains("kernels"));
}

}  // namespace
}  // namespace pipesim
