// The meaning of Megatron-LM's other arguments for a prediction.
//
// Pure; any thread.
#pragma once

#include <string>

#include "sim/import/arguments.h"

namespace pipesim {

struct MegatronRemark {
  std::string why;       // it is not modelled, or how nearly; empty if it changes nothing
  bool is_near = false;  // modelled nearly
};

MegatronRemark megatron_remark(const Arguments::Argument& argument);

}  // namespace pipesim
