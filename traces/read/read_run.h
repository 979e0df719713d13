// Reads trace files as a run: the only entry for recorded timelines.
// Depends only on the files; no shared state; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/read/profile_options.h"
#include "traces/read/progress.h"
#include "traces/recorded_run.h"

namespace pipesim {

struct ReadOptions {
  bool layers = false;           // keep layer spans
  bool samples = true;           // keep all memory samples; else only the fullest of each rank
  bool warns_of_replica = true;  // warn that one of several replicas was read
  bool inputs = false;           // an input pipeline's run will do, too; else it is an input error
  ProfileOptions profile = {};
  ReadProgress progress = nullptr;
};

// Reads one own file, or a profiler's: one of all ranks, or one per rank; a run of an input
// pipeline is one file. A folder stands for the traces in it. Throws an input error if a file can't
// be read or is not a trace, or if files don't belong together; oddities are in the run's warnings.
RecordedRun read_run(const std::vector<std::string>& paths, const ReadOptions& options = {});

// The same; nothing if the files are a profiler's, or any Chrome traces, and neither they nor
// `options.profile` say anything about a pipeline.
std::optional<RecordedRun> read_pipeline(const std::vector<std::string>& paths,
                                         const ReadOptions& options = {});

// The same for several runs: each own file is one, a profiler's files together are one.
std::vector<RecordedRun> read_runs(const std::vector<std::string>& paths,
                                   const ReadOptions& options = {});

// Whether a path is a folder, which stands for the files in it that end in .json or .json.gz.
bool is_folder(const std::string& path);
// The files of each folder, by name, and the other paths, in their order. Throws an input error if
// a folder has none.
std::vector<std::string> files_of(const std::vector<std::string>& paths);

// Says which replica a run is, if its file has several.
std::string describe_replica(const RunDescription& about, int ranks);

// Reads one own file; nothing if it is not pipesim's.
std::optional<RecordedRun> read_native_run(const std::string& path,
                                           const ReadOptions& options = {});

}  // namespace pipesim
