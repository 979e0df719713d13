// Why a command does not apply to what is open and the current view.
//
// A pure function; any thread.
#pragma once

#include <string>

#include "gui/commands/commands.h"

namespace pipesim::gui {

// A sentence that says what is missing; empty if the command may change something. Undo and redo
// are not checked: the view does not know its history.
std::string objection_to(Command command, const Document& document, const Scene& scene,
                         const View& view);

}  // namespace pipesim::gui
