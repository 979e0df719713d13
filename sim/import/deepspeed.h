// Imports a DeepSpeed configuration, as defined by its deepspeed/runtime/config.py and
// zero/config.py. It describes how a model is trained, but not the model.
//
// Pure; any thread.
#pragma once

#include "sim/import/imported.h"
#include "traces/base/json_reader.h"

namespace pipesim {

Imported read_deepspeed(const JsonCursor& root, const ImportQuestion& question);

}  // namespace pipesim
