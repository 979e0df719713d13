// The costs of a virtual stage from those of its layers.
//
// Times and bytes add up, but for workspace: that of the layer counts with which a backward holds
// most, since it lets go of what layers have kept, from the last one on. What the stage sends is
// its last layer's output. Plain value.
#pragma once

#include <string>

#include "sim/cost/costs.h"

namespace pipesim {

class StageSum {
 public:
  // In errors: whose layers, such as "c.json: the layers of a stage", and what to do.
  StageSum(std::string whose, std::string remedy)
      : whose_(std::move(whose)), remedy_(std::move(remedy)) {}

  // So many layers that are alike. Throws where they exceed what a stage of a file may take.
  void add(const StageCosts& layer, int count = 1);
  const StageCosts& costs() const { return sum_; }

 private:
  void add(std::int64_t StageCosts::*field, const StageCosts& layer, int count, std::int64_t most,
           std::string_view unit);

  std::string whose_, remedy_;
  StageCosts sum_;
};

// The closing work of stages, or of their layers, becomes that of the ranks that hold them.
void sum_closing(const Placement& placement, Costs& costs);

}  // namespace pipesim
