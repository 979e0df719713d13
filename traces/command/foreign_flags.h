// Names of flags that other programs have, which no help shows.
//
// Plain values; any thread.
#pragma once

#include <string>
#include <vector>

namespace pipesim {

struct ForeignFlags {
  struct Name {
    std::string foreign, own;
  };
  struct Missing {
    std::string foreign, what;  // "context parallelism"
  };
  std::vector<Name> names;       // that mean the same as our own
  std::vector<Missing> missing;  // of what there is not here
};

// Those of Megatron-LM and torchtitan.
ForeignFlags trainers_flags();

}  // namespace pipesim
