// The arrays that a checkpoint of a model must have.
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim::exec {

// A parameter with its optimizer states: its key with each of these suffixes is an array.
struct ModelArray {
  std::string key;  // "layers.2.qkv.matrix"
  std::int64_t size = 0;
};
inline constexpr std::string_view weight_state = ".weight";
inline constexpr std::array<std::string_view, 3> optimizer_states{weight_state, ".first_moment",
                                                                  ".second_moment"};
// The suffix of a parameter's sums between passes of a step; more may follow.
inline constexpr std::string_view gradient_state = ".gradient";

// In the order of the model; a matrix that the head shares occurs once. The model must be
// trainable.
std::vector<ModelArray> states_of(const Model& model);
// The same for its gradients; the head has its own.
std::vector<ModelArray> gradients_of(const Model& model);

}  // namespace pipesim::exec
