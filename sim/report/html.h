// A comparison as one HTML page: verdict, picture, where the gap comes
// from, causes, tables. It needs no other file and no network.
#pragma once

#include <string>

#include "sim/compare/comparison.h"

namespace pipesim {

// The complete page, in UTF-8; identical to the byte for the same runs.
std::string comparison_html(const RecordedRun& predicted, const RecordedRun& measured,
                            const Comparison& comparison);

}  // namespace pipesim
