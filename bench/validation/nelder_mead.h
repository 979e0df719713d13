// Minimises a function of a few numbers without derivatives (Nelder and Mead,
// 1965). Deterministic; any thread.
#pragma once

#include <functional>
#include <vector>

namespace pipesim::validation {

// From `start`, with first steps of `step` in each direction, until the values
// at all corners agree within `tolerance`, or `most` evaluations were made.
// Starts again from where it stopped until that gains nothing more.
std::vector<double> minimise(const std::function<double(const std::vector<double>&)>& function,
                             std::vector<double> start, double step, double tolerance, int most);

}  // namespace pipesim::validation
