// bench/VALIDATION.md, from the findings. Pure; any thread.
#pragma once

#include <string>

#include "bench/validation/findings.h"

namespace pipesim::validation {

// `folder` holds the figures that are listed but not predicted. The same
// findings give the same bytes.
std::string validation_report(const Findings& findings, const std::string& folder);

}  // namespace pipesim::validation
