// Timelines below each other, on one axis of time, in characters for a terminal. Pure; any thread.
#pragma once

#include <string>

#include "traces/print/terminal.h"
#include "traces/print/timeline_panel.h"

namespace pipesim {

std::string small_multiples(const TimelineGroup& group, const Terminal& terminal);

}  // namespace pipesim
