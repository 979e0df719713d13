// Imports a torchtitan job's TOML, as defined by its torchtitan/config/job_config.py until February
// 2026 (the commit before 9810191bb), when configurations became Python.
//
// Pure; any thread.
#pragma once

#include "sim/import/imported.h"
#include "traces/base/json_reader.h"

namespace pipesim {

Imported read_torchtitan(const JsonCursor& root, const ImportQuestion& question);

// torchtitan's name for a model, such as "llama3" and "8B"; empty if it has no such model.
struct TorchtitanName {
  std::string name, flavor;
};
TorchtitanName torchtitan_name(const Model& model);

// Layers of each virtual stage as torchtitan deals them out by default: the embedding and the head
// count as one block each, or as `first` and `last` of them; the first stages get the remainder.
std::vector<std::int64_t> torchtitan_layout(std::int64_t blocks, std::int64_t stages,
                                            std::int64_t first = 1, std::int64_t last = 1);

}  // namespace pipesim
