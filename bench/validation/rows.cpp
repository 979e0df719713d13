#include "bench/validation/rows.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::validation {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& folder, const std::string& name) {
  return Json::parse(read_file(folder + "/" + name));
}

// A number where it is one, else text.
Json cell(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  return std::string(text);
}

// One object a row, by the names of the first line.
std::vector<Json> read_csv(const std::string& folder, const std::string& name) {
  const std::string text = read_file(folder + "/" + name);
  std::vector<Json> rows;
  std::vector<std::string_view> columns;
  for (const std::string_view line : split(strip(text), '\n')) {
    const std::vector<std::string_view> cells = split(line, ',');
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    if (cells.size() != columns.size()) {
      throw input_error(fmt::format("{}/{}: a row has {} cells, the first line {}; give it as many",
                                    folder, name, cells.size(), columns.size()));
    }
    Json& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) row[std::string(columns[i])] = cell(cells[i]);
  }
  return rows;
}

// By its name, of a list.
template <typename Named>
Named by_name(const std::string& name, std::initializer_list<std::pair<const char*, Named>> known) {
  std::vector<std::string> names;
  for (const auto& [known_name, value] : known) {
    if (name == known_name) return value;
    names.emplace_back(known_name);
  }
  throw input_error("bench/validation/data: " + unknown_name("value", name, names));
}

Use parse_use(const std::string& name) {
  return by_name<Use>(name, {{"fitted", Use::fitted},
                             {"host_floor", Use::host_floor},
                             {"unseen", Use::unseen},
                             {"contradicts_neighbours", Use::contradicts_neighbours}});
}

Recompute parse_recompute(const std::string& name) {
  return by_name<Recompute>(
      name,
      {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}});
}

Model model_of(const Json& row) {
  Model model;
  model.architecture =
      by_name<Architecture>(row.value("architecture", "gpt"),
                            {{"gpt", Architecture::gpt}, {"llama", Architecture::llama}});
  model.blocks = row.at("blocks");
  model.hidden_size = row.at("hidden_size");
  model.heads = row.at("heads");
  model.kv_heads = row.value("kv_heads", model.heads);
  model.mlp_size = row.value("mlp_size", 4 * model.hidden_size);
  model.vocabulary_size = row.at("vocabulary_size");
  model.max_sequence_length = row.at("sequence_length");
  model.tied_head = row.at("tied_head");
  model.dropout_ppm = row.value("dropout_ppm", 100'000);  // what these programs train with
  model.name = row.value("model", fmt::format("h {}, {} blocks", model.hidden_size, model.blocks));
  return model;
}

Training training_of(const Json& row) {
  Training training;
  training.micro_batch_size = row.at("micro_batch_size");
  training.sequence_length = row.at("sequence_length");
  training.pipeline_parallel = row.value("pipeline_parallel", 1);
  training.tensor_parallel = row.at("tensor_parallel");
  training.data_parallel = row.value("data_parallel", 1);
  training.sequence_parallel = row.at("sequence_parallel");
  training.recompute = parse_recompute(row.at("recompute"));
  training.attention =
      by_name<Attention>(row.value("attention", "unfused"),
                         {{"unfused", Attention::unfused}, {"fused", Attention::fused}});
  training.zero = row.value("zero", 0);
  training.gradient_bytes = row.value("gradient_bytes", training.gradient_bytes);
  training.precision = parse_precision(row.at("precision").get<std::string>(), "precision");
  training.asynchronous_reduction = row.at("asynchronous_reduction");
  training.software_factor = row.at("software_factor");
  return training;
}

std::optional<double> bytes_of_gib(const Json& row, const char* key) {
  if (!row.contains(key)) return std::nullopt;
  return row.at(key).get<double>() * 1024 * 1024 * 1024;
}

// A row with what all rows of its source share.
Json settle(const Json& settings, const Json& row) {
  Json all = settings;
  all.update(row);
  return all;
}

Row row_of(Source source, const Json& json) {
  Row row;
  row.source = source;
  row.model = model_of(json);
  row.cluster = json.at("cluster");
  row.training = training_of(json);
  row.use = parse_use(json.at("use"));
  row.reason = json.value("reason", "");
  return row;
}

Row iteration_of(Source source, const Json& json) {
  Row row = row_of(source, json);
  const Training& training = row.training;
  row.name = json.contains("name")
                 ? json.at("name").get<std::string>()
                 : fmt::format("row {}: h {}, {} blocks, t {}, p {}, d {}, b {}",
                               json.at("row").get<int>(), row.model.hidden_size, row.model.blocks,
                               training.tensor_parallel, training.pipeline_parallel,
                               training.data_parallel, training.micro_batch_size);
  row.virtual_stages = json.at("virtual_stages");
  const std::int64_t batch = json.at("global_batch");
  const std::int64_t at_once = training.micro_batch_size * training.data_parallel;
  if (batch % at_once != 0) {
    throw input_error(
        fmt::format("bench/validation/data: {}: a batch of {} is no multiple of {}; "
                    "mend the row",
                    row.name, batch, at_once));
  }
  row.microbatches = static_cast<int>(batch / at_once);
  row.published_s = json.contains("seconds") ? json.at("seconds").get<double>()
                                             : json.at("milliseconds").get<double>() / 1e3;
  if (json.contains("mfu_percent")) row.published_mfu = json.at("mfu_percent").get<double>() / 100;
  if (json.contains("peer_milliseconds")) {
    row.peer_s = json.at("peer_milliseconds").get<double>() / 1e3;
  }
  row.published_peak_bytes = bytes_of_gib(json, "peak_gib");
  row.peer_peak_bytes = bytes_of_gib(json, "peer_peak_gib");
  return row;
}

void append_file(std::vector<Row>& rows, Source source, const Json& file) {
  for (const Json& row : file.at("iterations")) {
    rows.push_back(iteration_of(source, settle(file.at("settings"), row)));
  }
}

// Table 4: a forward and a backward each.
void append_layers(std::vector<Row>& rows, const Json& file) {
  const Json settings = settle(file.at("settings"), file.at("layer_settings"));
  for (const Json& layer : file.at("layers")) {
    for (const auto& [quantity, word] :
         {std::pair(Quantity::layer_forward, "forward"), {Quantity::layer_backward, "backward"}}) {
      Row row = row_of(Source::korthikanti_layers, settle(settings, layer));
      row.name = fmt::format("{}, {}", layer.at("name").get<std::string>(), word);
      row.quantity = quantity;
      row.published_s = layer.at(fmt::format("{}_ms", word)).get<double>() / 1e3;
      rows.push_back(std::move(row));
    }
  }
}

}  // namespace

