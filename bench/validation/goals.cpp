#include "bench/validation/goals.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "traces/base/error.h"
#include "traces/base/files.h"

namespace pipesim::validation {
namespace {

double statistic_of(const ErrorSummary& errors, const std::string& statistic) {
  if (statistic == "mean") return errors.mean;
  if (statistic == "median") return errors.median;
  if (statistic == "worst") return errors.worst;
  throw input_error(fmt::format(
      "bench/validation: unknown statistic '{}'; known: mean, median, worst", statistic));
}

}  // namespace

std::vector<Goal> goals(const Findings& findings) {
  std::vector<Goal> all{
      {"korthikanti", "mean", 0.03},
      {"korthikanti", "worst", 0.05},
      {"korthikanti layers", "worst", 0.05},
      {"sc21", "mean", 0.03},
      {"sc21", "worst", 0.07},
      {"vtrain multi-node", "mean", 0.065},
      {"vtrain multi-node", "median", 0.04},
      {"vtrain multi-node, t 1 or 8, without contradicting rows", "mean", 0.03},
      {"activation bytes", "worst", 0},
      {"bubble rates, 1F1B, ZB-H1, ZB-H2", "worst", 0.0001},
      {"schedule ratios, hops that hold no device", "worst", 0.03},
      {"schedule ratios, hops that hold their senders", "worst", 0.03},
  };
  for (Goal& goal : all) {
    goal.reached = statistic_of(findings.measure(goal.measure), goal.statistic);
  }
  return all;
}

std::string present_bounds(const Findings& findings) {
  nlohmann::ordered_json bounds;
  for (const Measure& measure : findings.measures) {
    for (const char* statistic : {"mean", "median", "worst"}) {
      bounds[measure.name][statistic] =
          std::ceil(10000 * statistic_of(measure.errors, statistic)) / 100;
    }
  }
  return bounds.dump(2) + "\n";
}

std::vector<std::string> broken_bounds(const Findings& findings, const std::string& file) {
  const auto bounds = nlohmann::json::parse(read_file(file));
  std::vector<std::string> broken;
  for (const auto& [name, by_statistic] : bounds.items()) {
    const ErrorSummary& errors = findings.measure(name);
    for (const auto& [statistic, bound] : by_statistic.items()) {
      const double percent = 100 * statistic_of(errors, statistic);
      if (percent <= bound.get<double>()) continue;
      broken.push_back(fmt::format("{}: {} error of {:.3f} %, above its bound of {} %; worst: {}",
                                   name, statistic, percent, bound.get<double>(),
                                   errors.worst_name));
    }
  }
  for (const Measure& measure : findings.measures) {
    if (!bounds.contains(measure.name)) {
      broken.push_back(fmt::format("{}: has no bounds in {}; add them", measure.name, file));
    }
  }
  return broken;
}

}  // namespace pipesim::validation
