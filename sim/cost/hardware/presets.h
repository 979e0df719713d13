// The files of devices, clusters and software that are part of the program. Constant; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace pipesim {

// Texts by name.
using Presets = std::map<std::string, std::string_view, std::less<>>;

const Presets& device_presets();
const Presets& cluster_presets();
const Presets& software_presets();
// What predictions were validated on: see sim/cost/estimate/error_band.h.
std::string_view validated_sets();

// A name that ends in .json or has a slash is a file's, any other a preset's.
bool names_file(std::string_view name);

}  // namespace pipesim
