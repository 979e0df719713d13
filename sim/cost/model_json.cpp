// A model's file, read and written.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/cost/hugging_face.h"
#include "sim/cost/model.h"
#include "traces/base/json.h"
#include "traces/base/json_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t largest_size = 1 << 20;  // of a dimension, or the number of blocks
constexpr std::int64_t max_experts = 1 << 16;
constexpr std::int64_t max_listed = 1 << 14;  // layers
constexpr std::int64_t most_parameters = 1'000'000'000'000'000;
constexpr std::int64_t max_flops = 1'000'000'000'000'000'000;  // of a layer

std::string architecture_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::gpt: return "gpt";
    case Architecture::llama: return "llama";
    case Architecture::mlp: return "mlp";
    case Architecture::layers: break;
  }
  return "layers";
}

Architecture read_architecture(const JsonCursor& cursor) {
  std::vector<std::string> names;
  for (const Architecture known :
       {Architecture::gpt, Architecture::llama, Architecture::mlp, Architecture::layers}) {
    names.push_back(architecture_name(known));
    if (cursor.string() == names.back()) return known;
  }
  cursor.fail(unknown_name("architecture", cursor.string(), names));
}

// Refuses a number of `what` that does not divide `whole`, and names the nearest ones that do.
void check_divides(const JsonCursor& cursor, std::int64_t number, std::string_view what,
                   std::int64_t whole, std::string_view whole_in_words) {
  if (whole % number == 0) return;
  std::int64_t below = std::min(number, whole);
  while (whole % below != 0) --below;
  std::int64_t above = number;
  while (above < whole && whole % above != 0) ++above;
  const std::string nearest = above > whole ? fmt::format("that does is {}", below)
                                            : fmt::format("that do are {} and {}", below, above);
  cursor.fail(
      fmt::format("{} {} do not divide {}; the nearest {}", number, what, whole_in_words, nearest));
}

// A choice by name.
template <typename T>
struct Named {
  T value;
  std::string_view name;
};
constexpr Named<Positions> position_names[] = {
    {Positions::table, "table"}, {Positions::rotary, "rotary"}, {Positions::none, "none"}};
constexpr Named<NormKind> norm_names[] = {{NormKind::layer, "layer"},
                                          {NormKind::layer_unbiased, "layer_unbiased"},
                                          {NormKind::rms, "rms"},
                                          {NormKind::unscaled, "unscaled"}};
constexpr Named<QkNorm> qk_norm_names[] = {{QkNorm::heads, "heads"},
                                           {QkNorm::layer, "layer"},
                                           {QkNorm::whole, "whole"},
                                           {QkNorm::unscaled, "unscaled"}};
constexpr Named<bool Biases::*> bias_names[] = {{&Biases::qkv, "qkv"},
                                                {&Biases::attention_output, "attention_output"},
                                                {&Biases::mlp, "mlp"},
                                                {&Biases::router, "router"},
                                                {&Biases::head, "head"}};

template <typename T, std::size_t count>
T read_named(const JsonCursor& cursor, std::string_view what, const Named<T> (&all)[count]) {
  std::vector<std::string> names;
  for (const Named<T>& one : all) {
    if (cursor.string() == one.name) return one.value;
    names.emplace_back(one.name);
  }
  cursor.fail(unknown_name(std::string(what), cursor.string(), names));
}

template <typename T, std::size_t count>
std::string name_of(T value, const Named<T> (&all)[count]) {
  return std::string(std::ranges::find(all, value, &Named<T>::value)->name);
}

void read_latent(const JsonCursor& cursor, Model& model) {
  JsonMembers members(cursor);
  LatentAttention& latent = model.latent.emplace();
  latent.query_rank = members.integer_or("query_rank", 0, 0, largest_size);
  latent.kv_rank = members.required("kv_rank").integer(1, largest_size);
  latent.plain_size = members.required("plain_size").integer(1, largest_size);
  latent.rotary_size = members.required("rotary_size").integer(1, largest_size);
  latent.value_size = members.required("value_size").integer(1, largest_size);
  members.finish();
}

