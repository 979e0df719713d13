#include "traces/kineto.h"

#include "traces/base/error.h"

namespace pipesim {

RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& /*options*/) {
  throw input_error(paths.front() + ": no metadata.pipesim, so no trace of pipesim or pipeexec");
}

}  // namespace pipesim
