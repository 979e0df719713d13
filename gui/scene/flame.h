// What is open as a flame graph.
//
// Pure; any thread.
#pragma once

#include "gui/scene/document.h"
#include "traces/flame/flame_graph.h"

namespace pipesim::gui {

// For all traces, each within a frame of its side or name if there are several.
FlameGraph flame_graph_of(const Document& document);

}  // namespace pipesim::gui
