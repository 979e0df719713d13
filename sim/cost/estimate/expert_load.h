// How tokens spread over a block's experts: the rows that each rank's experts get.
//
// Plain values and pure functions; any thread. Errors are input errors, in the words of the command
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/cost/model.h"

namespace pipesim {

struct Training;

// A factor; or shares of the tokens, of which those of an expert-parallel group's fullest rank
// determine the factor.
struct ExpertLoad {
  double factor = 1;    // rows of the fullest rank relative to the mean
  double exponent = 0;  // above 0: the i-th most popular expert gets 1 / i^exponent (Zipf)
  // Tokens by expert, for each measured layer.
  std::shared_ptr<const std::vector<std::vector<double>>> counts{};
  std::string name = "balanced";  // as given

  // Of so many experts over so many ranks, each with a block of neighbours; at least 1. Of measured
  // layers the mean.
  double imbalance(std::int64_t experts, std::int64_t ranks) const;
};

// "balanced", a factor such as "1.3", "zipf:0.5", or a file of token counts: a line for each layer,
// numbers separated by commas or blanks.
ExpertLoad parse_expert_load(const std::string& text);
// Refuses counts of another number of experts.
void check_expert_load(const ExpertLoad& load, const Model& model);

// For one block and microbatch, on the fullest rank.
struct ExpertRows {
  std::int64_t tokens = 0;     // that a rank routes
  std::int64_t experts = 0;    // of a rank
  std::int64_t rows_each = 0;  // of each, rounded up
  double copies = 0;           // that a rank sends, to itself included
  double rows = 0;             // that a rank's experts get
  double imbalance = 1;        // those that it gets relative to the mean
  double dropped = 0;          // share of the fullest rank's copies that capacity drops
  bool is_spread = false;      // tokens go to other ranks, or come from them
};
ExpertRows expert_rows(const Model& model, const Training& training);

// Of `groups` equal groups of experts, how many a token's experts are in, on average, if all
// choices are alike: G (1 - C(E - E/G, k) / C(E, k)).
double distinct_groups(std::int64_t experts, std::int64_t per_token, std::int64_t groups);

}  // namespace pipesim
