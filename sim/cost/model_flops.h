// FLOPs of a model's products, of the forward of one sequence; a backward has twice as many.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>

#include "sim/cost/model.h"

namespace pipesim {

// Of attention's core: scores, and their product with values. Both halves of what tokens see are
// counted, as published utilisations do (Narayanan et al., arXiv 2104.04473): without a window
// all pairs.
double core_flops(const Model& model, const BlockKind& kind, std::int64_t length);
// Of a layer that is not listed; with its experts, those that a token goes through, and with
// capacity this share of them.
double layer_flops(const Model& model, int layer, std::int64_t length, double routed = 1);

}  // namespace pipesim
