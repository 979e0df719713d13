#include "exec/run/saved_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace pipesim::exec {
namespace {

constexpr std::string_view losses_key = "losses";
constexpr std::string_view gradient = ".gradient";
// The states that an optimizer steps, by a key's suffix.
constexpr std::pair<std::string_view, Slice Piece::*> states[] = {
    {".weight", &Piece::weight},
    {".first_moment", &Piece::first},
    {".second_moment", &Piece::second}};

bool is_tied_head(const Model& model, int layer, std::size_t parameter) {
  return model.tied_head && model.is_head(layer) && parameter == tied_parameter;
}

Layer& layer_at(const std::vector<Layer*>& layers, int index) {
  return *layers[static_cast<std::size_t>(index - layers.front()->index())];
}

// Sums of gradients of a parameter, between passes.
struct Sums {
  int layer;
  Parameter* parameter;
  Range range;  // of the parameter's numbers
  Slice numbers;
};

// If replicas reduce them in every pass a rank has its part, else all that it has computed.
std::vector<Sums> sums_of(const TrainingJob& training, const Stage& stage) {
  std::vector<Sums> sums;
  const std::vector<Layer*> layers = plain(stage.layers());
  if (training.accumulation().reduces_each) {
    for (const Piece& piece : stage.store().pieces()) {
      Layer& layer = layer_at(layers, piece.layer);
      Parameter& parameter = layer.parameters()[static_cast<std::size_t>(piece.parameter)];
      sums.push_back({piece.layer, &parameter, piece.range, piece.gradient});
    }
    return sums;
  }
  for (Layer* layer : layers) {
    for (Parameter& parameter : layer->parameters()) {
      sums.push_back({layer->index(), &parameter, {0, parameter.size}, parameter.gradient});
    }
  }
  return sums;
}

// Which copy of a stage a rank has; copies count as replicas if sums are kept.
int copy_at(const TrainingJob& training, const SavedPlace& place, int stage) {
  return training.program.placement.rank_of(stage) == place.pipeline ? 0 : 1;
}

int keepers(const TrainingJob& training) {
  return training.data_parallel * training.program.placement.copies();
}

int keeper(const TrainingJob& training, const SavedPlace& place, int stage) {
  return place.replica * training.program.placement.copies() + copy_at(training, place, stage);
}

// The suffix of a key of sums: their owner, unless they are common to all.
std::string place_text(const TrainingJob& training, const Parameter& parameter, int replica,
                       int tensor) {
  std::string text(gradient);
  if (!training.accumulation().reduces_each) text += fmt::format(".replica.{}", replica);
  if (parameter.is_partial) text += fmt::format(".tensor.{}", tensor);
  return text;
}

// Those of all ranks, in the order of keys.
std::vector<std::string> place_texts(const TrainingJob& training, const Parameter& parameter) {
  std::vector<std::string> texts;
  for (int replica = 0; replica < keepers(training); ++replica) {
    for (int tensor = 0; tensor < training.tensor_parallel; ++tensor) {
      texts.push_back(place_text(training, parameter, replica, tensor));
    }
  }
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

// Whether a rank at that position, which has sums of a stage, also takes those of others.
bool comes_first(const TrainingJob& training, const Parameter& parameter, const SavedPlace& place,
                 int stage) {
  const bool by_replica = !training.accumulation().reduces_each;
  return (!by_replica || keeper(training, place, stage) == 0) &&
         (!parameter.is_partial || place.tensor == 0);
}

void read_sums(const TrainingJob& training, const SavedPlace& place, int stage,
               const CheckpointReader& checkpoint, const Sums& own, std::vector<float>& numbers) {
  const std::string key = own_key(training.model, own.layer, *own.parameter);
  const Numbers which = Numbers::of(*own.parameter, own.range);
  numbers.assign(static_cast<std::size_t>(own.range.size()), 0);
  std::vector<std::string> expected;
  for (const std::string& text : place_texts(training, *own.parameter)) {
    expected.push_back(key + text);
  }
  const std::vector<std::string> found = checkpoint.keys(key + std::string(gradient));
  if (found == expected) {
    checkpoint.read(
        key + place_text(training, *own.parameter, keeper(training, place, stage), place.tensor),
        which, numbers.data());
  } else if (comes_first(training, *own.parameter, place, stage)) {
    for (const std::string& one : found) checkpoint.add(one, which, numbers.data());
  }
}

// The losses of a pass on a rank with a head: their indices among its replica's of all passes so
// far, and among all.
struct OwnLosses {
  std::int64_t begin;
  std::int64_t size;
  Numbers numbers;
};
OwnLosses losses_at(const TrainingJob& training, const SavedPlace& place, int pass, int passes) {
  const std::int64_t each = training.replica_tokens();
  const Placement& placement = training.program.placement;
  OwnLosses own{pass * each, each / placement.copies(), Numbers::all(passes * training.tokens())};
  const std::int64_t part = copy_at(training, place, placement.stages() - 1) * own.size;
  own.begin += part;
  const std::int64_t begin =
      (std::int64_t{pass} * training.data_parallel + place.replica) * each + part;
  own.numbers.range = {begin, begin + own.size};
  return own;
}

}  // namespace

std::string own_key(const Model& model, int layer, const Parameter& parameter) {
  std::string name = parameter.name.substr(model.layer_name(layer).size() + 1);
  std::ranges::replace(name, ' ', '.');
  return fmt::format("layers.{}.{}", layer, name);
}

std::string states_key(const Model& model, int layer, std::size_t index,
                       const Parameter& parameter) {
  return is_tied_head(model, layer, index) ? "layers.0.table" : own_key(model, layer, parameter);
}

SavedPlace SavedPlace::of(const RankGroups& groups) {
  return {groups.pipeline.rank(), groups.replica, groups.tensor.rank(), groups.likes.rank(),
          groups.likes.ranks()};
}

std::vector<SavedArray> saved_arrays(const TrainingJob& training, const SavedPlace& place,
                                     const Stages& stages, int passes, const Slice& losses) {
  const Model& model = training.model;
  std::vector<SavedArray> arrays;
  for (const auto& stage : stages) {
    const std::vector<Layer*> layers = plain(stage->layers());
    const bool is_first = copy_at(training, place, stage->index()) == 0;
    for (const Piece& piece : stage->store().pieces()) {
      if (!is_first) break;  // which has the same ones
      const auto index = static_cast<std::size_t>(piece.parameter);
      const Parameter& parameter = layer_at(layers, piece.layer).parameters()[index];
      if (is_tied_head(model, piece.layer, index) || (piece.is_copy && place.tensor > 0)) continue;
      const Range part = Parts({piece.range.size()}, place.likes).part(0, place.like);
      if (part.size() == 0) continue;
      const Range range{piece.range.begin + part.begin, piece.range.begin + part.end};
      const std::string key = own_key(model, piece.layer, parameter);
      for (const auto& [name, numbers] : states) {
        arrays.push_back({key + std::string(name), parameter.whole_size,
                          Numbers::of(parameter, range),
                          (piece.*numbers).part(part.begin, part.size())});
      }
    }
    if (passes == 0) continue;
    const bool all_have_them = training.accumulation().reduces_each;
    for (const Sums& own : sums_of(training, *stage)) {
      const Parameter& parameter = *own.parameter;
      const bool is_anothers = (parameter.is_copy && !parameter.is_partial && place.tensor > 0) ||
                               (all_have_them && place.like > 0);
      if (is_anothers) continue;
      arrays.push_back({own_key(model, own.layer, parameter) +
                            place_text(training, parameter, keeper(training, place, stage->index()),
                                       place.tensor),
                        parameter.whole_size, Numbers::of(parameter, own.range), own.numbers});
    }
  }
  if (losses.empty() || place.tensor > 0) return arrays;
  for (int pass = 0; pass < passes; ++pass) {
    const OwnLosses own = losses_at(training, place, pass, passes);
    arrays.push_back({std::string(losses_key), passes * training.tokens(), own.numbers,
                      losses.part(own.begin, own.size)});
  }
  return arrays;
}

void load_states(const CheckpointReader& checkpoint, const Model& model, Device& device,
                 ParameterStore& store, const std::vector<Layer*>& layers) {
  store.load_weights([&](const Layer& layer, std::size_t index, float* to) {
    const Parameter& parameter = layer.parameters()[index];
    checkpoint.read(states_key(model, layer.index(), index, parameter) + ".weight",
                    Numbers::of(parameter, {0, parameter.size}), to);
  });
  std::vector<float> numbers;
  for (const Piece& piece : store.pieces()) {
    const auto index = static_cast<std::size_t>(piece.parameter);
    const Parameter& parameter = layer_at(layers, piece.layer).parameters()[index];
    const std::string key = states_key(model, piece.layer, index, parameter);
    numbers.resize(static_cast<std::size_t>(piece.range.size()));
    for (const auto& [name, own] : states) {
      if (own == &Piece::weight) continue;
      checkpoint.read(key + std::string(name), Numbers::of(parameter, piece.range), numbers.data());
      device.upload((piece.*own).memory(), numbers.data(), (piece.*own).bytes());
    }
  }
}

void load_passes(const TrainingJob& training, const SavedPlace& place,
                 const CheckpointReader& checkpoint, Device& device, Stages& stages, int passes,
                 const Slice& losses) {
  if (passes == 0) return;
  std::vector<float> numbers;
  for (const auto& stage : stages) {
    for (const Sums& own : sums_of(training, *stage)) {
      read_sums(training, place, stage->index(), checkpoint, own, numbers);
      device.upload(own.numbers.memory(), numbers.data(), own.numbers.bytes());
    }
    if (training.accumulation().reduces_each) continue;
    for (Layer* layer : plain(stage->layers())) layer->continue_sums();
  }
  if (losses.empty()) return;
  for (int pass = 0; pass < passes; ++pass) {
    const OwnLosses own = losses_at(training, place, pass, passes);
    numbers.resize(static_cast<std::size_t>(own.size));
    checkpoint.read(losses_key, own.numbers, numbers.data());
    const Slice there = losses.part(own.begin, own.size);
    device.upload(there.memory(), numbers.data(), there.bytes());
  }
}

}  // namespace pipesim::exec
