#include "exec/run/recorder.h"

#include <ctime>
#include <utility>

namespace pipesim::exec {

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void Recorder::start_iteration(bool keep) {
  keep_ = keep;
  now_.actions.clear();
  now_.layers.clear();
  now_.memory.clear();
}

void Recorder::finish_iteration() {
  if (keep_) kept_.push_back(now_);  // a copy: what has grown serves the next one, too
}

}  // namespace pipesim::exec
