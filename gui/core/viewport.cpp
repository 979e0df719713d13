#include "gui/core/viewport.h"

namespace pipesim::gui {

double Viewport::ns_per_pixel() const { return 1; }
int Viewport::x_of(std::int64_t) const { return 0; }
std::int64_t Viewport::time_of(int) const { return 0; }
TimeRange zoomed(const TimeRange& r, std::int64_t, double) { return r; }
TimeRange panned(const TimeRange& r, std::int64_t) { return r; }
TimeRange kept_within(const TimeRange& r, const TimeRange&) { return r; }
Ticks ticks(const Viewport&, int) { return {}; }

}  // namespace pipesim::gui
