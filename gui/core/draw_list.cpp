#include "gui/core/draw_list.h"

namespace pipesim::gui {

void DrawList::clear() {}
std::string to_text(const DrawList&) { return {}; }

}  // namespace pipesim::gui
