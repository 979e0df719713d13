#include "traces/read/profile/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/joining.h"
#include "traces/read/profile/clocks.h"
#include "traces/read/profile/iterations.h"
#include "traces/read/profile/operations.h"
#include "traces/read/profile/pipelines.h"
#include "traces/read/profile/profile_file.h"
#include "traces/read/profile/ranks.h"

namespace pipesim {
namespace {

using Says = RangeName::Says;

bool names_actions(const RangeName& name) {
  return name.says == Says::action || name.says == Says::microbatch;
}

// "10,521 events: 5,000 cpu_op, 3,000 kernel, ...", the most frequent first.
std::string holdings(const ProfileFile& file) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  for (const auto& [name, count] : file.categories) counts.emplace_back(-count, name);
  std::sort(counts.begin(), counts.end());
  std::string text = plural(file.events, "event");
  for (std::size_t i = 0; i < counts.size() && i < 5; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", format_count(-counts[i].first),
                        printable(counts[i].second));
  }
  return counts.size() > 5 ? text + ", ..." : text;
}

[[noreturn]] void refuse(const ProfileFile& file, const ProfileOptions& options) {
  std::string what = fmt::format(
      "{}: no range like `PP:0F0` or `Forward 0` says which action of a pipeline ran", file.path);
  std::string turns;
  for (const auto& [name, count] : file.turns) {
    turns += fmt::format("{}{} {}", turns.empty() ? "" : ", ", format_count(count), name);
  }
  if (!options.program.empty()) {
    what += ", and no `forward_step` or the like of which the schedule could tell it";
  } else if (!turns.empty()) {
    throw input_error(fmt::format(
        "{}, but it holds {}: give the schedule that ran by {}, whose order tells which is "
        "the n-th of them",
        what, turns, options.program_flag));
  }
  throw input_error(
      fmt::format("{}; it holds {}; give the traces of a run by torch.distributed.pipelining", what,
                  holdings(file)));
}

// The processes of each file of `places`, in their order. If no file names actions, by turns.
std::vector<ProfileProcess> processes_of(const std::vector<ProfileFile>& files,
                                         const std::vector<std::size_t>& places,
                                         const ProfileOptions& options, bool& inferred,
                                         RecordedRun& run) {
  const bool named =
      std::ranges::any_of(places, [&](std::size_t i) { return tells_actions(files[i], false); });
  const bool with_program = !options.program.empty();
  inferred = !named && with_program;
  std::vector<ProfileProcess> processes;
  for (const std::size_t i : places) {
    ProfileOperations found = find_operations(files[i], i, inferred, run.warnings);
    run.unmatched += found.unmatched;
    bool any = false;
    for (ProfileProcess& process : found.processes) {
      const bool of_pipeline = std::any_of(
          process.operations.begin(), process.operations.end(), [](const auto& operation) {
            return operation.says != Says::optimizer && !operation.lost;
          });
      if (!of_pipeline) continue;
      any = true;
      processes.push_back(std::move(process));
    }
    if (any) continue;
    if (tells_actions(files[i], inferred)) {
      throw input_error(fmt::format(
          "{}: none of its {} belongs to a range of the pipeline, as where launches were not "
          "recorded; record activities of CPU and device",
          files[i].path, plural(static_cast<std::int64_t>(files[i].kernels.size()), "kernel")));
    }
    refuse(files[i], options);
  }
  return processes;
}

// For files of one rank each.
void check_one_process_each(const std::vector<ProfileProcess>& processes) {
  for (std::size_t i = 1; i < processes.size(); ++i) {
    if (processes[i].file != processes[i - 1].file) continue;
    throw input_error(fmt::format(
        "{}: several of its processes run actions, and files of one rank are expected; give one "
        "file a rank",
        processes[i].name));
  }
}

