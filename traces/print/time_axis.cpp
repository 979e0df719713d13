#include "traces/print/time_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace pipesim {
namespace {

struct AxisUnit {
  std::string_view name;
  double ns;
};

// The unit in which the last label of an axis has at most four digits before the point; the others
// use it, too.
AxisUnit unit_of(std::int64_t last_ns) {
  if (last_ns < 10'000) return {"ns", 1};
  if (last_ns < 10'000'000) return {"us", 1e3};
  if (last_ns < 10'000'000'000) return {"ms", 1e6};
  return {"s", 1e9};
}

}  // namespace

TimeScale::TimeScale(std::int64_t begin_ns, std::int64_t end_ns, int columns)
    : begin_(begin_ns), end_(std::max(end_ns, begin_ns)), columns_(columns) {}

double TimeScale::exact(std::int64_t ns) const {
  const auto length = static_cast<double>(std::max<std::int64_t>(end_ - begin_, 1));
  return static_cast<double>(ns - begin_) / length * columns_;
}

int TimeScale::column(std::int64_t ns) const { return static_cast<int>(std::llround(exact(ns))); }

std::vector<TimeTick> time_ticks(const TimeScale& scale, int apart) {
  const std::int64_t length_ns = scale.end_ns() - scale.begin_ns();
  const double least = static_cast<double>(length_ns) * apart / std::max(1, scale.columns());
  double step = std::pow(10, std::floor(std::log10(std::max(least, 1.0))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor >= least) {
      step *= factor;
      break;
    }
  }
  const AxisUnit unit = unit_of(scale.end_ns());
  int digits = 0;
  for (double part = unit.ns; part > step; part /= 10) ++digits;
  std::vector<TimeTick> ticks;
  const double first = std::ceil(static_cast<double>(scale.begin_ns()) / step) * step;
  for (double t = first; t <= static_cast<double>(scale.end_ns()); t += step) {
    const auto ns = static_cast<std::int64_t>(t);
    ticks.push_back({ns, fmt::format("{:.{}f} {}", t / unit.ns, digits, unit.name)});
  }
  return ticks;
}

std::string time_axis(const TimeScale& scale, std::size_t margin) {
  std::string line(margin, ' ');
  for (const auto& [ns, label] : time_ticks(scale, 16)) {
    const auto at = margin + static_cast<std::size_t>(scale.column(ns));
    if (at + label.size() > margin + static_cast<std::size_t>(scale.columns())) break;
    line.resize(std::max(line.size(), at), ' ');
    line += label;
  }
  return line;
}

}  // namespace pipesim
