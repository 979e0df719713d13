// Activation bytes of a block, against the closed forms of table 2 of
// Korthikanti et al. A formula is tested, not an allocator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/hardware/cluster.h"

namespace pipesim::validation {

struct BytesRow {
  std::string name;
  std::string formula;
  std::string shape;
  std::int64_t closed_form = 0;  // rounded to whole bytes
  std::int64_t computed = 0;
};

// Throws what read_rows() does.
std::vector<BytesRow> activation_bytes(const std::string& folder, const Cluster& cluster);

}  // namespace pipesim::validation