void read_attention(JsonMembers& members, Model& model) {
  const JsonCursor heads = members.required("heads");
  model.heads = heads.integer(1, largest_size);
  members.optional("latent", [&](const JsonCursor& value) { read_latent(value, model); });
  if (!model.latent) {
    members.optional("head_size", [&](const JsonCursor& value) {
      model.own_head_size = value.integer(1, largest_size);
    });
    if (!model.own_head_size) {
      check_divides(heads, model.heads, "heads", model.hidden_size,
                    fmt::format("a hidden_size of {}", model.hidden_size));
    }
    if (model.hidden_size % model.heads == 0 &&
        model.own_head_size == model.hidden_size / model.heads) {
      model.own_head_size.reset();
    }
  }
  if (std::max(model.attention_size(), model.output_size()) > 4 * largest_size) {
    heads.fail(fmt::format("{} of {} numbers are more than {}", plural(model.heads, "head"),
                           model.head_size(), 4 * largest_size));
  }
  const std::int64_t turned = model.latent ? model.latent->rotary_size : model.head_size();
  if (model.positions == Positions::rotary && turned % 2 != 0) {
    heads.fail(
        fmt::format("{} of {} numbers, but rotary positions turn pairs; give heads of an even size",
                    plural(model.heads, "head"), turned));
  }
  model.kv_heads = model.heads;
  if (model.latent) return;
  members.optional("kv_heads", [&](const JsonCursor& value) {
    model.kv_heads = value.integer(1, largest_size);
    check_divides(value, model.kv_heads, "kv_heads", model.heads, plural(model.heads, "head"));
  });
}

void read_experts(JsonMembers& members, Model& model) {
  model.experts = members.integer_or("experts", 1, 1, max_experts);
  if (model.experts > 1) members.required("experts_per_token");
  members.optional("experts_per_token", [&](const JsonCursor& value) {
    model.experts_per_token = value.integer(1, max_experts);
    if (model.experts_per_token <= model.experts) return;
    value.fail(fmt::format("{} are more than the model's {}; give at most {}",
                           model.experts_per_token, plural(model.experts, "expert"),
                           model.experts));
  });
  if (model.experts == 1) return;
  model.expert_size = members.integer_or("expert_size", model.mlp_size, 1, 4 * largest_size);
  model.shared_size = members.integer_or("shared_size", 0, 0, 4 * largest_size);
  if (model.shared_size > 0) model.has_shared_gate = members.boolean_or("shared_gate", false);
  members.optional("expert_groups", [&](const JsonCursor& value) {
    model.expert_groups = value.integer(1, model.experts);
    check_divides(value, model.expert_groups, "groups", model.experts,
                  plural(model.experts, "expert"));
    model.groups_per_token = members.required("groups_per_token").integer(1, model.expert_groups);
  });
  model.kinds = {BlockKind{.has_experts = true}};
}

// Of blocks that differ; `window` alone is that of all.
void read_kinds(JsonMembers& members, Model& model) {
  const auto length = [](std::optional<std::int64_t>& size) {
    return [&size](const JsonCursor& value) { size = value.integer(1, largest_size); };
  };
  members.optional("window", length(model.kinds.front().window));
  members.optional("kinds", [&](const JsonCursor& list) {
    if (members.has("window")) list.fail("`window` is that of all blocks; keep one of them");
    model.kinds.clear();
    for (const JsonCursor& item : list.array()) {
      JsonMembers entry(item);
      BlockKind kind;
      kind.has_experts = entry.boolean_or("experts", model.has_experts());
      if (kind.has_experts && !model.has_experts()) {
        item.fail("blocks with experts, but the model has none; give `experts`");
      }
      entry.optional("window", length(kind.window));
      entry.optional("chunk", length(kind.chunk));
      if (kind.window && kind.chunk) item.fail("has a window as well as chunks; keep one of them");
      const std::int64_t repeat = entry.integer_or("repeat", 1, 1, model.blocks);
      entry.finish();
      if (std::ssize(model.kinds) + repeat > model.blocks) {
        item.fail(fmt::format("kinds of {} and more, but the model has {}",
                              plural(std::ssize(model.kinds) + repeat, "block"), model.blocks));
      }
      model.kinds.insert(model.kinds.end(), static_cast<std::size_t>(repeat), kind);
    }
    if (model.kinds.empty()) list.fail("an empty list; give at least one kind");
  });
}

