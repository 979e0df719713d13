// Weights as a file of safetensors by Hugging Face's names (published_weights.h).
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

// Writes a checkpoint's weights, as float32; says how many tensors these are.
std::size_t write_weights(const CheckpointReader& checkpoint, const Model& model, OutputFile& file);

// Whole arrays of ours, by key.
using WeightArrays = std::map<std::string, std::vector<float>>;

// Reads F32, F16 and BF16. A tensor that is missing, one too many, of another shape or type is an
// input error that names `path`.
WeightArrays read_weights(std::span<const std::byte> file, const std::string& path,
                          const Model& model);

}  // namespace pipesim::exec
