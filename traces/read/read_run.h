// Trace files as a run: the one door by which recorded timelines come in.
//
// Depends on the files alone; calls share nothing; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/read/profile_options.h"
#include "traces/read/progress.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct ReadOptions {
  bool layers = false;        // keep layer spans
  bool samples = true;        // keep all memory samples; else of each rank the fullest alone
  bool tells_replica = true;  // warn that one of several replicas was read
  ProfileOptions profile = {};
  ReadProgress progress = nullptr;
};

// One file of ours, or a profiler's: one of all ranks, or one per rank. A folder stands for
// the traces in it. Throws an
// input error where a file can't be read, is no trace, or files don't belong
// together; what is odd but readable is in the run's warnings.
RecordedRun read_run(const std::vector<std::string>& paths, const ReadOptions& options = {});

// The same; nothing where the files are of a profiler, or any Chrome traces, and neither they
// nor `options.profile` say anything of a pipeline.
std::optional<RecordedRun> read_pipeline(const std::vector<std::string>& paths,
                                         const ReadOptions& options = {});

// The same of several runs: each of our files is one, a profiler's files together
// are one.
std::vector<RecordedRun> read_runs(const std::vector<std::string>& paths,
                                   const ReadOptions& options = {});

// Whether a path is a folder, which stands for the files in it that end in .json or .json.gz.
bool is_folder(const std::string& path);
// Those of each folder, by name, and the other paths, in their order. Throws an input error where
// a folder has none.
std::vector<std::string> files_of(const std::vector<std::string>& paths);

// Which replica a run is, where its file has several.
std::string said_of_replica(const RunDescription& about, int ranks);

// One file of ours, by itself; nothing where it is not ours.
std::optional<RecordedRun> read_own_run(const std::string& path, const ReadOptions& options = {});

}  // namespace pipesim
