// The reports of `pipesim goodput`, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/goodput_flags.h"
#include "sim/goodput/answer.h"

namespace pipesim::cli {

struct AnsweredJob {
  GoodputJob job;
  GoodputAnswer answer;
};

// For one job, with other intervals next to its own.
std::string goodput_report(const AnsweredJob& one, int width);
// For several jobs, one row each.
std::string goodput_table(const std::vector<AnsweredJob>& all, int width);
// The `pipesim-goodput` object, indented, with a line end.
std::string goodput_json(const std::vector<AnsweredJob>& all);

}  // namespace pipesim::cli
