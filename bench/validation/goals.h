// What the predictions should reach, and the bounds they must not pass.
//
// Plain values; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/validation/findings.h"

namespace pipesim::validation {

struct Goal {
  std::string measure;
  std::string statistic;  // "mean", "median", "worst"
  double limit = 0;       // fractions
  double reached = 0;

  bool met() const { return reached <= limit; }
};

std::vector<Goal> goals(const Findings& findings);

// The errors as they are, each rounded up to a hundredth of a percent, as bounds.
std::string present_bounds(const Findings& findings);

// A sentence for each measure that passes its bound in `file`, a JSON object of
// percents by measure and statistic. A measure without bounds, or bounds without
// a measure, is a sentence too.
std::vector<std::string> broken_bounds(const Findings& findings, const std::string& file);

}  // namespace pipesim::validation
