// The arrays that a checkpoint of a model has to have.
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

// A parameter as an optimizer has it: its key with each of these behind it is an array.
struct ModelArray {
  std::string key;  // "layers.2.qkv.matrix"
  std::int64_t size = 0;
};
inline constexpr std::string_view weight_state = ".weight";
inline constexpr std::array<std::string_view, 3> optimizer_states{weight_state, ".first_moment",
                                                                  ".second_moment"};
// Behind the key of a parameter's sums, between passes of a step; more may follow.
inline constexpr std::string_view gradient_state = ".gradient";

// In the order of the model; a matrix that the head shares stands once. The model can be trained.
std::vector<ModelArray> states_of(const Model& model);
// The same of its gradients, of which the head has its own.
std::vector<ModelArray> gradients_of(const Model& model);

}  // namespace pipesim::exec
