#include "exec/cli/checkpoint_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

std::string layout_words(const CheckpointFacts& facts) {
  if (!facts.layout) return facts.imported ? "imported" : "-";
  const SavedLayout& layout = *facts.layout;
  // A schedule may be a file.
  constexpr std::size_t longest = 20;
  std::string words = layout.program;
  if (words.size() > longest) words = "..." + words.substr(words.size() - longest + 3);
  words = printable(words);
  if (facts.kind == TrainingKind::input_pipeline) {
    return fmt::format("{}, {}", words, plural(layout.replicas, "rank"));
  }
  words += ", " + plural(layout.stages, "stage");
  if (layout.replicas > 1) words += fmt::format(", {} replicas", layout.replicas);
  if (layout.shards > 1) words += fmt::format(", {} shards", layout.shards);
  if (layout.zero > 0) words += fmt::format(", ZeRO {}", layout.zero);
  return words;
}

std::string how_far(const CheckpointFacts& facts) {
  return facts.passes == 0 ? std::to_string(facts.step)
                           : fmt::format("{} + {}", facts.step, facts.passes);
}

std::string_view name_of_marks(const CheckpointSummary& one) {
  if (one.found.is_incoming) return "  not yet named";
  return one.is_latest ? "  latest" : "";
}

std::string list_table(const CheckpointList& list) {
  const bool is_input = list.by_age.front().facts.kind == TrainingKind::input_pipeline;
  std::string out = fmt::format("{:>9}  {:>8}  {:>9}  {:>5}  layout\n", "iteration",
                                is_input ? "epoch" : "step", "bytes", "files");
  bool has_passes = false;
  for (const CheckpointSummary& one : list.by_age) {
    has_passes = has_passes || one.facts.passes > 0;
    out +=
        fmt::format("{:>9}  {:>8}  {:>9}  {:>5}  {}{}\n", one.found.manifest.iteration,
                    how_far(one.facts), format_bytes(one.bytes()), one.found.manifest.files.size(),
                    layout_words(one.facts), name_of_marks(one));
  }
  if (has_passes) {
    out += fmt::format("  + {} of the next\n", is_input ? "batches" : "passes");
  }
  return out;
}

std::string model_words(const CheckpointFacts& facts) {
  const std::string name = printable(facts.model_name);
  if (!facts.model) return name;
  const Model& model = *facts.model;
  return fmt::format("{}: {}, hidden size {}, {} parameters", name, plural(model.blocks, "block"),
                     model.hidden_size, format_count(model.parameters()));
}

std::string detail_lines(const CheckpointSummary& one) {
  const CheckpointFacts& facts = one.facts;
  std::string out = fmt::format("iteration {}\n", one.found.manifest.iteration);
  out += fmt::format("model   {}\n", model_words(facts));
  if (facts.imported) out += fmt::format("from    {}\n", printable(*facts.imported));
  if (facts.data) {
    out += fmt::format("{}    {}\n", facts.model ? "text" : "data", printable(*facts.data));
  }
  if (facts.seed) out += fmt::format("seed    {}\n", printable(*facts.seed));
  if (!facts.losses.empty()) {
    out += fmt::format("losses  {:.4f} at first, {:.4f} at last, of {}\n", facts.losses.front(),
                       facts.losses.back(),
                       plural(static_cast<std::int64_t>(facts.losses.size()),
                              facts.model ? "step" : "batch", facts.model ? "" : "batches"));
  }
  return out;
}

// Consecutive layers with the same numbers.
struct LikeLayers {
  std::string name;
  std::size_t first = 0;
  std::size_t count = 1;
};

bool are_alike(const LayerNumbers& one, const LayerNumbers& other) {
  const auto kind = [](const LayerNumbers& layer) {
    return layer.name.substr(0, layer.name.find(' '));
  };
  return kind(one) == kind(other) && one.parameters == other.parameters &&
         one.weights == other.weights && one.moments == other.moments &&
         one.gradients == other.gradients;
}

std::vector<LikeLayers> like_layers(const std::vector<LayerNumbers>& layers) {
  std::vector<LikeLayers> all;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t end = first + 1;
    while (end < layers.size() && are_alike(layers[first], layers[end])) ++end;
    LikeLayers& like = all.emplace_back();
    like.first = first;
    like.count = end - first;
    like.name = printable(layers[first].name);
    if (like.count > 1) {
      const std::string& last = layers[end - 1].name;
      like.name = fmt::format("{} to {}, each", like.name, last.substr(last.find(' ') + 1));
    }
    first = end;
  }
  return all;
}

