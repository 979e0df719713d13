// How the program looks: Qt's Fusion style in light or dark colours, with letters of its
// own.
#pragma once

#include "gui/layout/palette.h"

namespace pipesim::gui {

// Of letters in menus and panels, in logical pixels.
inline constexpr int panel_pixels = 12;

// Of the desktop, as far as Qt knows; to be asked before set_look().
Theme system_theme();
// Of the whole application.
void set_look(Theme theme);

}  // namespace pipesim::gui
