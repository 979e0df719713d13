// The program's look: Qt's Fusion style in light or dark colours, with its own
// fonts.
#pragma once

#include "gui/layout/palette.h"

namespace pipesim::gui {

// Font size in menus and panels, in logical pixels.
inline constexpr int panel_pixels = 12;

// The desktop's, as far as Qt knows; call before set_look().
Theme system_theme();
// For the whole application.
void set_look(Theme theme);

}  // namespace pipesim::gui
