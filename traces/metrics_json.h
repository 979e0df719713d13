// Metrics as results in JSON have them: keys that are kept.
#pragma once

#include "traces/base/json.h"
#include "traces/memory.h"
#include "traces/metrics.h"

namespace pipesim {

Json bubble_json(const Bubble& bubble);
// What a rank holds at its fullest, by category.
Json memory_bytes_json(const RankMemory& memory);

}  // namespace pipesim
