// `pipesim predict --list-ranks`: which rank of a training is where, and in which groups.
#pragma once

#include <string>

#include "sim/cli/prediction.h"

namespace pipesim::cli {

// The ranks of the training that the flags ask for, as text or as one JSON object. Throws an input
// error if they ask for none, or for more ranks than a list has.
std::string rank_list(const PredictFlags& flags, bool as_json, int width);

}  // namespace pipesim::cli