// One rank's optimizers step one after the other: merged into one action per iteration.
void merge_optimizers(ProfileProcess& process) {
  std::map<std::int64_t, std::size_t> first;
  std::vector<ProfileOperation> kept;
  for (const ProfileOperation& operation : process.operations) {
    if (operation.says == Says::optimizer) {
      const auto [entry, fresh] = first.try_emplace(operation.iteration, kept.size());
      if (!fresh) {
        ProfileOperation& whole = kept[entry->second];
        whole.start_ns = std::min(whole.start_ns, operation.start_ns);
        whole.end_ns = std::max(whole.end_ns, operation.end_ns);
        continue;
      }
    }
    kept.push_back(operation);
  }
  process.operations = std::move(kept);
}

// Microbatches must be numbered without gaps; the error names the missing one.
int count_microbatches(const std::vector<ProfileProcess>& processes) {
  std::set<std::int32_t> seen;
  for (const ProfileProcess& process : processes) {
    for (const ProfileOperation& operation : process.operations) {
      if (takes_microbatch(operation.action.kind)) seen.insert(operation.action.microbatch);
      if (operation.action.joined) seen.insert(operation.partner.microbatch);
    }
  }
  std::int32_t count = 0;
  for (const std::int32_t microbatch : seen) {
    if (microbatch != count) {
      throw input_error(fmt::format("{}: it has microbatch {} but not {}; record whole iterations",
                                    processes.front().name, microbatch, count));
    }
    ++count;
  }
  return count;
}

void add_spans(const ProfileOperation& operation, std::size_t rank, LargeVector<Span>& spans) {
  Span span;
  span.action = operation.action;
  span.rank = static_cast<std::int32_t>(rank);
  span.iteration = static_cast<std::int32_t>(operation.iteration);
  span.start_ns = operation.start_ns;
  span.end_ns = operation.end_ns;
  span.bytes = operation.bytes;
  span.queued_ns = operation.queued_ns;
  spans.push_back(span);
  if (!operation.action.joined) return;
  span.action = operation.partner;
  spans.push_back(span);
}

void fill_iterations(const std::vector<ProfileProcess>& processes,
                     const std::vector<std::int32_t>& numbers, RecordedRun& run) {
  struct Place {
    const ProfileOperation* operation;
    std::size_t rank;
  };
  std::map<std::int64_t, std::vector<Place>> places;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    for (const ProfileOperation& operation : processes[rank].operations) {
      places[operation.iteration].push_back({&operation, rank});
    }
  }
  for (const std::int32_t number : numbers) {
    std::vector<Place>& own = places[number];
    std::stable_sort(own.begin(), own.end(), [](const Place& a, const Place& b) {
      return std::tie(a.operation->start_ns, a.rank) < std::tie(b.operation->start_ns, b.rank);
    });
    RecordedIteration iteration;
    iteration.number = number;
    iteration.begin = run.spans.size();
    for (const Place& place : own) add_spans(*place.operation, place.rank, run.spans);
    iteration.end = run.spans.size();
    const std::span<Span> spans(run.spans.data() + iteration.begin,
                                run.spans.size() - iteration.begin);
    join_inputs(spans, SpanIndex(spans));
    const IterationExtent extent = extent_of(spans);
    iteration.start_ns = extent.start_ns;
    iteration.makespan_ns = extent.makespan_ns;
    run.iterations.push_back(iteration);
  }
}

