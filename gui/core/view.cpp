#include "gui/core/view.h"

namespace pipesim::gui {

History::History(View first) : views_{std::move(first)} {}
void History::push(View view, const std::string&) { views_[now_] = std::move(view); }
const View& History::undo() { return now(); }
const View& History::redo() { return now(); }

}  // namespace pipesim::gui
