#include "traces/read/read_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/mesh.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/input_trace.h"
#include "traces/read/native_events.h"
#include "traces/read/native_metadata.h"
#include "traces/read/native_run.h"
#include "traces/read/profile/kineto.h"

namespace pipesim {
namespace {

// Recognizes the start of a profiler's file, so that it need not be read to the end.
bool is_profile(const ChromeTrace& head) {
  constexpr std::array<std::string_view, 3> keys{"schemaVersion", "deviceProperties",
                                                 "distributedInfo"};
  return std::ranges::any_of(keys, [&](auto key) { return head.members.contains(key); });
}

struct NativeFile {
  NativeEvents events;
  NativeMetadata metadata;
};

// Says which replica of a run is read, counted from 1.
void choose_replica(const std::string& path, const ReadOptions& options, NativeMetadata& metadata,
                    Warnings& warnings) {
  RunDescription& about = metadata.about;
  if (about.pipelines() == 1) return;
  const int number = options.profile.replica.value_or(1);
  if (number > about.pipelines()) {
    throw input_error(
        fmt::format("--replica {}: {} has {}; give a number from 1 on", number, path,
                    plural(about.pipelines(), about.tensor_parallel > 1 ? "pipeline" : "replica")));
  }
  about.replica = number - 1;
  if (options.warns_of_replica) warnings.add(describe_replica(about, metadata.ranks), path);
}

// Nothing if it is not pipesim's.
std::optional<NativeFile> read_own(const std::string& path, const ReadOptions& options,
                                   const ReadProgress& progress) {
  std::error_code failed;  // a path that can't be resolved fails where it is opened
  if (std::filesystem::is_regular_file(path, failed)) {  // else it can be read only once
    const ChromeTrace head = read_chrome_head(path);
    if (!native_metadata(path, head) && is_profile(head)) return std::nullopt;
  }
  NativeEvents events(path, options);
  Warnings odd;
  const ChromeTrace trace = read_chrome_trace(
      path, [&](const ChromeEvent& event) { events.add(event); }, odd, progress);
  events.finish();
  auto metadata = native_metadata(path, trace);
  if (!metadata && !events.spans.empty()) {
    std::string why;
    for (const Warnings::Kind& kind : odd.kinds()) {
      if (kind.what.find("'metadata'") != std::string::npos) why = "; " + kind.what;
    }
    throw input_error(fmt::format(
        "{}: has actions of pipesim or pipeexec, but no metadata.pipesim, which describes their "
        "run{}; when rewriting the file, keep its members besides traceEvents",
        path, why));
  }
  if (!metadata) return std::nullopt;
  events.warnings.add(odd);
  choose_replica(path, options, *metadata, events.warnings);
  return NativeFile{std::move(events), std::move(*metadata)};
}

// Sums over a run, and differences of two of them, must fit in 64 bits.
RecordedRun checked(RecordedRun run) {
  constexpr std::int64_t max_ns = std::int64_t{1} << 58;  // 9 years
  std::int64_t left_ns = max_ns;
  const auto take = [&](std::int64_t ns) {
    if (ns <= left_ns) {
      left_ns -= ns;
      return;
    }
    throw input_error(fmt::format(
        "{}: its actions take more than 9 years together; times of traces are microseconds",
        run.name));
  };
  for (const Span& span : run.spans) {
    take(span.end_ns - span.start_ns);
    take(span.queued_ns);
  }
  for (const LayerSpan& layer : run.layers) take(layer.end_ns - layer.start_ns);
  return run;
}

// Each file must have its own ranks.
void check_that_ranks_differ(const std::vector<NativeFile>& files) {
  std::map<std::int32_t, std::string> file_of_rank;
  for (const NativeFile& file : files) {
    const std::string& path = file.events.path();
    for (const Span& span : file.events.spans) {
      const auto& owner = file_of_rank.emplace(span.rank, path).first->second;
      if (&owner == &path || owner == path) continue;
      throw input_error(
          fmt::format("{} and {}: both have actions of rank {}; give files of different ranks",
                      owner, path, span.rank));
    }
  }
}

// The run of files of one run.
RecordedRun run_of(std::vector<NativeFile> files) {
  const std::string first = files.front().events.path();
  for (const NativeFile& file : files) {
    if (file.metadata.text == files.front().metadata.text) continue;
    throw input_error(
        fmt::format("{} and {}: their metadata differ, so they are from two runs; "
                    "give files of one",
                    first, file.events.path()));
  }
  std::string name = first;
  if (files.size() > 1) {
    check_that_ranks_differ(files);
    name += fmt::format(" and {} more", files.size() - 1);
  }
  const NativeMetadata metadata = std::move(files.front().metadata);
  std::vector<NativeEvents> events;
  for (NativeFile& file : files) events.push_back(std::move(file.events));
  return checked(native_run(std::move(events), metadata, name));
}

RecordedRun run_of(NativeFile file) {
  std::vector<NativeFile> alone;
  alone.push_back(std::move(file));
  return run_of(std::move(alone));
}

void check_that_files_differ(const std::vector<std::string>& paths) {
  if (paths.empty()) throw input_error("no trace file is given");
  std::set<std::filesystem::path> known;
  for (const std::string& path : paths) {
    std::error_code failed;
    const auto resolved =
        std::filesystem::weakly_canonical(std::filesystem::absolute(path, failed), failed);
    const bool is_regular = std::filesystem::is_regular_file(resolved, failed);
    if (known.insert(is_regular ? resolved : std::filesystem::path(path)).second) continue;
    throw input_error(fmt::format("{} is given twice; give each file once", path));
  }
}

// Nothing if the files are not pipesim's.
std::optional<RecordedRun> read_own_files(const std::vector<std::string>& paths,
                                          const ReadOptions& options) {
  check_that_files_differ(paths);
  std::vector<NativeFile> own;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto file = read_own(paths[i], options, part_of(options.progress, i, paths.size()));
    if (i > 0 && file.has_value() == own.empty()) {
      const std::string& ours = file ? paths[i] : paths.front();
      const std::string& other = file ? paths.front() : paths[i];
      throw input_error(
          fmt::format("{} is a trace of pipesim or pipeexec, {} is none; give files "
                      "of one run",
                      ours, other));
    }
    if (file) own.push_back(std::move(*file));
  }
  if (own.empty()) return std::nullopt;
  return run_of(std::move(own));
}

// Nothing if none of the files is an input pipeline's.
std::optional<RecordedRun> read_inputs(const std::vector<std::string>& paths,
                                       const ReadOptions& options) {
  const auto found = std::ranges::find_if(paths, is_input_trace);
  if (found == paths.end()) return std::nullopt;
  if (!options.inputs) {
    throw input_error(*found + ": it is a run of an input pipeline; give one of a pipeline");
  }
  if (paths.size() > 1) {
    throw input_error(*found +
                      ": a run of an input pipeline is one trace, of all its ranks; give it alone");
  }
  return as_recorded(read_input_run(*found, options.progress), *found);
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_directory(path, failed);
}

std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    std::error_code failed;
    for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end;
         at.increment(failed)) {
      const std::string name = at->path().string();
      const bool is_trace = name.ends_with(".json") || name.ends_with(".json.gz");
      // A pipe that happens to lie there may have no writer.
      if (is_trace && !is_folder(name) && !at->is_fifo(failed)) files.push_back(name);
    }
    if (failed) {
      throw input_error(fmt::format("cannot read folder {}: {}; give one that you may read",
                                    quote(path), failed.message()));
    }
    if (files.size() == before) {
      throw input_error(fmt::format(
          "{} is a folder without .json or .json.gz; give one with traces, or files", path));
    }
    std::ranges::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

