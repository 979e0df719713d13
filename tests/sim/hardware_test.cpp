// Devices and clusters: the presets and their sources, what files may say, and
// what is refused and how.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/cost/estimate/collective_times.h"
#include "sim/cost/hardware/cluster.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/words.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::replaced;

const std::string small_device =
    R"({"format":"pipesim-device","version":1,"name":"small","peak":{"bf16":"2TFLOP/s"},)"
    R"("memory":"1GiB","memory_bandwidth":"10GB/s"})";
const std::string node =
    R"("node":{"collectives":[{"ranks":2,"bandwidth":"8GB/s","latency":"5us"},)"
    R"({"ranks":4,"bandwidth":"9GB/s"}],"p2p_bandwidth":"7GB/s","p2p_latency":"3us"})";
const std::string network =
    R"("network":{"cards_per_node":4,"card_bandwidth":"200Gbit/s","rail_aligned":true})";

// Of small devices, four a node.
std::string cluster_of(const std::string& rest) {
  return R"({"format":"pipesim-cluster","version":1,"name":"four","device":)" + small_device +
         R"(,"devices_per_node":4)" + (rest.empty() ? "" : ",") + rest + "}";
}

// The small device with `from` replaced, and what is wrong with that.
std::string device_error(const std::string& from, const std::string& to) {
  const std::string text = replaced(small_device, from, to);
  return testing::input_error_of([&] { parse_device(text, "d.json"); });
}
// The small device with a section more.
std::string device_error(const std::string& section) {
  return device_error(R"("memory_bandwidth":"10GB/s")",
                      R"("memory_bandwidth":"10GB/s",)" + section);
}
// So many nodes, of which a job gets so many devices.
Cluster part_of(int nodes, int partition) {
  return parse_cluster(cluster_of(fmt::format(R"({},{},"nodes":{},"partition":{})", node, network,
                                              nodes, partition)),
                       "c.json");
}
std::string cluster_error(const std::string& rest) {
  return testing::input_error_of([&] { parse_cluster(cluster_of(rest), "c.json"); });
}

// An error that lists presets, up to the first of them.
std::string nearest(const std::string& error) {
  return error.substr(0, error.find(", ", error.find("first: ")));
}

// The presets of one kind, as the library lists them and as files.
struct Presets {
  const char* folder;
  std::vector<std::string> (*known)();
  std::string_view (*text)(const std::string& name);
};
const std::vector<Presets> kinds{{"devices", known_devices, device_preset},
                                 {"clusters", known_clusters, cluster_preset},
                                 {"software", known_software, software_preset}};

std::string file_of(const Presets& kind, const std::string& name) {
  return testing::source_file("sim/cost/hardware/" + std::string(kind.folder) + "/" + name +
                              ".json");
}

TEST(Presets, AreTheFilesOfTheFolders) {
  for (const Presets& kind : kinds) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(file_of(kind, "any")).parent_path())) {
      EXPECT_EQ(entry.path().extension(), ".json");
      files.push_back(entry.path().stem().string());
    }
    std::ranges::sort(files);
    EXPECT_EQ(kind.known(), files);
    EXPECT_GE(files.size(), 9U);
    for (const std::string& name : files) {
      EXPECT_EQ(kind.text(name), read_file(file_of(kind, name))) << name;
      EXPECT_EQ(nlohmann::json::parse(kind.text(name))["name"], name);
    }
  }
}

