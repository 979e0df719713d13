// What a call costs, counted: comparisons and switches that the compiler instrumented, and
// memory. The same for the same input and compiler, so that a path that is quadratic shows
// without a clock.
//
// For builds with the fuzzers, whose libraries are instrumented, and the address sanitizer,
// which tells of memory. One thread.
#pragma once

#include <cstdint>
#include <functional>

namespace pipesim::testing {

struct Work {
  std::int64_t steps = 0;
  std::int64_t allocated_bytes = 0;  // in all
  std::int64_t peak_bytes = 0;       // at once, beyond what was there before
};

Work work_of(const std::function<void()>& call);

}  // namespace pipesim::testing
