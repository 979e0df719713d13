// What a model computes, from the definitions: plain loops in double, one
// microbatch at a time, no tensors, nothing kept.
//
// Shares with the executor the model's description, the names of parameters
// and the random words that decide what dropout drops; none of its code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim::testing {

using Doubles = std::vector<double>;

// By the name of the parameter. Embedding and head of a tied model each have
// the matrix, so that a derivative can be by either use of it.
using Weights = std::map<std::string, Doubles>;

struct OracleBatch {
  std::int64_t sequence = 1;          // positions of each sequence
  std::vector<std::int32_t> tokens;   // sequence by sequence
  std::vector<std::int32_t> targets;  // likewise
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sequence = 0;
};

// -log p(target), token by token.
Doubles oracle_losses(const Model& model, const Weights& weights, const OracleBatch& batch);

}  // namespace pipesim::testing
