#include "exec/saved/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "exec/model/layer.h"
#include "exec/saved/model_arrays.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// The group of a key: "layers.3.qkv.matrix.weight" belongs to layer 3, "dense.top" to "dense".
struct Place {
  std::string_view group;
  std::int64_t index = 0;
  auto operator<=>(const Place&) const = default;
};

Place place_of(std::string_view key) {
  Place place{key.substr(0, key.find('.'))};
  if (place.group.size() == key.size()) return place;
  const char* begin = key.data() + place.group.size() + 1;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(begin, end, place.index);
  if (error != std::errc() || (stop != end && *stop != '.')) place.index = 0;
  return place;
}

std::string name_of(const Place& place, const CheckpointFacts& facts) {
  if (place.group == "layers" && facts.model && place.index < facts.model->layers()) {
    return facts.model->layer_name(static_cast<int>(place.index));
  }
  if (place.group == "tables") return fmt::format("table {}", place.index);
  return std::string(place.group);
}

void count(std::string_view key, std::int64_t size, LayerNumbers& layer) {
  const auto has = [&](std::string_view part) { return key.find(part) != std::string_view::npos; };
  if (has(gradient_state)) {
    layer.gradients += size;
  } else if (has("_moment") || has(".state")) {
    layer.moments += size;
  } else {
    ++layer.parameters;
    layer.weights += size;
  }
}

std::string lacks(const std::string& path, const std::string& key) {
  return fmt::format("{}: array {} is missing or incomplete", printable(path), quote(key));
}

std::optional<std::string> find_missing(const CheckpointReader& reader, const Model& model,
                                        std::int64_t passes) {
  std::set<std::string> known;
  for (const ModelArray& array : states_of(model)) {
    for (const std::string_view state : optimizer_states) {
      const std::string key = array.key + std::string(state);
      if (!reader.is_whole(key, array.size)) return lacks(reader.path(), key);
      known.insert(key);
    }
  }
  if (passes > 0) {
    for (const ModelArray& array : gradients_of(model)) {
      const std::string begin = array.key + std::string(gradient_state);
      const std::vector<std::string> keys = reader.keys(begin);
      if (keys.empty()) return lacks(reader.path(), begin);
      for (const std::string& key : keys) {
        if (!reader.is_whole(key, array.size)) return lacks(reader.path(), key);
        known.insert(key);
      }
    }
    if (!reader.is_whole("losses", reader.size("losses")) || reader.size("losses") == 0) {
      return lacks(reader.path(), "losses");
    }
    known.insert("losses");
  }
  for (const std::string& key : reader.keys()) {
    if (known.contains(key)) continue;
    return fmt::format("{}: array {} is none of model {}", printable(reader.path()), quote(key),
                       quote(model.name));
  }
  return std::nullopt;
}

std::optional<std::string> find_missing(const CheckpointReader& reader,
                                        const RecommendationModel& model) {
  for (std::size_t i = 0; i < model.tables.size(); ++i) {
    const std::string key = fmt::format("tables.{}.weight", i);
    const EmbeddingTable& table = model.tables[i];
    if (!reader.is_whole(key, table.rows * table.width)) return lacks(reader.path(), key);
  }
  for (const std::string& key : reader.keys()) {
    if (!reader.is_whole(key, reader.size(key))) return lacks(reader.path(), key);
  }
  for (const char* key : {"dense.bottom", "dense.top"}) {
    if (!reader.has(key)) return lacks(reader.path(), key);
  }
  return std::nullopt;
}

}  // namespace

std::string CheckpointSummary::name() const {
  return std::filesystem::path(found.path).filename().string();
}

std::int64_t CheckpointSummary::bytes() const {
  std::int64_t sum = 0;
  for (const CheckpointFile& file : found.manifest.files) sum += file.bytes;
  return sum;
}

