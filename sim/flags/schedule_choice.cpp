#include "sim/flags/schedule_choice.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Text = std::optional<std::string>;

}  // namespace

bool names_a_file(const std::string& schedule) {
  return schedule.ends_with(".csv") || schedule.ends_with(".program") ||
         schedule.find('/') != std::string::npos;
}

bool ScheduleFlags::has_order() const {
  return own != nullptr || (schedule && names_a_file(*schedule));
}

ScheduleRequest parse_request(const ScheduleFlags& flags) {
  const auto needed = [](const Text& flag, std::string_view name, std::string_view meaning) {
    if (!flag) throw input_error(fmt::format("{} is missing: give {}", name, meaning));
    return parse_count(*flag, name);
  };
  const auto given = [](const Text& flag, std::string_view name) {
    return flag ? std::optional(parse_count(*flag, name)) : std::nullopt;
  };
  ScheduleRequest request;
  request.name = flags.schedule.value_or("");
  request.ranks = needed(flags.stages, "--stages", "the number of pipeline ranks");
  request.microbatches =
      needed(flags.microbatches, "--microbatches", "the number of microbatches per iteration");
  request.chunks = given(flags.virtual_stages, "--virtual-stages");
  request.group = given(flags.group, "--group");
  request.overlap_experts = flags.overlap_experts;
  request.placement = flags.placement;
  return request;
}

std::string title_of(const ScheduleChoice& choice) {
  return choice.family != nullptr ? std::string(choice.family->title)
                                  : printable(choice.schedule.name);
}

ScheduleChoice choose_schedule(const ScheduleRequest& request) {
  ScheduleChoice choice;
  choice.family = &family(request.name);
  choice.shape = resolve_shape(*choice.family, request);
  choice.schedule = generate(*choice.family, choice.shape);
  return choice;
}

ScheduleChoice choose_schedule(const ScheduleFlags& flags, const BytesNeeded& needed) {
  if (!flags.schedule) {
    throw input_error("--schedule is missing: give a name (see `pipesim schedules`) or a file");
  }
  if (!flags.has_order()) {
    const Family& known = family(*flags.schedule);  // an unknown name comes first
    const ScheduleRequest request = parse_request(flags);
    check_size(known, request, needed);  // before anything of that size is built
    return choose_schedule(request);
  }
  ScheduleChoice choice;
  if (flags.own != nullptr) {
    choice.schedule = *flags.own;
  } else {
    std::error_code failed;
    const auto size = std::filesystem::file_size(*flags.schedule, failed);
    // Memory for its text, and its cells as actions and marks: an action has at least three
    // characters.
    if (!failed) check_memory(quote(*flags.schedule), static_cast<double>(size) * 7);
    choice.schedule = read_schedule(*flags.schedule);
  }
  if (flags.group || flags.overlap_experts || flags.placement) {
    throw input_error(fmt::format("{}: a file has its own order and placement",
                                  flags.group             ? "--group"
                                  : flags.overlap_experts ? "--overlap-experts"
                                                          : "--placement"));
  }
  const auto agree = [&](const Text& flag, std::string_view name, int actual) {
    if (flag && parse_count(*flag, name) != actual) {
      throw input_error(fmt::format("{} {}: {} has {}", name, *flag, choice.schedule.name, actual));
    }
  };
  agree(flags.stages, "--stages", choice.schedule.ranks());
  agree(flags.microbatches, "--microbatches", choice.schedule.microbatches);
  agree(flags.virtual_stages, "--virtual-stages", choice.schedule.placement.virtual_stages());
  check_size(choice.schedule, needed);
  return choice;
}

}  // namespace pipesim
