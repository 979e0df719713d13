// TOML, parsed by the library toml++, as values that know their positions.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "traces/base/json_reader.h"

namespace pipesim {

// The document's tables as objects; dates and times are texts. Syntax errors are input errors
// that name `file`, line and column.
JsonValue parse_toml(std::string_view text, const std::string& file);

}  // namespace pipesim
