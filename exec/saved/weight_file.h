// Weights as a safetensors file with Hugging Face's names (published_weights.h).
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/reader.h"
#include "exec/saved/published_weights.h"
#include "traces/base/files.h"

namespace pipesim::exec {

// Writes a checkpoint's weights, as float32; returns the number of tensors.
std::size_t write_weights(const CheckpointReader& checkpoint, const Model& model, OutputFile& file);

// Our whole arrays, by key.
using WeightArrays = std::map<std::string, std::vector<float>>;

// Reads F32, F16 and BF16. Throws an input error that names `path` for a missing or extra tensor,
// and for one of another shape or type.
WeightArrays read_weights(std::span<const std::byte> file, const std::string& path,
                          const Model& model);

}  // namespace pipesim::exec
