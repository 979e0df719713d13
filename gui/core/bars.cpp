#include "gui/core/bars.h"

namespace pipesim::gui {

void BarRow::reserve(std::size_t) {}
void BarRow::add(const Bar&) {}
void BarRow::finish() {}
void BarRow::reshade(const std::function<Shade(const Bar&)>&) {}
std::size_t BarRow::first_ending_after(std::int64_t) const { return 0; }
std::optional<std::size_t> BarRow::at(std::int64_t) const { return {}; }
ShadeTimes BarRow::filled_before(std::int64_t) const { return {}; }
const ShadeTimes& BarRow::Sweep::filled_before(std::int64_t) { return filled_; }

}  // namespace pipesim::gui
