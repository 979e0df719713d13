#include "sim/cost/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t largest_size = 1 << 20;  // of a dimension, or the number of blocks

std::string_view architecture_name(Architecture architecture) {
  return architecture == Architecture::gpt ? "gpt" : "mlp";
}

Architecture read_architecture(const JsonCursor& cursor) {
  for (const Architecture known : {Architecture::gpt, Architecture::mlp}) {
    if (cursor.string() == architecture_name(known)) return known;
  }
  cursor.fail(unknown_name("architecture", cursor.string(), {"gpt", "mlp"}));
}

}  // namespace

std::string Model::layer_name(int layer) const {
  if (is_embedding(layer)) return "embedding";
  if (is_head(layer)) return "head";
  if (is_listed()) return list[static_cast<std::size_t>(layer)].name;
  return fmt::format("block {}", layer - 1);
}

std::int64_t Model::layer_parameters(int layer) const {
  const std::int64_t h = hidden_size;
  if (is_embedding(layer)) return (vocabulary_size + max_sequence_length) * h;
  if (is_head(layer)) return vocabulary_size * h + (architecture == Architecture::gpt ? 2 * h : 0);
  if (architecture == Architecture::mlp) return h * h + h;
  const std::int64_t norms = 4 * h;
  const std::int64_t attention = 4 * h * h + 4 * h;
  return norms + attention + 2 * h * mlp_size + mlp_size + h;
}

std::int64_t Model::parameters() const {
  std::int64_t sum = tied_head ? -vocabulary_size * hidden_size : 0;
  for (const int layer : {0, layers() - 1}) sum += layer_parameters(layer);
  return sum + blocks * layer_parameters(1);
}

const std::vector<Model>& known_models() {
  static const std::vector<Model> models{
      {.name = "gpt-mini", .dropout_ppm = 100'000},
      {.name = "mlp-mini",
       .architecture = Architecture::mlp,
       .heads = 1,
       .mlp_size = 128,
       .tied_head = false},
      // Radford et al., 2019, "Language models are unsupervised multitask learners".
      {.name = "gpt2-small",
       .blocks = 12,
       .hidden_size = 768,
       .heads = 12,
       .mlp_size = 3072,
       .vocabulary_size = 50257,
       .max_sequence_length = 1024,
       .dropout_ppm = 100'000},
  };
  return models;
}

Model parse_model(std::string_view text, const std::string& file) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  JsonMembers members(root);
  members.format("pipesim-model", 1);
  Model model;
  model.name = file;
  members.optional("name", [&](const JsonCursor& value) { model.name = value.string(); });
  model.architecture = read_architecture(members.required("architecture"));
  const bool is_gpt = model.architecture == Architecture::gpt;
  const auto size = [&](std::string_view key) {
    return members.required(key).integer(1, largest_size);
  };
  model.blocks = size("blocks");
  model.hidden_size = size("hidden_size");
  model.heads = is_gpt ? size("heads") : 1;
  if (is_gpt && model.hidden_size % model.heads != 0) {
    members.required("heads").fail(fmt::format("{} do not divide a hidden_size of {}",
                                               plural(model.heads, "head"), model.hidden_size));
  }
  model.mlp_size = model.hidden_size;
  if (is_gpt) {
    model.mlp_size = members.integer_or("mlp_size", 4 * model.hidden_size, 1, 4 * largest_size);
  }
  model.vocabulary_size = size("vocabulary_size");
  model.max_sequence_length = size("max_sequence_length");
  model.tied_head = members.boolean_or("tied_head", false);
  model.dropout_ppm = 0;
  members.optional("dropout", [&](const JsonCursor& value) {
    model.dropout_ppm = value.millionths(1);
    if (model.dropout_ppm == 1'000'000) value.fail("must be less than 1");
  });
  members.finish();
  constexpr double most_parameters = 1e15;
  const double block = static_cast<double>(model.layer_parameters(1));
  if (block * static_cast<double>(model.blocks) > most_parameters) {
    root.fail(
        fmt::format("more than {:g} parameters; use fewer or smaller blocks", most_parameters));
  }
  return model;
}

Model find_model(const std::string& name_or_file) {
  if (name_or_file.ends_with(".json") || name_or_file.find('/') != std::string::npos) {
    return parse_model(read_file(name_or_file), name_or_file);
  }
  std::vector<std::string> names;
  for (const Model& model : known_models()) {
    if (model.name == name_or_file) return model;
    names.push_back(model.name);
  }
  throw input_error(fmt::format("--model: {}; or give a file that ends in .json",
                                unknown_name("model", name_or_file, names)));
}

std::string to_json(const Model& model) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["format"] = "pipesim-model";
  json["version"] = 1;
  json["name"] = model.name;
  json["architecture"] = architecture_name(model.architecture);
  json["blocks"] = model.blocks;
  json["hidden_size"] = model.hidden_size;
  if (model.architecture == Architecture::gpt) {
    json["heads"] = model.heads;
    json["mlp_size"] = model.mlp_size;
  }
  json["vocabulary_size"] = model.vocabulary_size;
  json["max_sequence_length"] = model.max_sequence_length;
  json["tied_head"] = model.tied_head;
  json["dropout"] = static_cast<double>(model.dropout_ppm) / 1e6;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pipesim