// What differs from the architecture.
void read_differences(JsonMembers& members, Model& model) {
  model.is_gated = members.boolean_or("gated", model.is_gated);
  members.optional("positions", [&](const JsonCursor& value) {
    model.positions = read_named(value, "kind", position_names);
  });
  members.optional("norm", [&](const JsonCursor& value) {
    model.norm_kind = read_named(value, "kind", norm_names);
  });
  members.optional("norms", [&](const JsonCursor& value) {
    model.norms = value.integer(1, 4);
    if (model.norms == 3) value.fail("a block has 1, 2 or 4 norms");
  });
  model.is_parallel = members.boolean_or("parallel", model.is_parallel);
  model.has_embedding_norm = members.boolean_or("embedding_norm", model.has_embedding_norm);
  model.has_inner_norms = members.boolean_or("inner_norms", model.has_inner_norms);
  model.has_sinks = members.boolean_or("sinks", model.has_sinks);
  model.has_attention_gate = members.boolean_or("attention_gate", model.has_attention_gate);
  members.optional("biases", [&](const JsonCursor& list) {
    model.biases = {false, false, false, false, false};
    for (const JsonCursor& one : list.array()) {
      model.biases.*read_named(one, "bias", bias_names) = true;
    }
  });
  if (model.architecture == Architecture::llama) {
    members.optional("qkv_bias",
                     [&](const JsonCursor& value) { model.biases.qkv = value.boolean(); });
  }
  members.optional("qk_norm", [&](const JsonCursor& value) {
    if (value.value().get_if<bool>() != nullptr) {
      model.qk_norm = value.boolean() ? QkNorm::heads : QkNorm::none;
    } else {
      model.qk_norm = read_named(value, "kind", qk_norm_names);
    }
  });
}

void read_shape(JsonMembers& members, Model& model) {
  const bool is_gpt = model.architecture == Architecture::gpt;
  const auto size = [&](std::string_view key) {
    return members.required(key).integer(1, largest_size);
  };
  model.shape_as(model.architecture);
  model.blocks = size("blocks");
  model.hidden_size = size("hidden_size");
  if (model.architecture == Architecture::mlp) {
    model.heads = 1;
    model.kv_heads = 1;
    model.mlp_size = model.hidden_size;
  } else {
    read_differences(members, model);
    read_attention(members, model);
    if (!is_gpt) members.required("mlp_size");
    model.mlp_size = members.integer_or("mlp_size", 4 * model.hidden_size, 1, 4 * largest_size);
    read_experts(members, model);
    read_kinds(members, model);
    model.prediction_depths = members.integer_or("prediction_depths", 0, 0, 16);
  }
  model.vocabulary_size = size("vocabulary_size");
  model.max_sequence_length = size("max_sequence_length");
  if (model.has_positions() && is_gpt) {
    model.extra_positions = members.integer_or("extra_positions", 0, 0, largest_size);
  }
  if (model.positions == Positions::rotary) {
    model.rotary_base = members.integer_or("rotary_base", 10'000, 1, 1'000'000'000);
  }
  model.tied_head = members.boolean_or("tied_head", false);
  members.optional("dropout", [&](const JsonCursor& value) {
    model.dropout_ppm = value.millionths(1);
    if (model.dropout_ppm == 1'000'000) value.fail("must be less than 1");
  });
}

// A forward and its backward, by default twice as much.
template <typename T>
void read_passes(JsonMembers& members, const std::string& what, std::int64_t most, T& forward,
                 T& backward) {
  members.optional("forward_" + what, [&](const JsonCursor& value) {
    forward = static_cast<T>(value.integer(0, most / 2));
    backward = 2 * forward;
  });
  members.optional("backward_" + what, [&](const JsonCursor& value) {
    backward = static_cast<T>(value.integer(0, most));
  });
}

ListedLayer read_layer(const JsonCursor& cursor, JsonMembers& members) {
  ListedLayer layer;
  layer.name = members.required("name").string();
  layer.parameters = members.integer_or("parameters", 0, 0, most_parameters);
  const bool is_timed = members.has("forward_ns");
  const bool is_counted = members.has("forward_flops") || members.has("forward_bytes");
  const bool has_time = is_timed || members.has("backward_ns");
  if (has_time && (is_counted || members.has("backward_flops") || members.has("backward_bytes"))) {
    cursor.fail("has a time as well as FLOPs or bytes; keep one of them");
  }
  if (!is_timed && !is_counted) {
    cursor.fail("a forward is missing: give forward_ns, or forward_flops and forward_bytes");
  }
  read_passes(members, "flops", max_flops, layer.forward_flops, layer.backward_flops);
  read_passes(members, "bytes", max_bytes, layer.forward_bytes, layer.backward_bytes);
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  read_passes(members, "ns", max_time_ns, forward_ns, backward_ns);
  if (is_timed) {
    layer.forward_ns = forward_ns;
    layer.backward_ns = backward_ns;
  }
  layer.saved_bytes = members.integer_or("saved_bytes", 0, 0, max_bytes);
  layer.output_bytes = members.integer_or("output_bytes", 0, 0, max_bytes);
  return layer;
}

