// How many layers each virtual stage holds.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace pipesim {

// "3,2,2,2", or Megatron-LM's pipeline layout such as "Et*3|(tt|)*29,m|L",
// where every letter (embedding E, decoder t, multi-token prediction m, loss
// L) is a layer, | ends a stage, *N repeats what stands before it, and commas
// are decoration. Anything else is the name of a file that holds one of them.
std::vector<int> parse_layout(std::string_view text);

// As even as can be, the larger stages first: 9 layers on 4 stages are 3,2,2,2.
std::vector<int> even_layout(int layers, int stages);

// The layout that was given, or an even one: how many of `layers` each of
// `stages` holds. `name` is what has the layers, in errors.
std::vector<int> resolve_layout(const std::optional<std::vector<int>>& given, int layers,
                                int stages, std::string_view name);

}  // namespace pipesim
