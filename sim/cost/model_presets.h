// The files of models that are part of the program. Constant; any thread.
#pragma once

#include <string_view>
#include <vector>

namespace pipesim {

struct ModelPreset {
  std::string_view name;
  std::string_view text;  // a pipesim-model
};

// In the order in which they are listed.
const std::vector<ModelPreset>& model_presets();

}  // namespace pipesim