void read_list(JsonMembers& members, Model& model) {
  for (std::int64_t Model::*size : {&Model::blocks, &Model::hidden_size, &Model::mlp_size,
                                    &Model::vocabulary_size, &Model::max_sequence_length}) {
    model.*size = 0;
  }
  model.heads = 1;
  model.kv_heads = 1;
  model.tied_head = false;
  const JsonCursor list = members.required("layers");
  for (const JsonCursor& item : list.array()) {
    JsonMembers entry(item);
    const ListedLayer layer = read_layer(item, entry);
    const std::int64_t repeat = entry.integer_or("repeat", 1, 1, max_listed);
    entry.finish();
    if (std::ssize(model.list) + repeat > max_listed) {
      item.fail(fmt::format("more than {} layers; put some of them together", max_listed));
    }
    model.list.insert(model.list.end(), static_cast<std::size_t>(repeat), layer);
  }
  if (model.list.empty()) list.fail("an empty list; give at least one layer");
}

// In floating point, since refused numbers may not fit into an integer.
double roughly_all_parameters(const Model& model) {
  if (!model.is_listed()) {
    double most = 0;
    for (int block = 1; block <= std::min(model.blocks, std::ssize(model.kinds)); ++block) {
      most = std::max(most, static_cast<double>(model.layer_parameters(block)));
    }
    return static_cast<double>(model.blocks + model.prediction_depths) * most;
  }
  double sum = 0;
  for (const ListedLayer& layer : model.list) sum += static_cast<double>(layer.parameters);
  return sum;
}

Json layer_json(const ListedLayer& layer) {
  Json json;
  json["name"] = layer.name;
  json["parameters"] = layer.parameters;
  if (layer.forward_ns) {
    json["forward_ns"] = *layer.forward_ns;
    json["backward_ns"] = layer.backward_ns.value_or(2 * *layer.forward_ns);
  } else {
    json["forward_flops"] = static_cast<std::int64_t>(layer.forward_flops);
    json["backward_flops"] = static_cast<std::int64_t>(layer.backward_flops);
    json["forward_bytes"] = static_cast<std::int64_t>(layer.forward_bytes);
    json["backward_bytes"] = static_cast<std::int64_t>(layer.backward_bytes);
  }
  json["saved_bytes"] = layer.saved_bytes;
  json["output_bytes"] = layer.output_bytes;
  return json;
}

// Equal neighbours are one entry.
Json list_json(const std::vector<ListedLayer>& list) {
  Json json = Json::array();
  for (auto first = list.begin(); first != list.end();) {
    const auto end = std::find_if(first, list.end(), [&](const auto& l) { return l != *first; });
    json.push_back(layer_json(*first));
    if (end - first > 1) json.back()["repeat"] = end - first;
    first = end;
  }
  return json;
}

// Equal neighbours are one entry.
Json kinds_json(const Model& model) {
  Json json = Json::array();
  for (auto first = model.kinds.begin(); first != model.kinds.end();) {
    const auto end =
        std::find_if(first, model.kinds.end(), [&](const auto& one) { return one != *first; });
    Json kind = Json::object();
    if (first->has_experts != model.has_experts()) kind["experts"] = first->has_experts;
    if (first->window) kind["window"] = *first->window;
    if (first->chunk) kind["chunk"] = *first->chunk;
    if (end - first > 1) kind["repeat"] = end - first;
    json.push_back(std::move(kind));
    first = end;
  }
  return json;
}

void put_differences(const Model& model, Json& json) {
  Model usual;
  usual.shape_as(model.architecture);
  if (model.is_gated != usual.is_gated) json["gated"] = model.is_gated;
  if (model.positions != usual.positions) {
    json["positions"] = name_of(model.positions, position_names);
  }
  if (model.norm_kind != usual.norm_kind) json["norm"] = name_of(model.norm_kind, norm_names);
  if (model.norms != usual.norms) json["norms"] = model.norms;
  if (model.is_parallel) json["parallel"] = true;
  if (model.has_embedding_norm) json["embedding_norm"] = true;
  if (model.has_inner_norms) json["inner_norms"] = true;
  if (model.has_sinks) json["sinks"] = true;
  if (model.has_attention_gate) json["attention_gate"] = true;
  const bool is_llama = model.architecture == Architecture::llama;
  if (is_llama && model.biases == Biases{.qkv = true}) {
    json["qkv_bias"] = true;
  } else if (model.biases != usual.biases) {
    json["biases"] = Json::array();
    for (const auto& [bias, name] : bias_names) {
      if (model.biases.*bias) json["biases"].push_back(std::string(name));
    }
  }
  if (model.qk_norm == QkNorm::heads) {
    json["qk_norm"] = true;
  } else if (model.qk_norm != QkNorm::none) {
    json["qk_norm"] = name_of(model.qk_norm, qk_norm_names);
  }
}

