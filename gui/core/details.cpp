#include "gui/core/tables.h"

namespace pipesim::gui {

Table detail_table(const Document&, const Scene&, const Pick&) { return {}; }
Table area_table(const Document&, const Scene&, const View&) { return {}; }

}  // namespace pipesim::gui