TEST(Presets, SayWhatADeviceIs) {
  std::set<std::string> titles;
  for (const std::string& name : known_devices()) {
    SCOPED_TRACE(name);
    const DeviceSpec device = find_device(name);
    EXPECT_EQ(device.name, name);
    EXPECT_NE(device.title, name);
    EXPECT_TRUE(titles.insert(device.title).second) << device.title;
    const auto rate = [&](Precision precision) {
      return device.flops_per_second[static_cast<std::size_t>(precision)];
    };
    ASSERT_TRUE(rate(Precision::fp32));
    for (const Precision faster :
         {Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8}) {
      if (rate(faster)) {
        EXPECT_GE(*rate(faster), *rate(Precision::fp32)) << precision_name(faster);
      }
    }
    EXPECT_GT(device.memory_bytes, std::int64_t{1} << 34);
    EXPECT_GT(device.memory_bytes_per_second, 50'000'000'000);
    EXPECT_GE(device.multiprocessors, 8);
    EXPECT_LT(device.matmul.peak_share, 1);
    EXPECT_LT(device.memory_share, 1);
  }
}

TEST(Presets, SayWhatAClusterIs) {
  std::set<std::string> titles;
  for (const std::string& name : known_clusters()) {
    SCOPED_TRACE(name);
    const Cluster cluster = find_cluster(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_TRUE(titles.insert(cluster.title).second) << cluster.title;
    if (cluster.device.name == cluster.device.kind) {
      EXPECT_EQ(cluster.device.title, find_device(cluster.device.name).title);
    }
    EXPECT_EQ(cluster.devices_per_node > 1, !cluster.node.collectives.empty());
    EXPECT_EQ(cluster.network.cards_per_node == 0, cluster.nodes == 1);
    for (const BusRate& rate : cluster.node.collectives) {
      // No collective within a node is slower than one card to another node.
      EXPECT_GT(static_cast<double>(rate.bytes_per_second),
                static_cast<double>(cluster.network.card_bytes_per_second) * cluster.network.share);
      EXPECT_GT(rate.latency_ns, 0);
      // Switches that sum help all-reduces alone.
      EXPECT_LE(rate.gather_bytes_per_second.value_or(0), rate.bytes_per_second);
      EXPECT_GT(static_cast<double>(rate.gather_bytes_per_second.value_or(rate.bytes_per_second)),
                static_cast<double>(cluster.network.card_bytes_per_second) * cluster.network.share);
    }
  }
}

// Every number, quantity and answer stands in an object of `value` and
// `source`, by itself or in a list that does.
void expect_sources(const nlohmann::json& json, const std::string& path, bool sourced) {
  static const std::set<std::string> texts{
      "/format", "/version",     "/name",         "/title",         "/device",
      "/base",   "/device/name", "/device/title", "/software/base", "/kernels/base"};
  if (json.is_object() && json.contains("value")) {
    ASSERT_TRUE(json.contains("source")) << path;
    EXPECT_GT(json["source"].get<std::string>().size(), 5U) << path;
    expect_sources(json["value"], path, true);
  } else if (json.is_structured()) {
    for (const auto& [key, value] : json.items()) {
      expect_sources(value, fmt::format("{}/{}", path, key), sourced);
    }
  } else {
    EXPECT_TRUE(sourced || texts.contains(path)) << path << " has no source";
  }
}

TEST(Presets, HaveASourceForEveryNumber) {
  for (const Presets& kind : kinds) {
    for (const std::string& name : kind.known()) {
      SCOPED_TRACE(name);
      expect_sources(nlohmann::json::parse(kind.text(name)), "", false);
    }
  }
}

TEST(Presets, MarkWhatIsAssumedOrCarriedOver) {
  const auto marked = [](const auto& json, const std::vector<std::string>& words,
                         const auto& self) -> int {
    if (!json.is_structured()) return 0;
    if (json.is_object() && json.contains("source")) {
      const std::string source = json["source"];
      for (const std::string& word : words) {
        if (source.starts_with(word)) {
          EXPECT_TRUE(json.value("unverified", false)) << source;
          return 1;
        }
      }
    }
    int count = 0;
    for (const auto& part : json) count += self(part, words, self);
    return count;
  };
  for (const Presets& kind : kinds) {
    int count = 0;
    for (const std::string& name : kind.known()) {
      SCOPED_TRACE(name);
      count += marked(nlohmann::json::parse(kind.text(name)),
                      {"carried over", "inferred", "assumed", "derived"}, marked);
    }
    EXPECT_GT(count, 5);
  }
}

TEST(Presets, HaveTheFiguresOfSelene) {
  const Cluster cluster = find_cluster("dgx-a100");
  const DeviceSpec& device = cluster.device;
  EXPECT_EQ(device.name, "a100-sxm-80gb");
  EXPECT_EQ(device.flops_per_second[static_cast<std::size_t>(Precision::bf16)], 312e12);
  EXPECT_EQ(device.flops_per_second[static_cast<std::size_t>(Precision::fp8)], std::nullopt);
  EXPECT_EQ(device.memory_bytes_per_second, 2'039'000'000'000);
  EXPECT_EQ(device.multiprocessors, 108);
  EXPECT_EQ(device.matmul.ramp, 160);
  ASSERT_EQ(device.matmul.tiles.size(), 6U);
  EXPECT_EQ(device.matmul.tiles[3].rows, 128);
  EXPECT_EQ(device.matmul.tiles[3].columns, 64);
  EXPECT_EQ(device.matmul.tiles[3].efficiency, 0.79);
  EXPECT_EQ(device.software.kernel_gap_ns, 4'000);
  EXPECT_EQ(device.software.host.peer_ns, 55'000);
  EXPECT_EQ(cluster.devices_per_node, 8);
  EXPECT_EQ(cluster.nodes, std::nullopt);
  ASSERT_EQ(cluster.node.collectives.size(), 3U);
  EXPECT_EQ(cluster.node.collectives[1].ranks, 4);
  EXPECT_EQ(cluster.node.collectives[1].bytes_per_second, 222'000'000'000);
  EXPECT_EQ(cluster.node.collectives[1].latency_ns, 65'000);
  EXPECT_EQ(cluster.network.cards_per_node, 8);
  EXPECT_EQ(cluster.network.card_bytes_per_second, 25'000'000'000);
  EXPECT_TRUE(cluster.network.rail_aligned);
  EXPECT_FALSE(find_cluster("vtrain-a100").network.rail_aligned);
  for (const BusRate& rate : cluster.node.collectives) EXPECT_FALSE(rate.gather_bytes_per_second);
}

TEST(Presets, GatherAsNodesWithoutSharpReduce) {
  const Cluster cluster = find_cluster("dgx-h100");
  ASSERT_EQ(cluster.node.collectives.size(), 3U);
  EXPECT_FALSE(cluster.node.collectives[1].gather_bytes_per_second);
  EXPECT_EQ(cluster.node.collectives[2].bytes_per_second, 480'000'000'000);
  EXPECT_EQ(cluster.node.collectives[2].gather_bytes_per_second, 360'000'000'000);
}

// Of the racks of an NVL72 a job gets 16 trays of four devices and four cards.
TEST(Presets, GivePartitionsOfRacks) {
  for (const char* name : {"gb200-nvl72", "gb300-nvl72"}) {
    const Cluster cluster = find_cluster(name);
    EXPECT_EQ(cluster.devices_per_node, 64);
    EXPECT_EQ(cluster.whole_node, 72);
    EXPECT_EQ(cluster.network.cards_per_node, 64);
  }
  EXPECT_EQ(find_cluster("gb200-nvl72").network.card_bytes_per_second, 50'000'000'000);
  EXPECT_EQ(find_cluster("gb300-nvl72").network.card_bytes_per_second, 100'000'000'000);
  EXPECT_EQ(find_cluster("dgx-b300").whole_node, std::nullopt);
}

// Software has its base's values for a preset that has one; measurements are its own.
TEST(Presets, AreTheLastAndTheFirstOfTheirBases) {
  EXPECT_EQ(find_device("gb300").preset, "gb300");
  EXPECT_EQ(find_device("gb300").kind, "b200");
  EXPECT_EQ(find_cluster("hgx-h20").device.preset, "h20");
  const DeviceSpec changed = find_cluster("grand-teton-h100").device;
  EXPECT_EQ(changed.preset, "h100-sxm-80gb");
  EXPECT_EQ(changed.name, "h100-hbm2e-96gb");
  EXPECT_EQ(parse_device(small_device, "d.json").preset, "small");
}

TEST(Hardware, WhatADeviceDoesNotSayIsIdeal) {
  const DeviceSpec device = parse_device(small_device, "d.json");
  EXPECT_EQ(device.title, "small");
  EXPECT_EQ(device.flops_per_second[static_cast<std::size_t>(Precision::bf16)], 2e12);
  EXPECT_EQ(device.flops_per_second[static_cast<std::size_t>(Precision::fp32)], std::nullopt);
  EXPECT_EQ(device.memory_bytes, 1 << 30);
  EXPECT_EQ(device.matmul.peak_share, 1);
  EXPECT_EQ(device.matmul.tiles.size(), 1U);
  EXPECT_EQ(device.software.kernel_gap_ns, 0);
  EXPECT_EQ(device.host_bytes_per_second, 25'000'000'000);
  EXPECT_EQ(device.host_latency_ns, 0);
  EXPECT_EQ(device.unverified, std::vector<std::string>{});
}

TEST(Hardware, ReadsCopiesFromTheHost) {
  const DeviceSpec device =
      parse_device(replaced(small_device, R"("memory":"1GiB")",
                            R"("memory":"1GiB","host_latency":"7us","host_bandwidth":)"
                            R"({"value":"12GB/s","source":"a guess","unverified":true})"),
                   "d.json");
  EXPECT_EQ(device.host_bytes_per_second, 12'000'000'000);
  EXPECT_EQ(device.host_latency_ns, 7'000);
  EXPECT_EQ(device.unverified, std::vector<std::string>{"host_bandwidth"});
}

TEST(Hardware, ReadsEverySection) {
  const std::string text = replaced(
      small_device, R"("memory":"1GiB")",
      R"("memory":"80GB","multiprocessors":{"value":3},"title":"Small",)"
      R"("matmul":{"peak_share":0.5,"ramp":7,"whole_waves":0.25,"accumulation":1.5,)"
      R"("tiles":[{"rows":16,"columns":8,"efficiency":1}]},)"
      R"("reached":{"memory_share":0.75,"attention_traffic":0.5,"fused_attention_share":1},)"
      R"("software":{"kernel_gap":"1.5us","host_forward":"1ms","host_backward":"2ms",)"
      R"("host_peer":"3ns","p2p_overhead":"0","hidden_reduction":0,"compute_slowdown":0.125})");
  const DeviceSpec device = parse_device(text, "d.json");
  EXPECT_EQ(device.title, "Small");
  EXPECT_EQ(device.memory_bytes, 80'000'000'000);
  EXPECT_EQ(device.multiprocessors, 3);
  EXPECT_EQ(device.matmul.peak_share, 0.5);
  EXPECT_EQ(device.matmul.ramp, 7);
  EXPECT_EQ(device.matmul.whole_waves, 0.25);
  EXPECT_EQ(device.matmul.accumulation, 1.5);
  ASSERT_EQ(device.matmul.tiles.size(), 1U);
  EXPECT_EQ(device.matmul.tiles[0].rows, 16);
  EXPECT_EQ(device.memory_share, 0.75);
  EXPECT_EQ(device.attention_traffic, 0.5);
  EXPECT_EQ(device.fused_attention_share, 1);
  EXPECT_EQ(device.software.kernel_gap_ns, 1500);
  EXPECT_EQ(device.software.host.forward_ns, 1'000'000);
  EXPECT_EQ(device.software.host.backward_ns, 2'000'000);
  EXPECT_EQ(device.software.host.peer_ns, 3);
  EXPECT_EQ(device.software.p2p_overhead_ns, 0);
  EXPECT_EQ(device.software.hidden_reduction, 0);
  EXPECT_EQ(device.software.compute_slowdown_ppm, 125'000);
}

TEST(Hardware, RatesHaveUnits) {
  const auto rate = [](const char* text) { return parse_flops_per_second(text, "peak"); };
  EXPECT_EQ(rate("312TFLOP/s"), 312'000'000'000'000);
  EXPECT_EQ(rate("19.5TFLOP/s"), 19'500'000'000'000);
  EXPECT_EQ(rate("2PFLOP/s"), rate("2000 TFLOP/s"));
  EXPECT_EQ(rate("1GFLOP/s"), rate("1000000000FLOP/s"));
  const auto error = [&](const char* text) { return testing::input_error_of([&] { rate(text); }); };
  EXPECT_EQ(error("312"),
            "peak: '312' has no unit; write one of FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, such as "
            "312TFLOP/s");
  EXPECT_EQ(error("312TFLOPS"),
            "peak: unknown unit 'TFLOPS' in '312TFLOPS'; known: FLOP/s, GFLOP/s, TFLOP/s, "
            "PFLOP/s");
  EXPECT_EQ(error("0"), "peak: a device of 0 FLOP/s computes nothing");
  EXPECT_EQ(error("1001PFLOP/s"),
            "peak: '1001PFLOP/s' is too large; the limit is 1000000000000000000FLOP/s");
}

TEST(Hardware, PrecisionsHaveNames) {
  const std::vector<std::pair<Precision, std::string>> names{{Precision::fp32, "fp32"},
                                                             {Precision::tf32, "tf32"},
                                                             {Precision::fp16, "fp16"},
                                                             {Precision::bf16, "bf16"},
                                                             {Precision::fp8, "fp8"}};
  ASSERT_EQ(names.size(), static_cast<std::size_t>(precision_count));
  for (const auto& [precision, name] : names) {
    EXPECT_EQ(precision_name(precision), name);
    EXPECT_EQ(parse_precision(name, "x"), precision);
  }
  EXPECT_EQ(testing::input_error_of([] { parse_precision("bfloat16", "--precision"); }),
            "--precision: unknown precision 'bfloat16'; known, nearest first: bf16, fp16, fp32, "
            "tf32, fp8");
}

TEST(Hardware, ReadsTheExamplesOfTheFormat) {
  using testing::format_example;
  const DeviceSpec device = parse_device(format_example("Devices: `pipesim-device`"), "FORMAT.md");
  EXPECT_EQ(device.matmul.whole_waves, 0.49);
  EXPECT_EQ(device.unverified, std::vector<std::string>{});
  EXPECT_EQ(device.software.unverified, std::vector<std::string>{"kernel_gap"});
  const SoftwareSpec software =
      parse_software(format_example("Software: `pipesim-software`"), "FORMAT.md", "h100-sxm-80gb");
  EXPECT_EQ(software.efficiency, 0.9);
  EXPECT_EQ(software.host.forward_ns, 200'000);
  const Cluster cluster = parse_cluster(format_example("Clusters: `pipesim-cluster`"), "FORMAT.md");
  EXPECT_EQ(cluster.nodes, 16);
  EXPECT_EQ(cluster.node.collectives.back().ranks, 8);
}

TEST(Hardware, AClusterNamesItsDeviceOrHoldsIt) {
  const Cluster held = parse_cluster(cluster_of(node + "," + network), "c.json");
  EXPECT_EQ(held.device.name, "small");
  EXPECT_EQ(held.title, "four");
  EXPECT_EQ(held.nodes, std::nullopt);
  ASSERT_EQ(held.node.collectives.size(), 2U);
  EXPECT_EQ(held.node.collectives[0].latency_ns, 5'000);
  EXPECT_EQ(held.node.collectives[1].bytes_per_second, 9'000'000'000);
  EXPECT_EQ(held.node.collectives[1].latency_ns, 0);
  EXPECT_EQ(held.node.p2p_bytes_per_second, 7'000'000'000);
  EXPECT_EQ(held.node.p2p_latency_ns, 3'000);
  EXPECT_EQ(held.network.cards_per_node, 4);
  EXPECT_EQ(held.network.card_bytes_per_second, 25'000'000'000);
  EXPECT_EQ(held.network.share, 1);
  EXPECT_EQ(held.network.latency_ns, 0);
  EXPECT_EQ(held.network.oversubscription, 1);

  // A file's name counts from the folder of the cluster's.
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "parts");
  write_file(folder / "parts/d.json", small_device);
  const std::string named = R"({"format":"pipesim-cluster","version":1,"name":"one",)"
                            R"("device":"parts/d.json","devices_per_node":1})";
  write_file(folder / "c.json", named);
  const Cluster read = find_cluster(folder / "c.json");
  EXPECT_EQ(read.device.name, "small");
  EXPECT_EQ(read.nodes, 1);
  EXPECT_EQ(find_device(folder / "parts/d.json").memory_bytes, 1 << 30);
}

TEST(Hardware, GathersMayHaveARateOfTheirOwn) {
  const auto with = [](const std::string& gather) {
    return replaced(node, R"("9GB/s")", R"("9GB/s","gather_bandwidth":)" + gather);
  };
  const Cluster cluster = parse_cluster(cluster_of(with(R"("6GB/s")")), "c.json");
  EXPECT_EQ(cluster.node.collectives[0].gather_bytes_per_second, std::nullopt);
  EXPECT_EQ(cluster.node.collectives[1].bytes_per_second, 9'000'000'000);
  EXPECT_EQ(cluster.node.collectives[1].gather_bytes_per_second, 6'000'000'000);
  const Cluster doubtful =
      parse_cluster(cluster_of(with(R"({"value":"6GB/s","unverified":true})")), "c.json");
  EXPECT_EQ(doubtful.unverified, std::vector<std::string>{"node.collectives[1].gather_bandwidth"});
  EXPECT_EQ(cluster_error(with("6")),
            "c.json:1:332: node.collectives[1].gather_bandwidth: 6 has no unit; write \"6GB/s\"");
  EXPECT_EQ(cluster_error(with(R"("0B/s")")),
            "c.json:1:332: node.collectives[1].gather_bandwidth: '0B/s' moves nothing; give what "
            "is reached");
}

// A job with half of each node is one on nodes of half the size.
TEST(Hardware, PartitionsAreNodesOfTheirOwn) {
  const auto on = [](const std::string& links, const std::string& wide) {
    return parse_cluster(cluster_of(links + "," + wide), "c.json");
  };
  const auto with_rate = [](const std::string& wide, const std::string& rate) {
    return replaced(wide, R"(,"rail_aligned")",
                    R"(,"collectives":[{"nodes":2,"bandwidth":")" + rate + R"("}],"rail_aligned")");
  };
  const std::string half_network = replaced(network, R"(node":4)", R"(node":2)");
  for (const bool is_measured : {false, true}) {
    const Cluster part =
        on(node, (is_measured ? with_rate(network, "12GB/s") : network) + R"(,"partition":2)");
    Cluster small = on(replaced(node, R"(,{"ranks":4,"bandwidth":"9GB/s"})", ""),
                       is_measured ? with_rate(half_network, "6GB/s") : half_network);
    small.devices_per_node = 2;
    EXPECT_EQ(part.devices_per_node, 2);
    EXPECT_EQ(part.whole_node, 4);
    EXPECT_EQ(part.network.cards_per_node, 2);
    for (const RankGroup& devices : {RankGroup{0, 1, 2}, {1, 1, 2}, {0, 2, 2}, {0, 1, 8}}) {
      for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather}) {
        const Exchange one = exchange(part, {devices, 1}, kind, 1e9);
        const Exchange other = exchange(small, {devices, 1}, kind, 1e9);
        EXPECT_EQ(one.leaves_node, other.leaves_node);
        EXPECT_EQ(one.bytes, other.bytes);
        EXPECT_DOUBLE_EQ(one.bytes_per_second, other.bytes_per_second);
        EXPECT_EQ(one.latency_seconds, other.latency_seconds);
      }
    }
  }
  const Cluster all =
      parse_cluster(cluster_of(node + "," + network + R"(,"partition":4)"), "c.json");
  EXPECT_EQ(all.devices_per_node, 4);
  EXPECT_EQ(all.whole_node, std::nullopt);
  const Cluster alone = parse_cluster(cluster_of(node + R"(,"partition":1)"), "c.json");
  EXPECT_EQ(alone.devices_per_node, 1);
  EXPECT_EQ(testing::input_error_of([&] { require_devices(part_of(2, 2), 5, "5 ranks"); }),
            "5 ranks, but four has 2 nodes of 2; use fewer, or a larger cluster");
}

TEST(Hardware, PartitionsChangeThoseOfABase) {
  const auto based = [](const std::string& rest) {
    return R"({"format":"pipesim-cluster","version":1,"base":"gb200-nvl72")" + rest + "}";
  };
  const Cluster base = find_cluster("gb200-nvl72");
  for (const auto& [rest, devices] : {std::pair("", 64),
                                      {R"(,"partition":32)", 32},
                                      {R"(,"partition":72)", 72},
                                      {R"(,"partition":1)", 1},
                                      {R"(,"partition":{"value":9,"source":"ours"})", 9}}) {
    const Cluster cluster = parse_cluster(based(rest), "c.json");
    EXPECT_EQ(cluster.name, "gb200-nvl72");
    EXPECT_EQ(cluster.title, "NVIDIA GB200 NVL72, changed");
    EXPECT_EQ(cluster.devices_per_node, devices);
    EXPECT_EQ(cluster.network.cards_per_node, devices);
    EXPECT_EQ(cluster.whole_node, devices == 72 ? std::nullopt : std::optional(72));
    EXPECT_EQ(cluster.unverified, base.unverified);
  }
  // What the file says of a node is of the whole.
  const Cluster paired =
      parse_cluster(based(R"(,"network":{"cards_per_node":36},"partition":32)"), "c.json");
  EXPECT_EQ(paired.network.cards_per_node, 16);
  const auto error = [&](const std::string& rest) {
    return testing::input_error_of([&] { parse_cluster(based(rest), "c.json"); });
  };
  EXPECT_EQ(error(R"(,"partition":73)"),
            "c.json:1:74: partition: 73 is out of range: it must lie between 1 and 72");
  EXPECT_EQ(error(R"(,"partition":0)"),
            "c.json:1:74: partition: 0 is out of range: it must lie between 1 and 72");
  EXPECT_EQ(error(R"(,"partition":"half")"), "c.json:1:74: partition: must be a number");
  EXPECT_EQ(error(R"(,"devices_per_node":36)"),
            "c.json:1:1: key 'partition' is missing: the base's 64 are more than the 36 devices of "
            "a node; give at most 36");
  EXPECT_EQ(error(R"(,"partition":9,"network":{"cards_per_node":4})"),
            "c.json:1:74: partition: 9 of a node's 72 devices have no whole number of its 4 cards; "
            "give a partition that has");
}

TEST(Hardware, ASingleNodeNeedsNoNetwork) {
  EXPECT_EQ(parse_cluster(cluster_of(node), "c.json").nodes, 1);
  EXPECT_EQ(parse_cluster(cluster_of(node + R"(,"nodes":1)"), "c.json").network.cards_per_node, 0);
  EXPECT_EQ(parse_cluster(cluster_of(node + "," + network + R"(,"nodes":16)"), "c.json").nodes, 16);
}

// Neighbours may share a card and still keep to it.
TEST(Hardware, RailsMayBeShared) {
  for (const std::string cards : {":1", ":2", ":4", ":5", ":8"}) {
    const Cluster cluster =
        parse_cluster(cluster_of(node + "," + replaced(network, ":4", cards)), "c.json");
    EXPECT_TRUE(cluster.network.rail_aligned) << cards;
  }
}

TEST(Hardware, CollectsWhatIsUnverified) {
  const std::string doubtful = R"({"value":0.5,"source":"a guess","unverified":true})";
  const std::string text =
      replaced(replaced(cluster_of(node + "," + network), R"("memory":"1GiB")",
                        R"("memory":{"value":"1GiB","unverified":false},"matmul":{"peak_share":)" +
                            doubtful + R"(,"tiles":{"value":[{"rows":8,"columns":8,"efficiency":)" +
                            doubtful + R"(}],"unverified":true}})"),
               R"("rail_aligned":true)",
               R"("rail_aligned":{"value":true,"unverified":true},"share":)" + doubtful);
  const Cluster cluster = parse_cluster(text, "c.json");
  EXPECT_EQ(cluster.device.unverified,
            (std::vector<std::string>{"matmul.peak_share", "matmul.tiles",
                                      "matmul.tiles[0].efficiency"}));
  EXPECT_EQ(cluster.unverified,
            (std::vector<std::string>{"network.share", "network.rail_aligned"}));
  EXPECT_EQ(cluster.network.share, 0.5);
}

// Also those of single entries of a list.
TEST(Hardware, AListReplacesWhatIsUnverifiedInABase) {
  const Cluster cluster = parse_cluster(
      R"({"format":"pipesim-cluster","version":1,"base":"dgx-h100","node":{"collectives":)"
      R"({"value":[{"ranks":2,"bandwidth":"1GB/s"}],"unverified":true}}})",
      "c.json");
  EXPECT_EQ(cluster.unverified, (std::vector<std::string>{"network.share", "node.collectives"}));
}

TEST(Hardware, SaysWhatIsWrongWithADevice) {
  EXPECT_EQ(device_error(R"("1GiB")", "80"),
            "d.json:1:91: memory: 80 has no unit; write \"80GiB\"");
  EXPECT_EQ(device_error(R"("10GB/s")", "2039.5"),
            "d.json:1:117: memory_bandwidth: 2039.5 has no unit; write \"2039.5GB/s\"");
  EXPECT_EQ(device_error(R"("2TFLOP/s")", R"({"value":312,"source":"x"})"),
            "d.json:1:79: peak.bf16: 312 has no unit; write \"312TFLOP/s\"");
  EXPECT_EQ(device_error(R"("1GiB")", R"("80Gigs")"),
            "d.json:1:91: memory: unknown unit 'Gigs' in '80Gigs'; known: B, kB, KB, MB, GB, TB, "
            "KiB, MiB, GiB, TiB");
  EXPECT_EQ(device_error(R"("1GiB")", R"("0")"),
            "d.json:1:91: memory: 0 bytes hold nothing; give the size");
  EXPECT_EQ(device_error(R"("1GiB")", "true"), "d.json:1:91: memory: must be a string");
  EXPECT_EQ(device_error(R"("1GiB")", R"({"source":"x"})"),
            "d.json:1:91: memory: key 'value' is missing");
  EXPECT_EQ(
      device_error(R"("1GiB")", R"({"value":"1GiB","sauce":"x"})"),
      "d.json:1:115: memory: unknown key 'sauce'; known, nearest first: source, value, unverified");
  EXPECT_EQ(device_error(R"("1GiB")", R"({"value":"1GiB","source":" "})"),
            "d.json:1:116: memory.source: is empty; say where the value is from");
  EXPECT_EQ(device_error(R"({"bf16":"2TFLOP/s"})", "{}"),
            "d.json:1:62: peak: is empty; give one or more of fp32, tf32, fp16, bf16, fp8");
  EXPECT_EQ(device_error(R"("bf16")", R"("bfloat16")"),
            "d.json:1:74: peak: unknown key 'bfloat16'; known, nearest first: bf16, fp16, fp32, "
            "fp8, tf32");
  EXPECT_EQ(device_error(R"("name":"small",)", ""), "d.json:1:1: key 'name' is missing");
  EXPECT_EQ(device_error(R"("version":1)", R"("version":2)"),
            "d.json:1:38: version: this program reads version 1");
  EXPECT_EQ(device_error("pipesim-device", "pipesim-cluster"),
            "d.json:1:11: format: 'pipesim-cluster' is not 'pipesim-device'");
  EXPECT_EQ(device_error(R"("matmul":{"peak_share":1.5})"),
            "d.json:1:149: matmul.peak_share: 1.5 is out of range: it must be a share of more than "
            "0 and at most 1");
  EXPECT_EQ(device_error(R"("matmul":{"peak_share":0})"),
            "d.json:1:149: matmul.peak_share: 0 is out of range: it must be a share of more than 0 "
            "and at most 1");
  EXPECT_EQ(device_error(R"("matmul":{"whole_waves":-0.5})"),
            "d.json:1:150: matmul.whole_waves: -0.5 is out of range: it must be between 0 and 1");
  EXPECT_EQ(device_error(R"("matmul":{"accumulation":0.5})"),
            "d.json:1:151: matmul.accumulation: 0.5 is out of range: it must be a factor between 1 "
            "and 100");
  EXPECT_EQ(device_error(R"("matmul":{"tiles":[]})"),
            "d.json:1:144: matmul.tiles: an empty list; omit it where any shape fits");
  EXPECT_EQ(
      device_error(R"("matmul":{"tiles":[{"rows":0,"columns":8,"efficiency":1}]})"),
      "d.json:1:153: matmul.tiles[0].rows: 0 is out of range: it must lie between 1 and 1048576");
  EXPECT_EQ(device_error(R"("matmul":{"tiles":[{"rows":8,"columns":8,"efficiency":1},)"
                         R"({"rows":8,"columns":8,"efficiency":0.5}]})"),
            "d.json:1:183: matmul.tiles[1]: tile 8x8 is given twice; keep one");
  EXPECT_EQ(device_error(R"("software":{"kernel_gap":4})"),
            "d.json:1:151: software.kernel_gap: 4 has no unit; write \"4us\"");
  EXPECT_EQ(nearest(device_error(R"("software":{"kernel_gaps":"4us"})")),
            "d.json:1:152: software: unknown key 'kernel_gaps'; known, nearest first: kernel_gap");
  EXPECT_EQ(device_error(R"("software":{"compute_slowdown":"10%"})"),
            "d.json:1:157: software.compute_slowdown: must be a number");
  EXPECT_EQ(device_error(R"("reached":{"attention_traffic":1000})"),
            "d.json:1:157: reached.attention_traffic: 1000 is out of range: it must be a factor of "
            "more than 0 and at most 100");
  EXPECT_EQ(nearest(testing::input_error_of([] { find_device("a100-sxm-80"); })),
            "unknown device 'a100-sxm-80'; known, nearest first: a100-sxm-80gb");
}

TEST(Hardware, SaysWhatIsWrongWithACluster) {
  EXPECT_EQ(cluster_error(""),
            "c.json:1:1: key 'node' is missing: say how the 4 devices of a node are linked");
  EXPECT_EQ(cluster_error(node + R"(,"nodes":2)"),
            "c.json:1:1: key 'network' is missing: say how the 2 nodes are linked");
  EXPECT_EQ(cluster_error(replaced(node, R"("ranks":2)", R"("ranks":3)")),
            "c.json:1:234: node.collectives[0]: the list begins with 3 ranks; begin with what 2 "
            "ranks reach, and list the others by ascending number of ranks");
  EXPECT_EQ(cluster_error(replaced(replaced(node, R"("ranks":2)", R"("ranks":3)"), R"("ranks":4)",
                                   R"("ranks":2)")),
            "c.json:1:234: node.collectives[0]: the list begins with 3 ranks; begin with what 2 "
            "ranks reach, and list the others by ascending number of ranks");
  EXPECT_EQ(
      cluster_error(replaced(node, R"("ranks":4)", R"("ranks":2)")),
      "c.json:1:282: node.collectives[1]: 2 ranks after 2; list them by ascending number of ranks");
  EXPECT_EQ(
      cluster_error(replaced(node, R"("ranks":4)", R"("ranks":8)")),
      "c.json:1:291: node.collectives[1].ranks: 8 is out of range: it must lie between 2 and 4");
  EXPECT_EQ(
      cluster_error(replaced(node, R"("9GB/s")", R"("0GB/s")")),
      "c.json:1:305: node.collectives[1].bandwidth: '0GB/s' moves nothing; give what is reached");
  EXPECT_EQ(
      cluster_error(replaced(node, R"("9GB/s")", R"("-9GB/s")")),
      "c.json:1:305: node.collectives[1].bandwidth: '-9GB/s' is negative; it must be 0 or more");
  for (const auto& [given, what] : {std::pair{"[]", "is empty"},
                                    {R"({"value":[]})", "is empty"},
                                    {"{}", "is not a list"},
                                    {R"({"ranks":2,"bandwidth":"8GB/s"})", "is not a list"},
                                    {R"("8GB/s")", "is not a list"},
                                    {"null", "is not a list"}}) {
    EXPECT_EQ(
        cluster_error(fmt::format(R"("node":{{"collectives":{},"p2p_bandwidth":"1GB/s"}})", given)),
        fmt::format("c.json:1:{}: node.collectives: {}; give a list of what 2 and more ranks "
                    R"(reach, such as [{{"ranks": 2, "bandwidth": "200GB/s"}}])",
                    std::string(given).starts_with(R"({"value")") ? 242 : 233, what));
  }
  EXPECT_EQ(cluster_error(R"("node":{"collectives":{"value":7},"p2p_bandwidth":"1GB/s"})"),
            "c.json:1:242: node.collectives: must be a list");
  EXPECT_EQ(cluster_error(node + "," + replaced(network, R"(:4)", ":3")),
            "c.json:1:434: network.rail_aligned: 3 cards cannot be shared evenly by 4 devices; say "
            "false, or give as many devices to each card");
  EXPECT_EQ(cluster_error(node + "," + replaced(network, R"(,"rail_aligned":true)", "")),
            "c.json:1:370: network: key 'rail_aligned' is missing");
  EXPECT_EQ(cluster_error(node + "," + replaced(network, "true", R"(true,"oversubscription":0.5)")),
            "c.json:1:458: network.oversubscription: 0.5 is out of range: it must be a factor "
            "between 1 and 100");
  EXPECT_EQ(cluster_error(node + "," + replaced(network, R"(":4)", R"(":0)")),
            "c.json:1:388: network.cards_per_node: 0 is out of range: it must lie between 1 and "
            "1000000000");
  EXPECT_EQ(cluster_error(node + R"(,"nodes":0)"),
            "c.json:1:368: nodes: 0 is out of range: it must lie between 1 and 1000000000");
  const auto with_device = [](const std::string& device) {
    const std::string text = R"({"format":"pipesim-cluster","version":1,"name":"n","device":)" +
                             device + R"(,"devices_per_node":1})";
    return testing::input_error_of([&] { parse_cluster(text, "at/c.json"); });
  };
  EXPECT_EQ(nearest(with_device(R"("b100")")),
            "at/c.json:1:61: device: unknown device 'b100'; known, nearest first: b200");
  EXPECT_EQ(with_device(R"("missing.json")"),
            "cannot read 'at/missing.json': No such file or directory");
  EXPECT_EQ(with_device("7"),
            "at/c.json:1:61: device: must be a preset's name, a file's name or an object");
  EXPECT_EQ(with_device(small_device + "," + node),
            "at/c.json:1:194: node: one device has no links; omit it");
  EXPECT_EQ(with_device(R"({"name":"d","peak":{"fp16":"1TFLOP/s"},"memory":"1GiB"})"),
            "at/c.json:1:61: device: key 'memory_bandwidth' is missing");
  EXPECT_EQ(nearest(testing::input_error_of([] { find_cluster("dgx-a10"); })),
            "--cluster: unknown cluster 'dgx-a10'; known, nearest first: dgx-a100");
  EXPECT_EQ(testing::input_error_of([] { find_cluster("./dgx"); }),
            "cannot read './dgx': No such file or directory");
}

// Whatever a byte less makes of a file, it is read or refused.
TEST(Hardware, AByteLessIsReadOrRefused) {
  const std::string device(device_preset("a100-sxm-80gb"));
  const std::string cluster = cluster_of(node + "," + network);
  int read = 0;
  int refused = 0;
  const auto without_each = [&](const std::string& text, const auto& parse) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string less = text;
      less.erase(i, 1);
      if (testing::input_error_of([&] { parse(less, "f.json"); }) == testing::no_error) {
        ++read;
      } else {
        ++refused;
      }
    }
  };
  without_each(device, parse_device);
  without_each(cluster, parse_cluster);
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace pipesim
