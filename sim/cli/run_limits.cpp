#include "sim/cli/run_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "sim/cli/limits_report.h"
#include "sim/compare/launch_gaps.h"
#include "sim/request/what_if.h"
#include "traces/base/error.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {

std::string run_limits_report(const RecordedRun& run, const std::vector<std::string>& files,
                              const ProfileFlags& profile, int width) {
  constexpr std::size_t most_spans = 100'000;  // of an iteration: it is simulated repeatedly
  if (run.iterations.empty()) return {};
  const RecordedIteration& iteration = run.iterations[run.median_iteration()];
  if (iteration.end - iteration.begin > most_spans) return {};
  LimitsContext context;
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
    const RecordedBasis basis(run);
    context.is_async = basis.is_async();
    if (basis.has_layers() && files.size() == 1) {
      context.partition = {"pipesim", "partition", "--measured", shell_word(files.front())};
    }
    std::vector<Limit> limits = basis.limits();
    limits.push_back({LimitKind::launch, launch_loss_ns(run), {}});
    std::ranges::stable_sort(limits, std::greater(), &Limit::gain_ns);
    return limits_report(limits, context, width);
  } catch (const Error& error) {
    return wrap(fmt::format("Its limits could not be estimated: {}\n", error.what()), width);
  }
}

}  // namespace pipesim::cli
