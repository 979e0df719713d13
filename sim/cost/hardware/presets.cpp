#include "sim/cost/hardware/presets.h"

#include <fmt/format.h>

#include "sim/cost/hardware/cluster.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::vector<std::string> names_of(const Presets& presets) {
  std::vector<std::string> names;
  names.reserve(presets.size());
  for (const auto& [name, text] : presets) names.push_back(name);
  return names;
}

std::string_view text_of(const Presets& presets, std::string_view what, const std::string& name) {
  const auto found = presets.find(name);
  if (found == presets.end()) throw input_error(unknown_name(what, name, names_of(presets)));
  return found->second;
}

}  // namespace

bool names_file(std::string_view name) {
  return name.ends_with(".json") || name.find('/') != std::string_view::npos;
}

std::vector<std::string> known_devices() { return names_of(device_presets()); }

std::vector<std::string> known_clusters() { return names_of(cluster_presets()); }

std::string_view device_preset(const std::string& name) {
  return text_of(device_presets(), "device", name);
}

std::string_view cluster_preset(const std::string& name) {
  return text_of(cluster_presets(), "cluster", name);
}

DeviceSpec find_device(const std::string& name_or_file) {
  if (names_file(name_or_file)) return parse_device(read_file(name_or_file), name_or_file);
  DeviceSpec device = parse_device(device_preset(name_or_file), name_or_file + ".json");
  device.preset = name_or_file;
  return device;
}

Cluster find_cluster(const std::string& name_or_file) {
  if (names_file(name_or_file)) return parse_cluster(read_file(name_or_file), name_or_file);
  if (!cluster_presets().contains(name_or_file)) {
    throw input_error(fmt::format("--cluster: {}; or give a file that ends in .json",
                                  unknown_name("cluster", name_or_file, known_clusters())));
  }
  return parse_cluster(cluster_preset(name_or_file), name_or_file + ".json");
}

}  // namespace pipesim
