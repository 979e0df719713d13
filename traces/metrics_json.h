// Metrics and warnings as in JSON results: the keys are stable.
#pragma once

#include "traces/base/json.h"
#include "traces/memory.h"
#include "traces/metrics.h"
#include "traces/warnings.h"

namespace pipesim {

Json bubble_json(const Bubble& bubble);
Json critical_path_json(const CriticalPath& path);
// A rank's peak memory, by category.
Json memory_bytes_json(const RankMemory& memory);
Json warnings_json(const Warnings& warnings);

}  // namespace pipesim
