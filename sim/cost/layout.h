// How many layers each virtual stage holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim {

struct Layout {
  std::vector<int> layers;  // of each virtual stage
  std::string letters;      // of each layer, in order; empty where only numbers were given
};

// "3,2,2,2", or Megatron-LM's pipeline layout such as "Et*3|(tt|)*29,m|L",
// where every letter (embedding E, decoder t, multi-token prediction m, loss
// L) is a layer, | ends a stage, *N repeats what stands before it, and commas
// are decoration. Anything else is the name of a file that holds one of them.
Layout parse_layout(std::string_view text);

// Refuses letters that are not the model's layers in their order: E the
// embedding, t each block, L the head. A listed model's layers are only counted,
// and how many there are is for resolve_layout() to say.
void check_letters(const Layout& layout, const Model& model);

// The layout as Megatron-LM's --pipeline-model-parallel-layout takes it, of a model
// that is an embedding, blocks and a head: "Et*3|(tt|)*29,tL" of 4,2,...,2. Its
// stages are all ranks' first chunks, then all second ones: virtual stages, where
// the placement is a loop. An input error where a stage holds no layer, or all
// together less than the embedding and the head.
std::string to_megatron_layout(const std::vector<int>& layout);

// As even as can be, the larger stages first: 9 layers on 4 stages are 3,2,2,2.
std::vector<int> even_layout(int layers, int stages);

// The layout that was given, or an even one: how many of `layers` each of
// `stages` holds. `name` is what has the layers, in errors.
std::vector<int> resolve_layout(const std::optional<std::vector<int>>& given, int layers,
                                int stages, std::string_view name);

}  // namespace pipesim
