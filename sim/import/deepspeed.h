// A configuration of DeepSpeed, as its deepspeed/runtime/config.py and zero/config.py have it.
// It says how a model is trained, and not which.
//
// Pure; any thread.
#pragma once

#include "sim/import/imported.h"
#include "traces/base/json_reader.h"

namespace pipesim {

Imported read_deepspeed(const JsonCursor& root, const ImportQuestion& question);

}  // namespace pipesim
