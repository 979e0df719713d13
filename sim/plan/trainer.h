// What the trainers that plans are exported for can do, of the axes of a plan.
//
// Constants and pure functions; any thread.
#pragma once

#include <string_view>

#include "sim/plan/space.h"

namespace pipesim {

struct PlanTrainer {
  std::string_view format;    // of --export; empty: none
  std::string_view imported;  // the format that its configurations are imported from
  std::string_view name;      // "Megatron-LM"
  std::string_view software;  // the preset; empty: a device's default
  bool (*has_schedule)(const Family&);
  bool (*has_recompute)(const Recompute&, const Model&);
  bool (*has_replicas)(const PlanReplicas&, int stages);
  // Of a point whose values it all has, whether it has them together.
  bool (*has_point)(const PlanPoint&, int microbatches);
};

// Throws an input error, in the words of --export, if there is none.
const PlanTrainer& plan_trainer(std::string_view format);
// The one whose configurations an import names so. Expects that there is one.
const PlanTrainer& imported_trainer(std::string_view format);

// torch.distributed.pipelining's name of a family that it generates by itself, or empty.
std::string_view pytorch_schedule(const Family& family);

}  // namespace pipesim
