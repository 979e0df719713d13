// The costs of a virtual stage from those of its layers.
//
// Times and bytes add up, except for workspace: since a backward frees what layers have kept, from
// the last one on, the workspace of the layer at which it holds most counts. The stage sends its
// last layer's output. Plain value.
#pragma once

#include <string>

#include "sim/cost/costs.h"

namespace pipesim {

class StageSum {
 public:
  // For errors: whose layers, such as "c.json: the layers of a stage", and what to do.
  StageSum(std::string whose, std::string remedy)
      : whose_(std::move(whose)), remedy_(std::move(remedy)) {}

  // Adds `count` identical layers. Throws if they exceed what a stage of a file may take.
  void add(const StageCosts& layer, int count = 1);
  const StageCosts& costs() const { return sum_; }

 private:
  void add(std::int64_t StageCosts::*field, const StageCosts& layer, int count, std::int64_t most,
           std::string_view unit);

  std::string whose_, remedy_;
  StageCosts sum_;
};

// Converts the closing work of stages, or of their layers, to that of the ranks that hold them.
void sum_closing(const Placement& placement, Costs& costs);

}  // namespace pipesim
