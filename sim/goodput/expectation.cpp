#include "sim/goodput/expectation.h"

#include <algorithm>
#include <cmath>

#include "traces/base/portable_math.h"

namespace pipesim {
namespace {

// 1 - e^-x.
double gone_after(double x) { return x > 0 ? x * exponential_ratio(-x) : 0; }

double in_mtbf(const Checkpointing& job, std::int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(job.mtbf_ns);
}

// The logarithm of the expected time per segment over its training, without terms independent of
// the interval.
double log_cost(const Checkpointing& job, std::int64_t interval_ns) {
  const double segment = in_mtbf(job, interval_ns + job.hold_ns);
  return segment + logarithm(gone_after(segment)) - logarithm(in_mtbf(job, interval_ns));
}

// The zero of the derivative with respect to tau of (e^x - 1) / tau, x = (tau + D) / M: tau / M = 1
// - e^-x, which has one solution.
double best_interval_in_mtbf(const Checkpointing& job) {
  const double hold = in_mtbf(job, job.hold_ns);
  double low = 0;
  double high = 1;
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (middle < gone_after(middle + hold) ? low : high) = middle;
  }
}

}  // namespace

TimeShares expected_shares(const Checkpointing& job, std::int64_t interval_ns) {
  const double work = in_mtbf(job, interval_ns);
  const double hold = in_mtbf(job, job.hold_ns);
  const double segment = in_mtbf(job, interval_ns + job.hold_ns);
  const double restart = in_mtbf(job, job.restart_ns);
  const double beside = in_mtbf(job, job.beside_ns);
  const double completes = gone_after(segment);
  // While it is not restarting, a segment begins again until no failure hits it: a share of that
  // time, by the distribution of a failure's age, is training, and the rest is saving.
  const double up = exponential(-restart);
  TimeShares shares;
  shares.restarting = gone_after(restart);
  shares.saving = up * exponential(-work) * gone_after(hold) / completes;
  const double training = up * gone_after(work) / completes;
  shares.goodput =
      std::min(training, work * exponential(-(restart + beside + segment)) / completes);
  shares.repeating = training - shares.goodput;
  return shares;
}

std::int64_t young_interval_ns(const Checkpointing& job) {
  return std::llround(std::sqrt(2 * static_cast<double>(job.hold_ns)) *
                      std::sqrt(static_cast<double>(job.mtbf_ns)));
}

std::int64_t daly_interval_ns(const Checkpointing& job) {
  const double ratio = in_mtbf(job, job.hold_ns) / 2;
  if (ratio >= 1) return job.mtbf_ns;
  const double first =
      std::sqrt(2 * static_cast<double>(job.hold_ns)) * std::sqrt(static_cast<double>(job.mtbf_ns));
  return std::llround(first * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
                      static_cast<double>(job.hold_ns));
}

std::int64_t least_interval(const Checkpointing& job, std::int64_t iteration_ns) {
  return std::max<std::int64_t>(1, (job.beside_ns + iteration_ns - 1) / iteration_ns);
}

std::int64_t best_interval(const Checkpointing& job, std::int64_t iteration_ns) {
  const double best = best_interval_in_mtbf(job) * static_cast<double>(job.mtbf_ns);
  const auto below = static_cast<std::int64_t>(best / static_cast<double>(iteration_ns));
  const std::int64_t least = least_interval(job, iteration_ns);
  const std::int64_t low = std::max(least, below);
  const std::int64_t high = std::max(least, below + 1);
  return log_cost(job, low * iteration_ns) <= log_cost(job, high * iteration_ns) ? low : high;
}

}  // namespace pipesim