void put_block(const Model& model, Json& json) {
  json["heads"] = model.heads;
  if (model.latent) {
    Json latent;
    if (model.latent->query_rank > 0) latent["query_rank"] = model.latent->query_rank;
    latent["kv_rank"] = model.latent->kv_rank;
    latent["plain_size"] = model.latent->plain_size;
    latent["rotary_size"] = model.latent->rotary_size;
    latent["value_size"] = model.latent->value_size;
    json["latent"] = std::move(latent);
  }
  if (model.kv_heads != model.heads) json["kv_heads"] = model.kv_heads;
  if (model.own_head_size) json["head_size"] = *model.own_head_size;
  json["mlp_size"] = model.mlp_size;
  if (model.has_experts()) {
    json["experts"] = model.experts;
    json["experts_per_token"] = model.experts_per_token;
    if (model.expert_size != model.mlp_size) json["expert_size"] = model.expert_size;
    if (model.shared_size > 0) json["shared_size"] = model.shared_size;
    if (model.has_shared_gate) json["shared_gate"] = true;
    if (model.groups_per_token > 0) {
      json["expert_groups"] = model.expert_groups;
      json["groups_per_token"] = model.groups_per_token;
    }
  }
  const BlockKind usual{.has_experts = model.has_experts()};
  const BlockKind windowed{usual.has_experts, model.kinds.front().window, {}};
  if (model.kinds != std::vector{windowed}) {
    json["kinds"] = kinds_json(model);
  } else if (windowed.window) {
    json["window"] = *windowed.window;
  }
  if (model.prediction_depths > 0) json["prediction_depths"] = model.prediction_depths;
}

void put_shape(const Model& model, Json& json) {
  json["blocks"] = model.blocks;
  json["hidden_size"] = model.hidden_size;
  if (model.architecture != Architecture::mlp) {
    put_block(model, json);
    put_differences(model, json);
  }
  json["vocabulary_size"] = model.vocabulary_size;
  json["max_sequence_length"] = model.max_sequence_length;
  if (model.extra_positions > 0) json["extra_positions"] = model.extra_positions;
  if (model.positions == Positions::rotary) json["rotary_base"] = model.rotary_base;
  json["tied_head"] = model.tied_head;
  json["dropout"] = static_cast<double>(model.dropout_ppm) / 1e6;
}

Model read_own(const JsonCursor& root) {
  JsonMembers members(root);
  if (members.has("tables")) {
    root.fail("this is a recommendation model, for `pipesim feed`");
  }
  members.format("pipesim-model", 1);
  Model model{.name = root.file()};
  members.optional("name", [&](const JsonCursor& value) { model.name = value.string(); });
  members.optional("source", [](const JsonCursor& value) { value.string(); });  // for readers
  model.architecture = read_architecture(members.required("architecture"));
  if (model.is_listed()) {
    read_list(members, model);
  } else {
    read_shape(members, model);
  }
  members.finish();
  return model;
}

}  // namespace

void apply_differences(const JsonCursor& differences, Model& model) {
  JsonMembers members(differences);
  members.optional("architecture",
                   [&](const JsonCursor& value) { model.shape_as(read_architecture(value)); });
  read_differences(members, model);
  members.finish();
}

Model parse_model(std::string_view text, const std::string& file, std::vector<std::string>* notes) {
  const JsonValue document = parse_json(text, file);
  const JsonCursor root(document, file);
  const Model model = is_hugging_face(document) ? read_hugging_face(root, notes) : read_own(root);
  if (roughly_all_parameters(model) > static_cast<double>(most_parameters)) {
    root.fail(fmt::format("more than {:g} parameters; use fewer or smaller layers",
                          static_cast<double>(most_parameters)));
  }
  return model;
}

std::string to_json(const Model& model, int indent) {
  Json json;
  json["format"] = "pipesim-model";
  json["version"] = 1;
  json["name"] = model.name;
  json["architecture"] = architecture_name(model.architecture);
  if (model.is_listed()) {
    json["layers"] = list_json(model.list);
  } else {
    put_shape(model, json);
  }
  return json.dump(indent);
}

}  // namespace pipesim
