// What `pipesim goodput` says of jobs, for people and as JSON.
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

// Of one job, with other intervals beside its own.
std::string goodput_report(const AnsweredJob& one, int width);
// Of several, a row each.
std::string goodput_table(const std::vector<AnsweredJob>& all, int width);
// The `pipesim-goodput` object, indented, with a line end.
std::string goodput_json(const std::vector<AnsweredJob>& all);

}  // namespace pipesim::cli
