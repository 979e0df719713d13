// `pipesim models|clusters|software|devices [NAME]`: lists presets, and prints them as files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/model.h"
#include "sim/cost/model_presets.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

using Row = std::vector<std::string>;

// The first `names` columns to the left, the others to the right.
std::string table(const std::vector<Row>& rows, std::size_t names) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += "  ";
      out += i < names ? fmt::format("{:<{}}", row[i], widths[i])
                       : fmt::format("{:>{}}", row[i], widths[i]);
    }
    out += '\n';
  }
  return out;
}

std::string short_count(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e12) return fmt::format("{:.2f} T", number / 1e12);
  if (number >= 1e9) return fmt::format("{:.1f} B", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.1f} M", number / 1e6);
  return format_count(count);
}

std::string or_dash(bool has, std::int64_t value) { return has ? std::to_string(value) : "-"; }

// The models of pipesim feed.
std::string recommendation_table() {
  std::vector<Row> rows{
      {"for feed", "tables", "rows", "width", "bytes", "ids per sample", "dense"}};
  for (const RecommendationModel& model : known_recommendation_models()) {
    std::int64_t table_rows = 0, bytes = 0, ids = 0;
    for (const EmbeddingTable& one : model.tables) {
      table_rows += one.rows;
      bytes += one.bytes();
      ids += one.ids_per_sample;
    }
    rows.push_back({model.name, std::to_string(model.tables.size()), short_count(table_rows),
                    std::to_string(model.width()), format_bytes(bytes), format_count(ids),
                    short_count(model.bottom_parameters() + model.top_parameters())});
  }
  return table(rows, 1);
}

std::int64_t listed_width(const Model& model) {
  return model.blocks_with_experts() < model.blocks ? model.mlp_size : model.expert_size;
}

// "256+1": routed experts, and as many as the shared ones are wide.
std::string listed_experts(const Model& model) {
  if (!model.has_experts()) return "-";
  if (model.shared_size == 0) return std::to_string(model.experts);
  return fmt::format("{}+{}", model.experts,
                     (model.shared_size + model.expert_size - 1) / model.expert_size);
}

void list_models() {
  std::vector<Row> rows{
      {"model", "size", "blocks", "hidden", "heads", "kv", "mlp", "experts", "context"}};
  for (const Model& model : known_models()) {
    const bool is_decoder = model.is_decoder();
    const bool has_blocks = !model.is_listed();
    rows.push_back({model.name, short_count(model.parameters()), or_dash(has_blocks, model.blocks),
                    or_dash(has_blocks, model.hidden_size), or_dash(is_decoder, model.heads),
                    model.latent ? "mla" : or_dash(is_decoder, model.kv_heads),
                    or_dash(is_decoder, listed_width(model)), listed_experts(model),
                    or_dash(has_blocks, model.max_sequence_length)});
  }
  print(
      table(rows, 1) + "\n" + recommendation_table() +
      wrap(
          "\nSize: parameters. Kv: heads of keys and values; mla if all heads share a latent. Mlp: "
          "the width of a dense one, or else of an expert. Experts: routed ones, and as many as "
          "the shared ones are wide. Context: the default of --sequence-length. `pipesim models "
          "NAME` prints one as a file for --model; traces/FORMAT.md says what its keys mean.\n",
          standard_output().width));
}

// Numbers in the units below the heading.
std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (std::int64_t{1} << 30));
}

std::string gigabytes(std::int64_t bytes_per_second) {
  return fmt::format("{:g}", static_cast<double>(bytes_per_second) / 1e9);
}

std::string teraflops(const DeviceSpec& device, Precision precision) {
  const auto& peak = device.flops_per_second[static_cast<std::size_t>(precision)];
  return peak ? fmt::format("{:g}", *peak / 1e12) : "-";
}

std::string devices_of_node(const Cluster& cluster) {
  return cluster.whole_node ? fmt::format("{} of {}", cluster.devices_per_node, *cluster.whole_node)
                            : std::to_string(cluster.devices_per_node);
}

