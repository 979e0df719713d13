#include "exec/run/fault_injection.h"

#include <utility>

#include "exec/run/clock.h"

namespace pipesim::exec {
namespace {

void stay_busy_until(std::int64_t monotonic_ns) {
  while (Clock::monotonic_ns() < monotonic_ns) {
  }
}

}  // namespace

void FaultyWorkload::await_start(const Action& action, const Tensor& input) {
  own_->await_start(action, input);
  stay_busy_until(Clock::monotonic_ns() + faults_.delay_ns(action, rank_));
}

Tensor FaultyWorkload::run(const Action& action, Tensor input) {
  const std::int64_t start_ns = Clock::monotonic_ns();
  Tensor output = own_->run(action, std::move(input));
  const std::int64_t took_ns = Clock::monotonic_ns() - start_ns;
  stay_busy_until(start_ns + faults_.duration_ns(action, iteration_, rank_, took_ns));
  return output;
}

}  // namespace pipesim::exec
