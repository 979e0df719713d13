// The flags of checkpoints, and the report of their cost.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/save_effect.h"
#include "sim/request/request.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

struct SaveFlags {
  Flag every, storage, bytes, copy;
  bool beside = false;

  bool operator==(const SaveFlags&) const = default;
};

std::vector<FlagHelp> all_save_flags(SaveFlags& flags);

// Sets what the flags ask for in the request.
void ask_for_saves(const SaveFlags& flags, PredictionRequest& request);

// One sentence, with a line end.
std::string save_line(const SaveEffect& effect);

}  // namespace pipesim::cli
