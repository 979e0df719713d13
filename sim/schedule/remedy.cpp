#include "sim/schedule/remedy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "sim/schedule/deadlock.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

bool is_usual(const Family& family, const Shape& shape) {
  return shape.placement == family.usual_placement(shape.ranks, shape.chunks, shape.microbatches);
}

bool runs(const ScheduleRequest& request) {
  try {
    return !find_deadlock(generate(request), SendMode::buffered);
  } catch (const Error&) {
    return false;  // outside the family's definition
  }
}

// What to change on the command line, as flags.
std::vector<std::string> remedies(const Family& family, const Shape& shape) {
  ScheduleRequest own{std::string(family.name), shape.ranks, shape.microbatches};
  if (family.many_chunks) own.chunks = shape.chunks;
  own.overlap_experts = shape.overlap_experts;
  std::vector<std::string> found;
  const auto try_out = [&](const ScheduleRequest& request, std::string flags) {
    if (runs(request)) found.push_back(std::move(flags));
  };
  if (!is_usual(family, shape)) {
    if (family.takes_group) own.group = shape.group;
    try_out(own, fmt::format("--placement {}", family.placement));
    return found;
  }
  // Groups of one size. The smallest possible one needs the least memory.
  for (int group = shape.ranks; family.takes_group && found.empty() && group <= shape.microbatches;
       ++group) {
    if (shape.microbatches % group != 0) continue;
    ScheduleRequest request = own;
    request.group = group;
    try_out(request, fmt::format("--group {}", group));
  }
  if (family.takes_group) own.group = shape.group;
  const int below = shape.microbatches - shape.microbatches % shape.group;
  for (const std::int64_t microbatches : {std::int64_t{below}, std::int64_t{below} + shape.group}) {
    if (microbatches < 1 || microbatches > max_index) continue;
    own.microbatches = static_cast<int>(microbatches);
    try_out(own, fmt::format("--microbatches {}", microbatches));
  }
  return found;
}

}  // namespace

void check_runs(const Family& family, const Shape& shape, const Schedule& schedule) {
  const bool may_be_uneven = family.many_chunks && shape.microbatches % shape.group != 0;
  if (!may_be_uneven && is_usual(family, shape)) return;
  const auto cycle = find_deadlock(schedule, SendMode::buffered);
  if (!cycle) return;
  const std::vector<std::string> found = remedies(family, shape);
  throw input_error(fmt::format("{}: {}{}{}", family.name, *cycle,
                                found.empty() ? "" : "; what runs: ", fmt::join(found, ", or ")));
}

}  // namespace pipesim
