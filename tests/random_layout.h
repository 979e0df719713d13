// Random trainings with replicas, as flags of pipeexec: the same for the same seed everywhere.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/files.h"

namespace pipesim::testing {

struct RandomLayout {
  int ranks = 1;  // of all replicas
  std::vector<std::string> flags;

  std::string text() const;  // the flags as one line
};
// A random program, split and sharded somehow, that is verified on a small model with JSON as its
// result. On 8 ranks at most. Its files are written to the folder.
RandomLayout random_layout(std::mt19937_64& random, const TemporaryFolder& folder);

// How many layouts a test tries: so many, or PIPESIM_RANDOM_LAYOUTS.
int random_layouts(int usual);

}  // namespace pipesim::testing
