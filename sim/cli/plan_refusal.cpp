#include "sim/cli/plan_refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

std::string excluded(const PlanCounts& counts) {
  std::vector<std::string> parts;
  for (int rule = 0; rule < plan_rule_count; ++rule) {
    const std::int64_t count = counts.impossible[static_cast<std::size_t>(rule)];
    if (count == 0) continue;
    parts.push_back(fmt::format("{} break the rule that {}", format_count(count),
                                plan_rule_text(static_cast<PlanRule>(rule))));
  }
  if (counts.too_large > 0) parts.push_back(format_count(counts.too_large) + " need more memory");
  return fmt::format("{}", fmt::join(parts, "; "));
}

// "8 or 16".
template <typename Number>
std::string either(const std::optional<Number>& below, const std::optional<Number>& above) {
  std::vector<std::string> both;
  if (below) both.push_back(std::to_string(*below));
  if (above) both.push_back(std::to_string(*above));
  return fmt::format("{}", fmt::join(both, " or "));
}

std::string or_list(const std::vector<std::string>& ways, const PlanLimits& limits) {
  if (!ways.empty()) return fmt::format("{}", fmt::join(ways, ", or "));
  return limits.are_over() ? "none was found before --budget was over"
                           : "allow more by --only and --fix";
}

}  // namespace

void refuse_plan(const PlanSpace& space, const PlanCounts& counts, const PlanSearch& how,
                 const PlanLimits& limits, const SpaceOf& space_of) {
  const PlanQuestion& question = space.question();
  std::vector<std::string> ways;
  if (counts.too_large == 0) {
    const NearestPossible nearest = nearest_possible(question, space_of, limits);
    if (nearest.fewer_devices || nearest.more_devices) {
      ways.push_back("--devices " + either(nearest.fewer_devices, nearest.more_devices));
    }
    if (nearest.smaller_batch || nearest.larger_batch) {
      ways.push_back("--global-batch " + either(nearest.smaller_batch, nearest.larger_batch));
    }
    throw input_error(
        fmt::format("--devices {}, --global-batch {}: none of {} layouts is possible: {}; nearest "
                    "that work: {}",
                    question.devices, question.global_batch, format_count(space.axes().size()),
                    excluded(counts), or_list(ways, limits)));
  }
  const NearestFitting nearest = nearest_fitting(question, how.memory_cap_bytes, space_of, limits);
  if (nearest.smallest) {
    constexpr std::int64_t mebibyte = 1 << 20;
    ways.push_back(fmt::format("--memory-cap {}MiB",
                               (nearest.smallest->memory_bytes + mebibyte - 1) / mebibyte));
  }
  if (nearest.devices) ways.push_back(fmt::format("--devices {}", *nearest.devices));
  throw input_error(fmt::format(
      "--memory-cap: none of {} layouts on {} fits into {}: {}; the least that would work: {}",
      format_count(space.axes().size()), plural(question.devices, "device"),
      format_bytes(how.memory_cap_bytes), excluded(counts), or_list(ways, limits)));
}

}  // namespace pipesim::cli
