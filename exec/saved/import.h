// Imports weights as a checkpoint of iteration 0, from which any training of their model can start.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>

#include "exec/checkpoint/disk.h"
#include "sim/cost/model.h"

namespace pipesim::exec {

// Reads a file with Hugging Face's names and saves it to a folder, with moments of 0; returns the
// number of bytes. Throws an input error if the folder already has a checkpoint, and as
// read_weights() does.
std::int64_t import_weights(const std::string& file, const Model& model, Disk& disk,
                            const std::string& folder);

}  // namespace pipesim::exec
