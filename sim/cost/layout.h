// The number of layers on each virtual stage.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim {

struct Layout {
  std::vector<int> layers;  // of each virtual stage
  std::string letters;      // of each layer, in order; empty if only numbers were given
};

// "3,2,2,2", or Megatron-LM's pipeline layout such as "Et*3|(tt|)*29,m|L",
// where every letter (embedding E, decoder t, multi-token prediction m, loss
// L) is a layer, | ends a stage, *N repeats what comes before it, and commas
// are decoration. Anything else is the name of a file that holds one of them.
Layout parse_layout(std::string_view text);

// Refuses letters that are not the model's layers in their order: E the
// embedding, t each block, L the head. A listed model's layers are only counted,
// and resolve_layout() checks their number.
void check_letters(const Layout& layout, const Model& model);

// The layout in the form of Megatron-LM's --pipeline-model-parallel-layout, for a model
// of an embedding, blocks and a head: "Et*3|(tt|)*29,tL" for 4,2,...,2. Its
// stages are all ranks' first chunks, then all second ones: virtual stages, if
// the placement is a loop. An input error if a stage has no layer, or all
// together fewer than the embedding and the head.
std::string to_megatron_layout(const std::vector<int>& layout);

// As even as possible, the larger stages first: 9 layers on 4 stages are 3,2,2,2.
std::vector<int> even_layout(int layers, int stages);

// Blocks as even as possible, the remainder from the second stage on: the ends also have the
// embedding and the head, with what predicts further tokens.
std::vector<int> usual_layout(const Model& model, int stages);

// A stage ends with the first layer that brings the FLOPs so far over its part of all, as far as
// each stage has a layer (nanotron, src/nanotron/models/base.py, build_model).
std::vector<int> layout_by_cost(const Model& model, int stages);

// The given layout, or an even one: how many of `layers` each of
// `stages` holds. `name` names the layers' source in errors.
std::vector<int> resolve_layout(const std::optional<std::vector<int>>& given, int layers,
                                int stages, std::string_view name);

}  // namespace pipesim