std::string number_row(const std::string& name, const LayerNumbers& layer) {
  const auto cell = [](std::int64_t count) { return count == 0 ? "-" : format_count(count); };
  return fmt::format("{:<20} {:>10} {:>15} {:>15} {:>15}\n", name, cell(layer.parameters),
                     cell(layer.weights), cell(layer.moments), cell(layer.gradients));
}

LayerNumbers sum_of(const std::vector<LayerNumbers>& layers) {
  LayerNumbers sum;
  for (const LayerNumbers& layer : layers) {
    sum.parameters += layer.parameters;
    sum.weights += layer.weights;
    sum.moments += layer.moments;
    sum.gradients += layer.gradients;
  }
  return sum;
}

std::string number_table(const std::vector<LayerNumbers>& layers) {
  std::string out = fmt::format("{:<20} {:>10} {:>15} {:>15} {:>15}\n", "numbers of", "parameters",
                                "weights", "moments", "gradients");
  for (const LikeLayers& like : like_layers(layers)) {
    out += number_row(like.name, layers[like.first]);
  }
  return out + number_row("total", sum_of(layers));
}

Json numbers_json(const LayerNumbers& layer) {
  return {{"parameters", layer.parameters},
          {"weights", layer.weights},
          {"moments", layer.moments},
          {"gradients", layer.gradients}};
}

Json summary_json(const CheckpointSummary& one) {
  const CheckpointFacts& facts = one.facts;
  const bool is_input = facts.kind == TrainingKind::input_pipeline;
  Json json;
  json["name"] = one.name();
  json["iteration"] = one.found.manifest.iteration;
  json["kind"] = is_input ? "input-pipeline" : "pipeline";
  json[is_input ? "epoch" : "step"] = facts.step;
  json[is_input ? "batch" : "passes"] = facts.passes;
  json["is_latest"] = one.is_latest;
  json["bytes"] = one.bytes();
  json["files"] = one.found.manifest.files.size();
  json["model"] = facts.model_name;
  json["seed"] = facts.seed;
  json["data"] = facts.data;
  json["imported"] = facts.imported;
  if (!facts.layout) {
    json["layout"] = nullptr;
  } else if (is_input) {
    json["layout"] = {{"input_pipeline", facts.layout->program}, {"ranks", facts.layout->replicas}};
  } else {
    json["layout"] = {{"schedule", facts.layout->program},
                      {"pipeline_parallel", facts.layout->stages},
                      {"data_parallel", facts.layout->replicas},
                      {"tensor_parallel", facts.layout->shards},
                      {"zero", facts.layout->zero}};
  }
  json["losses"] = facts.losses;
  return json;
}

}  // namespace

std::string checkpoint_text(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers) {
  std::string out = list_table(list);
  for (const std::string& damage : list.damaged) out += fmt::format("damaged: {}\n", damage);
  out += "\n" + detail_lines(one) + "\n";
  if (!numbers.fault.empty()) return out + fmt::format("damaged: {}\n", numbers.fault);
  return out + number_table(numbers.layers);
}

std::string checkpoint_json(const CheckpointList& list, const CheckpointSummary& one,
                            const ShownNumbers& numbers) {
  Json json{{"format", "pipesim-checkpoint-list"}, {"version", 1}};
  Json all = Json::array();
  for (const CheckpointSummary& summary : list.by_age) all.push_back(summary_json(summary));
  json["checkpoints"] = std::move(all);
  Json damaged = Json::array();
  for (const std::string& damage : list.damaged) damaged.push_back(damage);
  json["damaged"] = std::move(damaged);
  Json shown{{"iteration", one.found.manifest.iteration}};
  shown["fault"] = numbers.fault.empty() ? Json() : Json(numbers.fault);
  Json layers = Json::array();
  for (const LayerNumbers& layer : numbers.layers) {
    Json row = numbers_json(layer);
    row["name"] = layer.name;
    layers.push_back(std::move(row));
  }
  shown["layers"] = std::move(layers);
  shown["total"] = numbers_json(sum_of(numbers.layers));
  json["numbers"] = std::move(shown);
  return json.dump(2) + "\n";
}

std::string completeness(const CheckpointSummary& checkpoint) {
  return fmt::format(
      "complete, {}, {}",
      plural(static_cast<std::int64_t>(checkpoint.found.manifest.files.size()), "file"),
      format_bytes(checkpoint.bytes()));
}

}  // namespace pipesim::exec