CheckpointList list_checkpoints(const std::string& folder) {
  FoundCheckpoints found = find_checkpoints(folder);
  const std::optional<std::string> mark = marked_checkpoint(folder);
  CheckpointList list;
  list.damaged = std::move(found.damaged);
  for (FoundCheckpoint& one : found.by_age) {
    try {
      CheckpointFacts facts = facts_of(one);
      CheckpointSummary& summary = list.by_age.emplace_back();
      summary.facts = std::move(facts);
      summary.found = std::move(one);
      summary.is_latest = summary.name() == mark;
    } catch (const Error& error) {
      list.damaged.emplace_back(error.what());
    }
  }
  if (list.by_age.empty() && list.damaged.empty()) {
    throw input_error(fmt::format(
        "{}: there is no checkpoint; give a folder that --checkpoint named", printable(folder)));
  }
  return list;
}

const CheckpointSummary& choose_checkpoint(const CheckpointList& list, const std::string& folder,
                                           std::optional<std::int64_t> iteration) {
  if (list.by_age.empty()) {
    throw input_error(fmt::format("{}: no checkpoint is complete; the newest: {}",
                                  printable(folder), list.damaged.front()));
  }
  if (!iteration) return list.by_age.front();
  const auto found = std::ranges::find_if(list.by_age, [&](const CheckpointSummary& one) {
    return one.found.manifest.iteration == *iteration;
  });
  if (found != list.by_age.end()) return *found;
  std::string known;
  for (const CheckpointSummary& one : list.by_age) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.found.manifest.iteration);
  }
  throw input_error(fmt::format("{}: has no checkpoint of iteration {}; there is: {}",
                                printable(folder), *iteration, known));
}

std::vector<LayerNumbers> numbers_by_layer(const CheckpointSummary& checkpoint) {
  const CheckpointReader reader(checkpoint.found.path, checkpoint.found.manifest);
  std::map<Place, LayerNumbers> layers;
  const std::vector<std::string> keys = reader.keys();
  for (const std::string& key : keys) {
    if (key == "losses") continue;  // of passes
    const Place place = place_of(key);
    LayerNumbers& layer = layers[place];
    layer.index = place.index;
    count(key, reader.size(key), layer);
  }
  std::vector<LayerNumbers> all;
  for (auto& [place, layer] : layers) {
    layer.name = name_of(place, checkpoint.facts);
    all.push_back(std::move(layer));
  }
  return all;
}

std::optional<std::string> find_fault(const CheckpointSummary& checkpoint) {
  const FoundCheckpoint& found = checkpoint.found;
  try {
    for (const CheckpointFile& file : found.manifest.files) {
      if (auto damage = find_damage(found.path, file)) return damage;
    }
    const CheckpointReader reader(found.path, found.manifest);
    if (checkpoint.facts.model) {
      check_trainable(*checkpoint.facts.model, found.path);
      return find_missing(reader, *checkpoint.facts.model, checkpoint.facts.passes);
    }
    return find_missing(reader,
                        parse_recommendation_model(checkpoint.facts.model_json, found.path));
  } catch (const Error& error) {
    return error.what();
  }
}

CheckpointSummary find_complete_checkpoint(const std::string& folder,
                                           std::optional<std::int64_t> iteration,
                                           const std::function<void(const std::string&)>& warn) {
  const CheckpointList list = list_checkpoints(folder);
  if (iteration) {
    const CheckpointSummary& one = choose_checkpoint(list, folder, iteration);
    if (const auto fault = find_fault(one)) throw input_error(*fault);
    return one;
  }
  for (const std::string& damage : list.damaged) warn(damage);
  std::string newest = list.damaged.empty() ? "" : list.damaged.front();
  for (const CheckpointSummary& one : list.by_age) {
    const std::optional<std::string> fault = find_fault(one);
    if (!fault) return one;
    if (newest.empty()) newest = *fault;
    warn(*fault);
  }
  throw input_error(
      fmt::format("{}: no checkpoint is complete; the newest: {}", printable(folder), newest));
}

}  // namespace pipesim::exec
