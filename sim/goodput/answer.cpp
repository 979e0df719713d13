#include "sim/goodput/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t day_ns = 86'400'000'000'000;
constexpr std::int64_t usual_work_ns = 30 * day_ns;
constexpr std::int64_t usual_failures = 1000;

SavedRun run_of(const GoodputQuestion& question) {
  SavedRun run;
  run.job = question.job;
  run.iteration_ns = question.iteration_ns.value_or(1);
  const std::int64_t most = std::max<std::int64_t>(1, max_duration_ns / run.iteration_ns);
  const std::int64_t least = least_interval(run.job, run.iteration_ns);
  run.interval = question.interval.value_or(best_interval(run.job, run.iteration_ns));
  if (run.interval < least) {
    throw input_error(fmt::format(
        "--interval {}: a save takes {} to write, during the {} that follow; nearest valid: {}",
        run.interval, format_duration(run.job.beside_ns), plural(run.interval, "iteration"),
        least));
  }
  if (question.interval && run.interval > most) {
    throw input_error(fmt::format("--interval {}: takes more than {}; save more often",
                                  run.interval, format_duration(max_duration_ns)));
  }
  const std::int64_t work_ns = question.work_ns.value_or(
      run.job.mtbf_ns > usual_work_ns / usual_failures ? usual_work_ns
                                                       : usual_failures * run.job.mtbf_ns);
  run.iterations = std::max<std::int64_t>(
      1, work_ns / run.iteration_ns + (2 * (work_ns % run.iteration_ns) >= run.iteration_ns));
  return run;
}

// Whether trials take at most some seconds, and stay well within 64 bits.
bool is_affordable(const SavedRun& run, const RunTrials& trials) {
  constexpr double max_failures = 1e8;
  constexpr double max_listed = 1e6;
  constexpr double longest_ns = 2e18;
  const double failures = expected_failures(run, trials);
  const double each_ns = failures / trials.count * static_cast<double>(run.job.mtbf_ns);
  return failures <= (trials.count == 1 ? max_listed : max_failures) && each_ns <= longest_ns;
}

void simulate_trial(const SavedRun& run, std::uint64_t seed, GoodputAnswer& all) {
  DrawnFailures failures(run.job.mtbf_ns, seed, 0);
  all.trial = run_with(run, [&] {
    all.failures_ns.push_back(failures.next());
    return all.failures_ns.back();
  });
  const std::int64_t wall_ns = all.trial->wall_ns();
  const std::int64_t until_ns = wall_ns + std::min(wall_ns, no_failure - wall_ns);
  while (all.failures_ns.back() < until_ns) all.failures_ns.push_back(failures.next());
  std::erase_if(all.failures_ns, [&](std::int64_t at_ns) { return at_ns >= until_ns; });
}

}  // namespace

GoodputAnswer answer(const GoodputQuestion& question) {
  GoodputAnswer all;
  const Checkpointing& job = question.job;
  const SavedRun& run = all.run = run_of(question);
  all.interval_ns = run.interval * run.iteration_ns;
  all.shares = expected_shares(job, all.interval_ns);
  all.best_interval_ns = best_interval(job, run.iteration_ns) * run.iteration_ns;
  all.young_interval_ns = young_interval_ns(job);
  all.daly_interval_ns = daly_interval_ns(job);
  if (!is_affordable(run, question.trials)) return all;
  all.spread = try_runs(run, question.trials);
  if (question.trials.count == 1) simulate_trial(run, question.trials.seed, all);
  return all;
}

}  // namespace pipesim
