#include "sim/goodput/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/base/error.h"
#include "traces/base/portable_math.h"
#include "traces/base/split_mix.h"

namespace pipesim {
namespace {

// The work from the last save until a failure, or until the run's end.
struct Stretch {
  std::int64_t training_ns = 0;
  std::int64_t saving_ns = 0;
  std::int64_t iterations = 0;  // that are not undone
  bool ends = false;            // the run

  std::int64_t wall_ns() const { return training_ns + saving_ns; }
};

Stretch stretch(const SavedRun& run, std::int64_t done, std::int64_t until_failure_ns) {
  const std::int64_t left = run.iterations - done;
  const std::int64_t whole = left / run.interval;
  const std::int64_t interval_ns = run.interval * run.iteration_ns;
  const std::int64_t segment_ns = interval_ns + run.job.hold_ns;
  const std::int64_t segments = std::min(whole, until_failure_ns / segment_ns);
  const std::int64_t within_ns = until_failure_ns - segments * segment_ns;
  Stretch made;
  made.training_ns = segments * interval_ns;
  made.saving_ns = segments * run.job.hold_ns;
  if (segments == whole) {
    const std::int64_t rest_ns = left % run.interval * run.iteration_ns;
    made.ends = within_ns >= rest_ns;
    made.training_ns += std::min(within_ns, rest_ns);
  } else {
    made.training_ns += std::min(within_ns, interval_ns);
    made.saving_ns += std::max<std::int64_t>(0, within_ns - interval_ns);
  }
  const bool is_written = segments == 0 || within_ns >= run.job.beside_ns;
  made.iterations = made.ends ? left : (segments - (is_written ? 0 : 1)) * run.interval;
  return made;
}

double nearest_rank(const std::vector<double>& sorted, std::size_t percent) {
  const std::size_t at = (sorted.size() * percent + 99) / 100;
  return sorted[std::max<std::size_t>(at, 1) - 1];
}

}  // namespace

TimeShares RunTimes::shares() const {
  const auto wall = static_cast<double>(wall_ns());
  return {static_cast<double>(useful_ns) / wall, static_cast<double>(saving_ns) / wall,
          static_cast<double>(repeating_ns) / wall, static_cast<double>(restarting_ns) / wall};
}

RunTimes run_with(const SavedRun& run, const NextFailure& next) {
  RunTimes times;
  std::int64_t now_ns = 0;
  std::int64_t done = 0;
  std::int64_t trained_ns = 0;
  const auto failure_after = [&](std::int64_t earlier_ns) {
    const std::int64_t at_ns = next();
    if (at_ns < earlier_ns) throw input_error("failures: one lies before another; sort them");
    return at_ns;
  };
  std::int64_t failure_ns = failure_after(0);
  for (;;) {
    const Stretch made = stretch(run, done, failure_ns - now_ns);
    trained_ns += made.training_ns;
    times.saving_ns += made.saving_ns;
    done += made.iterations;
    if (made.ends) break;
    if (failure_ns == no_failure) {
      throw input_error("the run takes more than 292 years; make it shorter");
    }
    for (bool restarts = true; restarts;) {
      ++times.failures;
      now_ns = failure_ns;
      failure_ns = failure_after(now_ns);
      restarts = failure_ns - now_ns < run.job.restart_ns;
      const std::int64_t took_ns = restarts ? failure_ns - now_ns : run.job.restart_ns;
      times.restarting_ns += took_ns;
      now_ns += took_ns;
    }
  }
  times.useful_ns = run.work_ns();
  times.repeating_ns = trained_ns - times.useful_ns;
  return times;
}

RunTimes run_with(const SavedRun& run, std::span<const std::int64_t> failures_ns) {
  std::size_t place = 0;
  return run_with(run,
                  [&] { return place < failures_ns.size() ? failures_ns[place++] : no_failure; });
}

DrawnFailures::DrawnFailures(std::int64_t mtbf_ns, std::uint64_t seed, std::uint64_t trial)
    : mtbf_ns_(mtbf_ns), state_(split_mix(split_mix(seed) ^ trial)) {}

std::int64_t DrawnFailures::next() {
  constexpr double range = 0x1p-53;
  constexpr std::int64_t centuries_ns = 4'000'000'000'000'000'000;
  state_ += split_mix_step;
  const double above_0 = static_cast<double>((split_mix(state_) >> 11U) + 1) * range;  // up to 1
  const double gap_ns = -logarithm(above_0) * static_cast<double>(mtbf_ns_);
  if (last_ns_ == no_failure || gap_ns >= static_cast<double>(centuries_ns - last_ns_)) {
    last_ns_ = no_failure;
  } else {
    last_ns_ += std::llround(gap_ns);
  }
  return last_ns_;
}

GoodputSpread try_runs(const SavedRun& run, const RunTrials& trials) {
  std::vector<double> reached;
  double wall_ns = 0;
  for (int trial = 0; trial < trials.count; ++trial) {
    DrawnFailures failures(run.job.mtbf_ns, trials.seed, static_cast<std::uint64_t>(trial));
    const RunTimes times = run_with(run, [&] { return failures.next(); });
    reached.push_back(times.shares().goodput);
    wall_ns += static_cast<double>(times.wall_ns());
  }
  std::ranges::sort(reached);
  constexpr std::size_t low = 5;
  constexpr std::size_t middle = 50;
  constexpr std::size_t high = 95;
  return {static_cast<double>(run.work_ns()) * trials.count / wall_ns, nearest_rank(reached, low),
          nearest_rank(reached, middle), nearest_rank(reached, high)};
}

double expected_failures(const SavedRun& run, const RunTrials& trials) {
  const TimeShares shares = expected_shares(run.job, run.interval * run.iteration_ns);
  if (shares.goodput <= 0) return std::numeric_limits<double>::infinity();
  return trials.count * (static_cast<double>(run.work_ns()) / shares.goodput /
                         static_cast<double>(run.job.mtbf_ns));
}

}  // namespace pipesim
