// The measurements in the recorded run of a row of RUNS.csv.
//
// Depends only on the file; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "sim/fit/fit.h"
#include "traces/recorded_run.h"

namespace pipesim::cli {

struct TracedRun {
  std::int64_t iteration_ns = 0;  // the median one
  std::int64_t iterations = 0;
  KindTimes kinds;
  Source source = Source::measured;
  std::string warnings;  // one per line
};

// A trace of ours, or a profile: a file, or a folder with one per rank. Its pipeline must be that
// of the request, else an input error says in what they differ.
TracedRun read_traced_run(const std::string& path, const PredictionRequest& request);

}  // namespace pipesim::cli
