// What the user says of a profiler's trace that its files leave open. Plain values; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/recorded_run.h"

namespace pipesim {

struct ProfileOptions {
  // Where files don't say which action is which: a CSV row a rank, by which the n-th operation
  // of a kind is told.
  std::vector<std::string> program;
  // The job's ranks that are the pipeline, in its order, each once; empty: as the files tell.
  std::vector<int> ranks;
  // Which pipeline of a job with several, from 1 on; nothing: the first. Not beside `ranks`.
  std::optional<int> replica;
  // By which flag the program is given, for what errors advise.
  std::string program_flag = "--schedule";

  bool empty() const { return program.empty() && ranks.empty() && !replica; }
};

// Throws an input error where none of the runs, of which there are some, needed what was said.
void check_that_it_counts(const ProfileOptions& options,
                          const std::vector<const RecordedRun*>& runs);

// That one of a job's pipelines was taken, the so many-th from 1 on, of these ranks.
std::string said_of_pipeline(int number, int count, const std::string& ranks);

}  // namespace pipesim
