// What a file is that was given as a trace but is not one. Pure; any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "traces/base/error.h"

namespace pipesim {

// For a file that does not even start as a trace; `head` is its first bytes, a few hundred if there
// are as many.
Error no_trace(const std::string& path, std::string_view head);

// For a JSON object without traceEvents: its members, each as JSON text.
Error no_trace(const std::string& path,
               const std::map<std::string, std::string, std::less<>>& members);

}  // namespace pipesim
