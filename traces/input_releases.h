// The last event that released each call of a rank: another call's end, or the host.
//
// Metrics walk back along these, and the viewer draws them as arrows. Refers to a run, which
// outlives it; const use is thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/input_run.h"

namespace pipesim {

struct InputRelease {
  // The call that ended, as an index among its rank's; none if it was the host, which had not
  // issued it or, for the host's own, had not reached it.
  std::uint32_t place = InputPlaces::none;
  std::int64_t time_ns = 0;  // no later than the call was ready

  bool is_host() const { return place == InputPlaces::none; }
};

class InputReleases {
 public:
  InputReleases(const InputCalls& calls, const std::vector<InputSpan>& spans);

  // Of several at one instant, the one called last, and not the host. Takes time proportional to
  // the number of waits.
  InputRelease of(std::uint32_t place) const;

 private:
  const InputCalls& calls_;
  const std::vector<InputSpan>& spans_;
  std::vector<std::uint32_t> before_;  // for each call, the one before it on its stream
};

}  // namespace pipesim
