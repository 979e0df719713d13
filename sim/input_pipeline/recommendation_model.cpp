#include "sim/input_pipeline/recommendation_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sim/cost/hardware/presets.h"
#include "sim/cost/model.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::string_view old_model_format =
    "pipesim-recommendation-model";  // read, no longer written

constexpr std::int64_t largest_width = 1 << 20;  // of a layer, or the dense features
constexpr std::int64_t max_dense_layers = 64;
constexpr std::int64_t max_tables = 1 << 14;
constexpr std::int64_t max_rows = max_bytes / 4;
constexpr std::int64_t max_ids = 1 << 16;  // of a sample, for one table
constexpr double largest_skew = 4;
constexpr std::int64_t max_dense_parameters = max_bytes / 16;  // with gradients, far below a PiB

constexpr std::array<std::string_view, 2> interaction_names{"dot", "cross"};
constexpr std::array<std::string_view, 2> table_optimizer_names{"sgd", "adagrad"};
constexpr std::array<std::string_view, 2> id_count_names{"fixed", "uniform"};

template <typename Value, std::size_t count>
Value read_choice(const JsonCursor& cursor, std::string_view what,
                  const std::array<std::string_view, count>& names) {
  const auto found = std::ranges::find(names, cursor.string());
  if (found == names.end()) {
    cursor.fail(unknown_name(what, cursor.string(), {names.begin(), names.end()}));
  }
  return static_cast<Value>(found - names.begin());
}

std::vector<std::int64_t> read_widths(const JsonCursor& list) {
  std::vector<std::int64_t> widths;
  for (const JsonCursor& width : list.array()) widths.push_back(width.integer(1, largest_width));
  if (widths.empty()) list.fail("an empty list; give the width of at least one layer");
  if (std::ssize(widths) > max_dense_layers) {
    list.fail(
        fmt::format("{} layers are more than {}; give fewer", widths.size(), max_dense_layers));
  }
  return widths;
}

EmbeddingTable read_table(const JsonCursor& cursor, std::int64_t width) {
  JsonMembers members(cursor);
  EmbeddingTable table;
  const JsonCursor name = members.required("name");
  table.name = name.string();
  if (table.name.empty()) name.fail("is empty; give the table a name");
  table.rows = members.required("rows").integer(1, max_rows);
  table.width = width;
  members.optional("width", [&](const JsonCursor& given) {
    if (given.integer(1, largest_width) == width) return;
    given.fail(fmt::format(
        "rows of table {} have {} numbers, but the bottom MLP ends with {}, and the interaction "
        "needs as many; give {}, or omit it",
        quote(table.name), given.integer(1, largest_width), width, width));
  });
  table.ids_per_sample = members.integer_or("ids_per_sample", 1, 1, max_ids);
  members.optional("id_count", [&](const JsonCursor& given) {
    table.id_count = read_choice<IdCount>(given, "id count", id_count_names);
  });
  members.optional("skew", [&](const JsonCursor& given) {
    table.skew = given.number();
    if (table.skew >= 0 && table.skew <= largest_skew) return;
    given.fail(
        fmt::format("{} is out of range: it must lie between 0 and {}", table.skew, largest_skew));
  });
  members.finish();
  return table;
}

void read_tables(const JsonCursor& list, RecommendationModel& model) {
  std::set<std::string_view> names;
  const std::vector<JsonCursor> items = list.array();
  if (items.empty()) list.fail("an empty list; give at least one table");
  if (std::ssize(items) > max_tables) {
    list.fail(fmt::format("{} tables are more than {}; give fewer", items.size(), max_tables));
  }
  model.tables.reserve(items.size());  // so that addresses of names are stable
  double bytes = 0;
  for (const JsonCursor& item : items) {
    model.tables.push_back(read_table(item, model.width()));
    const EmbeddingTable& table = model.tables.back();
    if (!names.insert(table.name).second) {
      item.fail(
          fmt::format("there are two tables {}; give each a name of its own", quote(table.name)));
    }
    bytes += 4 * static_cast<double>(table.rows) * static_cast<double>(table.width);
    if (bytes > static_cast<double>(max_bytes)) {
      item.fail(fmt::format("tables up to {} have more than {}; use fewer or smaller ones",
                            quote(table.name), format_bytes(max_bytes)));
    }
  }
}

