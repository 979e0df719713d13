// What is open as a flame graph.
//
// Pure; any thread.
#pragma once

#include "gui/scene/document.h"
#include "traces/flame/flame_graph.h"

namespace pipesim::gui {

// Of all traces, each within a frame of its side or name where there are several.
FlameGraph flame_graph_of(const Document& document);

}  // namespace pipesim::gui
