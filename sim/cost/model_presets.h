// The files on models that are part of the program. Constant; any thread.
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
// What transformers' types of models are made of: see hugging_face.cpp.
std::string_view hugging_face_types();

}  // namespace pipesim
