#include "exec/run/recorder.h"

namespace pipesim::exec {

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