void list_clusters() {
  std::vector<Row> rows{{"cluster", "device", "per node", "memory", "bf16", "links", "cards"},
                        {"", "", "", "GiB", "TFLOP/s", "GB/s", "GB/s"}};
  for (const std::string& name : known_clusters()) {
    const Cluster cluster = find_cluster(name);
    const auto& within = cluster.node.collectives;
    const Network& network = cluster.network;
    rows.push_back(
        {name, cluster.device.name, devices_of_node(cluster),
         gibibytes(cluster.device.memory_bytes), teraflops(cluster.device, Precision::bf16),
         within.empty() ? "-" : gigabytes(within.back().bytes_per_second),
         network.cards_per_node == 0 ? "-"
                                     : fmt::format("{} x {}", network.cards_per_node,
                                                   gigabytes(network.card_bytes_per_second))});
  }
  print(table(rows, 2) +
        wrap("\nDevices per node, and of a rack those that a job gets; memory and peak of a "
             "device; the rate an all-reduce over a node "
             "reaches; network cards per node. `pipesim clusters NAME` prints one as a file for "
             "--cluster, with the source of every number; `pipesim devices NAME` its device.\n",
             standard_output().width));
}

void list_devices() {
  std::vector<Row> rows{{"device", "memory", "rate", "bf16", "fp16", "tf32", "fp32", "fp8"},
                        {"", "GiB", "GB/s", "TFLOP/s", "TFLOP/s", "TFLOP/s", "TFLOP/s", "TFLOP/s"}};
  for (const std::string& name : known_devices()) {
    const DeviceSpec device = find_device(name);
    Row row{name, gibibytes(device.memory_bytes), gigabytes(device.memory_bytes_per_second)};
    for (const Precision precision :
         {Precision::bf16, Precision::fp16, Precision::tf32, Precision::fp32, Precision::fp8}) {
      row.push_back(teraflops(device, precision));
    }
    rows.push_back(std::move(row));
  }
  print(table(rows, 1) +
        wrap("\nMemory and its rate; the peak of each precision, dense. `pipesim devices NAME` "
             "prints one as a file, with the source of every number, for the key `device` of a "
             "cluster's file.\n",
             standard_output().width));
}

void list_software() {
  // Devices that are not listed have the common values.
  std::vector<Row> rows{{"software", ""}};
  for (const std::string& name : known_software()) {
    rows.push_back({name, find_software(name, "").title});
  }
  print(
      table(rows, 2) +
      wrap("\nTrainers that --software takes instead of a device's usual one. `pipesim software "
           "NAME` prints one as a file, with the source of every number; `base` in a file of your "
           "own changes one.\n",
           standard_output().width));
}

void print_model(const std::string& name) {
  for (const ModelPreset& preset : model_presets()) {
    if (preset.name == name) return print(preset.text);
  }
  for (const std::string& known : model_names()) {
    if (known == name) return print(to_json(find_model(name), 2) + "\n");
  }
  if (const auto model = find_recommendation_model(name)) {
    print(to_json(*model, 2) + "\n");
    return;
  }
  constexpr std::size_t most = 5;
  std::vector<std::string> names = nearest_first(name, all_model_names());
  names.resize(most);
  throw input_error(unknown_name("model", name, names) + "; `pipesim models` lists all");
}

// Prints a preset's file verbatim.
void print_preset(std::string_view what, const std::string& name,
                  const std::vector<std::string>& known,
                  std::string_view (*text)(const std::string&)) {
  if (std::ranges::find(known, name) == known.end()) {
    throw input_error(unknown_name(what, name, known));
  }
  print(text(name));
}

}  // namespace

void add_presets(CommandLine& program) {
  const auto add = [&](const std::string& name, const std::string& help, FlagHelp::Names names,
                       auto list, auto show) {
    program.add_command(name, help, [names, list, show](CommandLine& command) {
      auto given = std::make_shared<Flag>();
      command.add_flags("", {{"name", given.get(), "NAME", "prints this one as a file", names}});
      command.set_work([given, list, show] {
        if (*given) {
          show(**given);
        } else {
          list();
        }
      });
    });
  };
  add("models", "lists the models known by name, or prints one", all_model_names, list_models,
      print_model);
  add("clusters", "lists the clusters known by name, or prints one", known_clusters, list_clusters,
      [](const std::string& name) {
        print_preset("cluster", name, known_clusters(), cluster_preset);
      });
  add("software", "lists the software known by name, or prints one", known_software, list_software,
      [](const std::string& name) {
        print_preset("software", name, known_software(), software_preset);
      });
  add("devices", "lists the devices known by name, or prints one", known_devices, list_devices,
      [](const std::string& name) {
        print_preset("device", name, known_devices(), device_preset);
      });
}

}  // namespace pipesim::cli
