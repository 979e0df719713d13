// Models by the config.json of Hugging Face's transformers.
//
// Its type, `model_type` or else one of `architectures`, is one of hugging_face_types.json.
// traces/FORMAT.md says which are read and which keys count. Plain values; any thread.
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

// Changes what the keys of a pipesim-model say differs from an architecture.
void apply_differences(const JsonCursor& differences, Model& model);

}  // namespace pipesim
