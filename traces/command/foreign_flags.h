// Other programs' flag names, not shown in help.
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
  std::vector<Name> names;       // with the same meaning as our own
  std::vector<Missing> missing;  // of what we do not have
};

// Those of Megatron-LM and torchtitan, and the short names of papers.
ForeignFlags trainers_flags();

}  // namespace pipesim
