// Weights become a checkpoint of iteration 0, from which any training of their model starts.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>

#include "exec/checkpoint/disk.h"
#include "sim/cost/model.h"

namespace pipesim::exec {

// Reads a file by Hugging Face's names and saves it to a folder, with moments of 0; says how many
// bytes that is. A folder that has a checkpoint already is an input error, as is whatever
// read_weights() refuses.
std::int64_t import_weights(const std::string& file, const Model& model, Disk& disk,
                            const std::string& folder);

}  // namespace pipesim::exec