RecordedRun read_run(const std::vector<std::string>& given, const ReadOptions& options) {
  const std::vector<std::string> paths = files_of(given);
  if (auto inputs = read_inputs(paths, options)) return std::move(*inputs);
  auto own = read_own_files(paths, options);
  return own ? std::move(*own) : checked(read_profile(paths, options));
}

std::optional<RecordedRun> read_pipeline(const std::vector<std::string>& given,
                                         const ReadOptions& options) {
  const std::vector<std::string> paths = files_of(given);
  if (auto inputs = read_inputs(paths, options)) return inputs;
  if (auto own = read_own_files(paths, options)) return own;
  if (!options.profile.empty()) return checked(read_profile(paths, options));
  Warnings warnings;
  std::vector<ProfileFile> files;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    files.push_back(
        read_profile_file(paths[i], warnings, part_of(options.progress, i, paths.size())));
  }
  const auto is_plain = [](const ProfileFile& file) {
    return file.turns.empty() && !tells_actions(file, false);
  };
  if (std::ranges::all_of(files, is_plain)) return std::nullopt;
  return checked(profile_run(files, warnings, options.profile));
}

std::vector<RecordedRun> read_runs(const std::vector<std::string>& given,
                                   const ReadOptions& options) {
  const std::vector<std::string> paths = files_of(given);
  check_that_files_differ(paths);
  read_inputs(paths, {});  // which are not of several
  std::vector<RecordedRun> runs;
  std::vector<std::string> profiles;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ReadProgress part = part_of(options.progress, i, paths.size());
    if (auto file = read_own(paths[i], options, part)) {
      runs.push_back(run_of(std::move(*file)));
    } else {
      profiles.push_back(paths[i]);
    }
  }
  if (!profiles.empty()) runs.push_back(checked(read_profile(profiles, options)));
  return runs;
}

std::string describe_replica(const RunDescription& about, int ranks) {
  std::string own;
  for (int rank = 0; rank < ranks; ++rank) {
    own += fmt::format("{}{}", rank == 0 ? "" : ", ", rank * about.pipelines() + about.replica);
  }
  return said_of_pipeline(about.replica + 1, about.pipelines(), own);
}

std::optional<RecordedRun> read_native_run(const std::string& path, const ReadOptions& options) {
  if (auto inputs = read_inputs({path}, options)) return inputs;
  auto file = read_own(path, options, options.progress);
  if (!file) return std::nullopt;
  return run_of(std::move(*file));
}

}  // namespace pipesim
