// Models by the config.json of Hugging Face's transformers.
//
// Read are gpt2, gpt_neox, llama, mistral, qwen2, qwen3, gemma, mixtral and
// qwen3_moe, told apart by `model_type` or else `architectures`. traces/FORMAT.md
// says which keys count, and what is not modelled. Plain values; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/model.h"
#include "traces/base/json_reader.h"

namespace pipesim {

// Whether a document is one of transformers' rather than our own.
bool is_hugging_face(const JsonValue& document);

// Throws an input error if the model has parts that Model can't express. Appends to `notes`, if
// given, unknown keys and settings that are approximated by others.
Model read_hugging_face(const JsonCursor& root, std::vector<std::string>* notes);

}  // namespace pipesim
