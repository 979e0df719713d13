#include "exec/saved/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/hash.h"
#include "exec/checkpoint/snapshot.h"
#include "exec/device/cpu/cpu_device.h"
#include "exec/saved/model_arrays.h"
#include "exec/saved/weight_file.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

Manifest manifest_of_import(const std::string& file, const MappedFile& mapped, const Model& model) {
  Json json;
  json["kind"] = "pipeline";
  json["model"] = Json::verbatim(to_json(model));
  json["imported"] = {{"name", std::filesystem::path(file).filename().string()},
                      {"bytes", mapped.bytes().size()},
                      {"hash", hash_of(mapped.bytes())}};
  json["step"] = 0;
  json["passes"] = 0;
  json["warmup_losses"] = Json::array();
  json["losses"] = Json::array();
  Manifest manifest;
  manifest.training = json.dump();
  return manifest;
}

}  // namespace

std::int64_t import_weights(const std::string& file, const Model& model, Disk& disk,
                            const std::string& folder) {
  const FoundCheckpoints there = find_checkpoints(folder);
  if (!there.by_age.empty() || !there.damaged.empty()) {
    throw input_error(
        fmt::format("--checkpoint {}: has a checkpoint; give another folder", printable(folder)));
  }
  const MappedFile mapped(file);
  WeightArrays weights = read_weights(mapped.bytes(), file, model);
  Manifest manifest = manifest_of_import(file, mapped, model);

  const std::vector<ModelArray> states = states_of(model);
  const std::int64_t largest = std::ranges::max(states, {}, &ModelArray::size).size;
  std::vector<float> zeros(static_cast<std::size_t>(largest));
  std::vector<SavedArray> arrays;
  for (const ModelArray& array : states) {
    for (const std::string_view state : optimizer_states) {
      std::vector<float>& numbers = state == weight_state ? weights.at(array.key) : zeros;
      arrays.push_back({array.key + std::string(state), array.size, Numbers::all(array.size),
                        Slice(numbers.data(), array.size, Number::float32)});
    }
  }
  const std::unique_ptr<Device> device = make_cpu_device();  // its memory is the host's
  Snapshot snapshot;
  snapshot.take(*device, arrays, false);
  CheckpointFolder saved(disk, folder, 1);
  saved.prepare();
  const CheckpointFile written =
      snapshot.write(disk, saved.open(manifest.iteration), CheckpointFolder::file_of(0));
  manifest.files.push_back(written);
  saved.publish(manifest);
  return written.bytes;
}

}  // namespace pipesim::exec