// Parameters of consecutive dense layers, with biases.
std::int64_t mlp_parameters(std::int64_t width, const std::vector<std::int64_t>& layers) {
  std::int64_t sum = 0;
  for (const std::int64_t next : layers) {
    sum += (width + 1) * next;
    width = next;
  }
  return sum;
}

Json table_json(const EmbeddingTable& table) {
  Json json;
  json["name"] = table.name;
  json["rows"] = table.rows;
  json["width"] = table.width;
  json["ids_per_sample"] = table.ids_per_sample;
  json["id_count"] = id_count_names[static_cast<std::size_t>(table.id_count)];
  json["skew"] = table.skew;
  return json;
}

// Small enough to train on a processor, a batch in milliseconds; both kinds of id counts, and
// popular rows.
RecommendationModel dlrm_mini() {
  RecommendationModel model{.name = "dlrm-mini", .title = "DLRM, small enough for a processor"};
  model.dense_features = 13;
  model.bottom = {64, 32};
  model.top = {128, 64, 1};
  const auto add = [&](const char* name, std::int64_t rows, std::int64_t ids, IdCount count,
                       double skew) {
    model.tables.push_back({name, rows, model.width(), ids, count, skew});
  };
  add("country", 1'000, 1, IdCount::fixed, 1.2);
  add("device", 2'000, 1, IdCount::fixed, 0.8);
  add("category", 5'000, 2, IdCount::fixed, 1.05);
  add("publisher", 10'000, 1, IdCount::fixed, 0.6);
  add("words", 20'000, 6, IdCount::uniform, 1);
  add("clicks", 50'000, 8, IdCount::uniform, 0.9);
  add("item", 100'000, 1, IdCount::fixed, 1.05);
  add("user", 100'000, 1, IdCount::fixed, 0);
  return model;
}

// MLPerf's recommendation benchmark since training 3.0: Criteo's 26 categories, each with as many
// ids per sample as in the synthetic multi-hot data set, uniformly drawn. Sizes as in the
// reference's command, github.com/mlcommons/logging pull request 300, and multi-hot sizes as in
// facebookresearch/dlrm, torchrec_dlrm, materialize_synthetic_multihot_dataset.py.
RecommendationModel dlrm_dcnv2() {
  RecommendationModel model{.name = "dlrm-dcnv2", .title = "MLPerf DLRM-DCNv2"};
  model.dense_features = 13;
  model.bottom = {512, 256, 128};
  model.top = {1024, 1024, 512, 256, 1};
  model.interaction = Interaction::cross;
  model.cross_layers = 3;
  model.cross_rank = 512;
  constexpr std::array<std::int64_t, 26> rows{
      40'000'000, 39'060,     17'295,     7'424,      20'265,  3,      7'122, 1'543, 63,
      40'000'000, 3'067'956,  405'282,    10,         2'209,   11'938, 155,   4,     976,
      14,         40'000'000, 40'000'000, 40'000'000, 590'152, 12'973, 108,   36};
  constexpr std::array<std::int64_t, 26> ids{3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                                             6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    model.tables.push_back(
        {fmt::format("cat_{}", i), rows[i], model.width(), ids[i], IdCount::fixed, 0});
  }
  return model;
}

}  // namespace

std::string_view table_optimizer_name(TableOptimizer optimizer) {
  return table_optimizer_names[static_cast<std::size_t>(optimizer)];
}

std::vector<std::string> known_table_optimizers() {
  return {table_optimizer_names.begin(), table_optimizer_names.end()};
}

TableOptimizer parse_table_optimizer(std::string_view name, std::string_view where) {
  const auto found = std::ranges::find(table_optimizer_names, name);
  if (found == table_optimizer_names.end()) {
    throw input_error(fmt::format(
        "{}: {}", where, unknown_name("optimizer of tables", name, known_table_optimizers())));
  }
  return static_cast<TableOptimizer>(found - table_optimizer_names.begin());
}

std::int64_t RecommendationModel::interacted() const {
  const std::int64_t vectors = std::ssize(tables) + 1;
  if (interaction == Interaction::cross) return vectors * width();
  return width() + vectors * (vectors - 1) / 2;
}

std::int64_t RecommendationModel::bottom_parameters() const {
  return mlp_parameters(dense_features, bottom);
}

std::int64_t RecommendationModel::top_parameters() const {
  // Each cross layer has a matrix down to its rank, one up again, and a bias.
  const std::int64_t crossed =
      interaction == Interaction::cross ? cross_layers * interacted() * (2 * cross_rank + 1) : 0;
  return crossed + mlp_parameters(interacted(), top);
}

std::int64_t RecommendationModel::table_parameters() const {
  std::int64_t sum = 0;
  for (const EmbeddingTable& table : tables) sum += table.rows * table.width;
  return sum;
}

RecommendationModel parse_recommendation_model(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  JsonMembers members(root);
  members.format("pipesim-model", 1, old_model_format);
  if (members.has("architecture")) {
    root.fail("this is a model for a pipeline; a recommendation model has `tables`");
  }
  RecommendationModel model{.name = file};
  members.optional("name", [&](const JsonCursor& value) { model.name = value.string(); });
  model.title = model.name;
  members.optional("title", [&](const JsonCursor& value) { model.title = value.string(); });
  model.dense_features = members.required("dense_features").integer(1, largest_width);
  model.bottom = read_widths(members.required("bottom"));
  const JsonCursor top = members.required("top");
  model.top = read_widths(top);
  if (model.top.back() != 1) {
    top.array().back().fail(fmt::format(
        "the last layer has {} numbers, but makes one, the logit; end with 1", model.top.back()));
  }
  model.interaction =
      read_choice<Interaction>(members.required("interaction"), "interaction", interaction_names);
  if (model.interaction == Interaction::cross) {
    model.cross_layers =
        static_cast<int>(members.required("cross_layers").integer(1, max_dense_layers));
    model.cross_rank = members.required("cross_rank").integer(1, largest_width);
  }
  read_tables(members.required("tables"), model);
  members.finish();
  if (model.bottom_parameters() + model.top_parameters() > max_dense_parameters) {
    root.fail(fmt::format("more than {} parameters in dense layers; use fewer or smaller ones",
                          format_count(max_dense_parameters)));
  }
  return model;
}

std::string to_json(const RecommendationModel& model, int indent) {
  Json json;
  json["format"] = "pipesim-model";
  json["version"] = 1;
  json["name"] = model.name;
  json["title"] = model.title;
  json["dense_features"] = model.dense_features;
  json["bottom"] = model.bottom;
  json["top"] = model.top;
  json["interaction"] = interaction_names[static_cast<std::size_t>(model.interaction)];
  if (model.interaction == Interaction::cross) {
    json["cross_layers"] = model.cross_layers;
    json["cross_rank"] = model.cross_rank;
  }
  json["tables"] = Json::array();
  for (const EmbeddingTable& table : model.tables) json["tables"].push_back(table_json(table));
  return json.dump(indent);
}

const std::vector<RecommendationModel>& known_recommendation_models() {
  static const std::vector<RecommendationModel> models{dlrm_mini(), dlrm_dcnv2()};
  return models;
}

std::vector<std::string> recommendation_model_names() {
  std::vector<std::string> names;
  for (const RecommendationModel& model : known_recommendation_models()) {
    names.push_back(model.name);
  }
  return names;
}

std::vector<std::string> all_model_names() {
  std::vector<std::string> names = model_names();
  for (std::string& name : recommendation_model_names()) names.push_back(std::move(name));
  return names;
}

std::optional<RecommendationModel> find_recommendation_model(const std::string& name) {
  for (const RecommendationModel& model : known_recommendation_models()) {
    if (model.name == name) return model;
  }
  return std::nullopt;
}

RecommendationModel read_recommendation_model(const std::string& name_or_file) {
  if (names_file(name_or_file)) {
    return parse_recommendation_model(read_file(name_or_file), name_or_file);
  }
  if (auto model = find_recommendation_model(name_or_file)) return *std::move(model);
  throw input_error(fmt::format(
      "--model: {}; or give a file that ends in .json",
      unknown_name("recommendation model", name_or_file, recommendation_model_names())));
}

}  // namespace pipesim