std::vector<Row> read_rows(const std::string& folder) {
  std::vector<Row> rows;
  const Json korthikanti = read_json(folder, "korthikanti_2022.json");
  append_layers(rows, korthikanti);
  append_file(rows, Source::korthikanti, korthikanti);
  append_file(rows, Source::sc21, read_json(folder, "megatron_sc21.json"));
  const Json vtrain = read_json(folder, "vtrain_2023.json");
  for (const auto& [source, key] : {std::pair(Source::vtrain_multi_node, "multi_node"),
                                    {Source::vtrain_single_node, "single_node"}}) {
    const Json& table = vtrain.at(key);
    for (const Json& row : read_csv(folder, table.at("file"))) {
      rows.push_back(iteration_of(source, settle(table.at("settings"), row)));
    }
  }
  const Json simumax = read_json(folder, "simumax_b200.json");
  for (const Json& row : simumax.at("iterations")) {
    const Json& shape = simumax.at("models").at(row.at("model").get<std::string>());
    rows.push_back(
        iteration_of(Source::simumax_b200, settle(settle(simumax.at("settings"), shape), row)));
  }
  return rows;
}

MatmulTable read_matmul_table(const std::string& folder) {
  const Json file = read_json(folder, "simumax_a100_pcie.json");
  MatmulTable table;
  table.device = file.at("device");
  for (const Json& row : read_csv(folder, file.at("file"))) {
    table.rows.push_back({.product = {.batch = row.at("batch"),
                                      .rows = row.at("rows"),
                                      .columns = row.at("columns"),
                                      .inner = row.at("inner"),
                                      .accumulates = row.at("accumulates") == "true"},
                          .efficiency = row.at("efficiency"),
                          .fitted = parse_use(row.at("use")) == Use::fitted});
  }
  return table;
}

}  // namespace pipesim::validation
