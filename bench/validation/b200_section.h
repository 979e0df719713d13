// The part of the report on iterations and peaks of memory measured on B200.
//
// A pure function; any thread.
#pragma once

#include <string>

#include "bench/validation/findings.h"

namespace pipesim::validation {

std::string b200_section(const Findings& findings);

}  // namespace pipesim::validation
