#include "traces/read/profile_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/error.h"

namespace pipesim {

void check_that_it_counts(const ProfileOptions& options,
                          const std::vector<const RecordedRun*>& runs) {
  const auto none = [&](auto&& is_so) { return std::ranges::none_of(runs, is_so); };
  const bool unnamed = none([](auto* run) { return run->identified == Identified::inferred; });
  if (!options.program.empty() && unnamed) {
    throw input_error(fmt::format("{0}: {1} says itself which action is which; omit {0}",
                                  options.program_flag, runs.front()->name));
  }
  const bool profiled = !none([](auto* run) { return run->about.source == Source::profiled; });
  const bool chosen =
      options.replica && !none([](auto* run) { return run->about.pipelines() > 1; });
  if ((options.ranks.empty() && !options.replica) || profiled || chosen) return;
  throw input_error(fmt::format("{0}: {1} is not a profile{2}; omit {0}",
                                options.replica ? "--replica" : "--ranks", runs.front()->name,
                                options.replica ? " and has one replica" : ""));
}

std::string said_of_pipeline(int number, int count, const std::string& ranks) {
  return fmt::format("pipeline {} of {}: ranks {}; others by --replica {}", number, count, ranks,
                     number == count ? 1 : number + 1);
}

}  // namespace pipesim
