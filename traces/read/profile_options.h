// What the user says about a profiler's trace that its files leave open. Plain values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/recorded_run.h"

namespace pipesim {

struct ProfileOptions {
  // If files don't identify actions: a CSV row per rank, which identifies the n-th operation of
  // each kind.
  std::vector<std::string> program;
  // The job's ranks in the pipeline, in its order, each once; empty: from the files.
  std::vector<int> ranks;
  // Which pipeline of a job with several, from 1; nothing: the first. Not together with `ranks`.
  std::optional<int> replica;
  // The flag that gives the program, for advice in errors.
  std::string program_flag = "--schedule";

  bool empty() const { return program.empty() && ranks.empty() && !replica; }
};

// Throws an input error if there are runs but none of them needed the options.
void check_that_it_counts(const ProfileOptions& options,
                          const std::vector<const RecordedRun*>& runs);

// Says that one of a job's pipelines was read, its number, from 1, and its ranks.
std::string said_of_pipeline(int number, int count, const std::string& ranks);

}  // namespace pipesim