std::vector<std::size_t> all_of(const std::vector<ProfileFile>& files) {
  std::vector<std::size_t> places(files.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

// The part of each file before its events, so that files of other pipelines need not be read; empty
// if one can be read only once.
std::vector<ProfileFile> heads_of(const std::vector<std::string>& paths) {
  std::vector<ProfileFile> heads;
  for (const std::string& path : paths) {
    if (std::error_code failed; !std::filesystem::is_regular_file(path, failed)) return {};
    heads.push_back(read_profile_head(path));
  }
  return heads;
}

void check_rank_count(const std::vector<ProfileProcess>& processes, const ProfileOptions& options) {
  const std::size_t planned = options.program.size();
  if (planned == processes.size()) return;
  const std::string schedule = plural(static_cast<std::int64_t>(planned), "rank");
  if (!options.ranks.empty()) {
    throw input_error(
        fmt::format("--ranks: the schedule has {}, and {} named; name one of each", schedule,
                    processes.size() == 1 ? "1 is" : fmt::format("{} are", processes.size())));
  }
  throw input_error(fmt::format("{}: the schedule has {}, the files {}; give one of each rank{}",
                                processes.front().name, schedule, processes.size(),
                                planned < processes.size()
                                    ? ", or name those of one pipeline by --ranks"
                                    : ", or a folder that holds them"));
}

// The run of the files of `choice`, or of all.
RecordedRun run_of(const std::vector<ProfileFile>& files, const Warnings& warnings,
                   const ProfileOptions& options, const std::optional<PipelineChoice>& choice) {
  RecordedRun run;
  run.warnings = warnings;
  bool inferred = false;
  const std::vector<std::size_t> places = choice ? choice->files : all_of(files);
  const ProfileFile& first = files[places.front()];
  std::vector<ProfileProcess> processes = processes_of(files, places, options, inferred, run);
  if (!choice) {
    order_by_rank(processes, files, run.warnings);
  } else {
    check_one_process_each(processes);
    if (!choice->said.empty()) run.warnings.add(choice->said, first.path);
  }
  if (inferred) {
    check_rank_count(processes, options);
    infer_actions(processes, options);
  }
  const std::vector<std::int32_t> numbers = number_iterations(processes, run.warnings);
  run.about.rank_of_stage = place_stages(processes, files);
  for (ProfileProcess& process : processes) merge_optimizers(process);
  run.about.clocks = align_clocks(processes, files, run.warnings);
  pair_transfers(processes, run.warnings);
  count_from_first_start(processes);

  run.name = first.path;
  if (places.size() > 1) run.name += fmt::format(" and {} more", places.size() - 1);
  run.about.source = Source::profiled;
  run.about.program = options.program;
  run.about.transport = first.backend;
  const bool on_device =
      std::ranges::any_of(places, [&](std::size_t i) { return !files[i].kernels.empty(); });
  run.about.device = on_device ? first.device : "CPU";
  run.identified = inferred ? Identified::inferred : Identified::annotated;
  run.ranks = static_cast<int>(processes.size());
  run.microbatches = count_microbatches(processes);
  std::vector<int> stages_of_rank(processes.size(), 0);
  for (const int rank : run.about.rank_of_stage) {
    run.chunk_of_stage.push_back(stages_of_rank[static_cast<std::size_t>(rank)]++);
  }
  fill_iterations(processes, numbers, run);
  return run;
}

}  // namespace

RecordedRun read_profile(const std::vector<std::string>& paths, const ReadOptions& options) {
  if (paths.empty()) throw input_error("no trace file; give one, or one of each rank");
  const std::vector<ProfileFile> heads = heads_of(paths);
  auto choice = heads.empty() ? std::nullopt : choose_pipeline(heads, options.profile);
  std::vector<std::string> read = paths;
  if (choice) {
    read.clear();
    for (std::size_t& place : choice->files) {
      read.push_back(paths[place]);
      place = read.size() - 1;
    }
  }
  Warnings warnings;
  std::vector<ProfileFile> files;
  files.reserve(read.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    files.push_back(
        read_profile_file(read[i], warnings, part_of(options.progress, i, read.size())));
  }
  if (choice) return run_of(files, warnings, options.profile, choice);
  return profile_run(files, warnings, options.profile);
}

bool tells_actions(const ProfileFile& file, bool with_program) {
  return std::any_of(file.ranges.begin(), file.ranges.end(), [&](const ProfileRange& range) {
    return names_actions(range.name) || (with_program && range.name.says == Says::turn);
  });
}

RecordedRun profile_run(const std::vector<ProfileFile>& files, const Warnings& warnings,
                        const ProfileOptions& options) {
  const auto choice = choose_pipeline(files, options);
  if (!choice && options.replica) {
    throw input_error(fmt::format(
        "--replica: {}: neither process groups nor messages tell which ranks are a pipeline; name "
        "its ranks by --ranks",
        files.front().path));
  }
  return run_of(files, warnings, options, choice);
}

}  // namespace pipesim
