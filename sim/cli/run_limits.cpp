#include "sim/cli/run_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "sim/compare/launch_gaps.h"
#include "sim/request/what_if.h"
#include "traces/base/error.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

std::string_view limit_name(LimitKind kind) {
  switch (kind) {
    case LimitKind::partition: return "partition";
    case LimitKind::transfers: return "transfers";
    case LimitKind::filling: return "filling";
    case LimitKind::schedule: return "schedule";
    case LimitKind::memory: return "memory";
    default: return "launch";
  }
}

}  // namespace

bool has_few_spans(const RecordedRun& run) {
  constexpr std::size_t max_spans = 100'000;
  if (run.iterations.empty()) return false;
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  return iteration.end - iteration.begin <= max_spans;
}

std::optional<RunLimits> run_limits(const RecordedRun& run, const std::vector<std::string>& files,
                                    const ProfileFlags& profile) {
  if (!has_few_spans(run)) return std::nullopt;
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  RunLimits result;
  LimitsContext& context = result.context;
  context.makespan_ns = iteration.makespan_ns;
  context.microbatches = run.microbatches;
  context.program = {"pipesim", "whatif"};
  for (const std::string& file : files) context.program.push_back(shell_word(file));
  const auto say = [&](const char* flag, const Flag& value) {
    if (value) context.program.insert(context.program.end(), {flag, shell_word(*value)});
  };
  say("--order", profile.schedule);  // --schedule is what would run instead
  say("--ranks", profile.ranks);
  say("--replica", profile.replica);
  try {
    const LaunchLoss late = launch_loss(run);
    const RecordedBasis basis(run, late.ns);
    context.is_async = basis.is_async();
    if (basis.has_layers() && files.size() == 1) {
      context.partition = {"pipesim", "partition", "--measured", shell_word(files.front())};
    }
    result.limits = basis.limits();
    if (late.ns > 0) {
      result.limits.push_back({.kind = LimitKind::launch,
                               .gain_ns = late.ns,
                               .candidate = {},
                               .rank = late.rank,
                               .rank_late_ns = late.rank_gaps_ns,
                               .action = late.action,
                               .action_late_ns = late.action_gap_ns});
    }
    std::ranges::stable_sort(result.limits, std::greater(), &Limit::gain_ns);
  } catch (const Error& error) {
    result.failure = error.what();
  }
  return result;
}

std::string run_limits_report(const RunLimits& limits, int width) {
  if (limits.failure.empty()) return limits_report(limits.limits, limits.context, width);
  return wrap(fmt::format("Its limits could not be estimated: {}\n", limits.failure), width);
}

Json run_limits_json(const RunLimits& limits) {
  Json list = Json::array();
  for (const Limit& limit : limits.limits) {
    Json one{{"limit", limit_name(limit.kind)}, {"gain_ns", limit.gain_ns}};
    switch (limit.kind) {
      case LimitKind::partition:
        one["stage"] = limit.stage;
        one["stage_ns"] = limit.stage_ns;
        one["mean_ns"] = limit.mean_ns;
        break;
      case LimitKind::schedule:
      case LimitKind::memory:
        one["schedule"] = limit.candidate->schedule;
        one["virtual_stages"] = limit.candidate->chunks;
        one["times_memory"] = limit.times_memory;
        break;
      case LimitKind::launch:
        one["rank"] = limit.rank;
        one["rank_late_ns"] = limit.rank_late_ns;
        one["action"] = to_text(limit.action);
        one["action_late_ns"] = limit.action_late_ns;
        break;
      default: break;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace pipesim::cli
