// Imports arguments of Megatron-LM's pretrain_gpt.py, as defined by its
// megatron/training/arguments.py and transformer_config.py (commit d98e8a64).
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "sim/import/imported.h"

namespace pipesim {

// Whether a text contains any that say how a model is split, or how large it is.
bool has_megatron_arguments(std::string_view text);

// Reads a list, or a shell script: its command that has them or, if none has, all its variables.
Imported read_megatron(std::string_view text, const std::string& file,
                       const ImportQuestion& question);

}  // namespace pipesim
