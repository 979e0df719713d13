// What is open as text for a terminal: for two runs the output of `pipesim compare`,
// for one, or for events, that of `pipesim report`.
//
// Pure; any thread.
#pragma once

#include <string>

#include "gui/scene/document.h"
#include "traces/print/terminal.h"

namespace pipesim::gui {

// Ends with a line end. Throws an input error where nothing is open, or where there are
// several runs that can't be compared.
std::string report_of(const Document& document, const Terminal& terminal);

}  // namespace pipesim::gui
