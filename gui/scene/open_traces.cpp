// Files become traces: a run each of ours, a profile's files one together, and events
// where no pipeline is known.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gui/scene/document.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/base/threads.h"
#include "traces/read/input_trace.h"
#include "traces/read/profile/kineto.h"
#include "traces/read/profile/pipelines.h"
#include "traces/read/profile/profile_file.h"
#include "traces/read/read_run.h"

namespace pipesim::gui {
namespace {

// Of the whole, what comparing is thought to take.
constexpr double share_of_reading = 0.9;

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// What is read of all files, which are read side by side.
class Progress {
 public:
  Progress(const std::vector<std::string>& paths, const Report& report) : report_(report) {
    for (const std::string& path : paths) {
      std::error_code failed;
      const auto bytes = std::filesystem::file_size(path, failed);
      files_.push_back({1 + (failed ? 0 : static_cast<double>(bytes)), 0});
      all_ += files_.back().bytes;
    }
    what_ = paths.size() == 1 ? "reading " + file_name(paths.front())
                              : fmt::format("reading {} files", paths.size());
  }

  ReadProgress of(std::size_t file) {
    return [this, file](double share) { note(file, share); };
  }
  void finish(std::size_t file) { note(file, 1); }
  void comparing() {
    const std::lock_guard lock(mutex_);
    what_ = "comparing";
    tell();
  }

 private:
  struct File {
    double bytes;
    double share;
  };

  // A file that is read a second time does not take the whole back.
  void note(std::size_t file, double share) {
    const std::lock_guard lock(mutex_);
    files_[file].share = std::max(files_[file].share, share);
    tell();
  }
  void tell() {
    if (!report_) return;
    double read = 0;
    for (const File& file : files_) read += file.bytes * file.share;
    cancelled_ = cancelled_ || !report_(share_of_reading * read / all_, what_);
    if (cancelled_) throw Cancelled();
  }

  const Report& report_;
  std::mutex mutex_;
  std::vector<File> files_;
  std::string what_;
  double all_ = 0;
  bool cancelled_ = false;
};

// Calls work(0), work(1), ... by two threads, and throws what the first of them threw.
template <typename Work>
void by_two_threads(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> thrown(count);
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::jthread other;
    try {
      if (count > 1) other = start_thread("to open traces", take);
    } catch (const Error&) {  // one does it, too
    }
    take();
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

// A file as far as it has been read. In the end it is one of a run's, of events', or
// neither, and then `why` says why not.
struct File {
  std::string path;
  std::size_t folder = 0;              // files of one number may be of one profile
  std::optional<RecordedRun> run;      // of it alone
  std::vector<RecordedRun> replicas;   // of that, the others
  std::optional<ProfileFile> profile;  // while it is not part of a run
  Warnings warnings;                   // of the profile
  std::optional<EventTrace> events;
  std::optional<OpenInput> input;  // of these
  std::string why;                 // no run is known in it
};

// What is read together: a place among the traces, that of its first file.
struct Opened {
  std::vector<std::string> paths;
  std::optional<RecordedRun> run;
  std::string note;  // what else is to be said
};

// All replicas of a run, unless one is asked for or there are too many.
void read_own(File& file, int most, ReadOptions options) {
  options.warns_of_replica = false;
  file.run = read_native_run(file.path, options);
  if (!file.run || file.run->about.pipelines() == 1) return;
  const RunDescription& about = file.run->about;
  if (options.profile.replica || about.pipelines() > most) {
    file.run->warnings.add(describe_replica(about, file.run->ranks), file.path);
    return;
  }
  for (int number = 2; number <= about.pipelines(); ++number) {
    options.profile.replica = number;
    file.replicas.push_back(read_native_run(file.path, options).value());
  }
}

void read_by_itself(File& file, const std::optional<int>& replica, int max_replicas,
                    const ReadProgress& progress) {
  ReadOptions options;
  options.progress = progress;
  options.profile.replica = replica;
  try {
    if (is_input_trace(file.path)) {
      InputEvents read = events_of(read_input_run(file.path, progress), file.path);
      file.events = std::move(read.events);
      file.input = std::move(read.input);
      return;
    }
    read_own(file, max_replicas, options);
    if (!file.run) file.profile = read_profile_file(file.path, file.warnings, progress);
  } catch (const Error& error) {
    file.why = error.what();
  }
}

void read_as_events(File& file, const ReadProgress& progress) {
  file.profile.reset();
  try {
    EventTrace events = read_event_trace(file.path, progress);
    if (events.slices.empty() && events.counters.empty()) {
      file.why =
          file.path + ": it holds nothing that can be shown: " + plural(events.events, "event");
      for (const Warnings::Kind& kind : events.warnings.kinds()) file.why += "; " + kind.what;
      return;
    }
    file.events = std::move(events);
  } catch (const Error& error) {
    file.why = error.what();
  }
}

// Makes runs of the profiles of a folder, or of none: of all that tell actions one, or, where
// they don't belong together, of each one. The files that are in no run say why; where the user
// said what they are, that is an error.
class Profiles {
 public:
  Profiles(std::vector<File>& files, std::size_t folder, ProfileOptions options)
      : files_(files), folder_(folder), options_(std::move(options)) {}

  std::map<std::size_t, Opened> join(bool is_said) {
    if (is_said) return join_all();
    std::vector<std::size_t> telling = files_that_tell(false);
    if (telling.empty() && !options_.program.empty()) telling = files_that_tell(true);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (is_here(i) && std::ranges::find(telling, i) == telling.end()) try_run({i}, {});
    }
    if (telling.empty() || try_run(telling, {}) || telling.size() == 1) return std::move(runs_);
    const std::string apart = files_[telling.front()].why;
    for (const std::size_t one : telling) try_run({one}, apart);
    return std::move(runs_);
  }

 private:
  std::map<std::size_t, Opened> join_all() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (is_here(i)) all.push_back(i);
    }
    if (!all.empty() && !try_run(all, {})) throw input_error(files_[all.front()].why);
    return std::move(runs_);
  }

  bool is_here(std::size_t i) const { return files_[i].profile && files_[i].folder == folder_; }

  std::vector<std::size_t> files_that_tell(bool with_program) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (is_here(i) && tells_actions(*files_[i].profile, with_program)) places.push_back(i);
    }
    return places;
  }

  // Whether the files are a run together; they keep their profiles where they aren't.
  bool try_run(const std::vector<std::size_t>& places, const std::string& note) {
    std::vector<ProfileFile> profiles;
    Warnings warnings;
    Opened opened;
    for (const std::size_t i : places) {
      profiles.push_back(std::move(*files_[i].profile));
      warnings.add(files_[i].warnings);
    }
    try {
      opened.run = profile_run(profiles, warnings, options_);
      if (const auto choice = choose_pipeline(profiles, options_)) {
        for (const std::size_t k : choice->files) opened.paths.push_back(profiles[k].path);
      } else {
        for (const ProfileFile& profile : profiles) opened.paths.push_back(profile.path);
      }
    } catch (const Error& error) {
      for (std::size_t k = 0; k < places.size(); ++k) {
        File& file = files_[places[k]];
        file.profile = std::move(profiles[k]);
        file.why = note.empty() ? error.what() : note;
      }
      return false;
    }
    for (const std::size_t i : places) {
      files_[i].profile.reset();
      files_[i].why.clear();
    }
    if (!note.empty()) opened.note = "Shown apart from the other files: " + note;
    runs_.emplace(places.front(), std::move(opened));
    return true;
  }

  std::vector<File>& files_;
  const std::size_t folder_;
  const ProfileOptions options_;
  std::map<std::size_t, Opened> runs_;  // by their first files
};

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

// The first two kinds of warnings, and how many more there are.
std::string banner_of(const Warnings& warnings, std::string note) {
  constexpr std::size_t most = 2;
  std::string text = sentence(std::move(note));
  const auto& kinds = warnings.kinds();
  for (std::size_t i = 0; i < kinds.size() && i < most; ++i) {
    text += fmt::format(
        "{}{}: {}{}.", text.empty() ? "" : " ", kinds[i].first_place, kinds[i].what,
        kinds[i].count > 1 ? fmt::format(" ({} in all)", format_count(kinds[i].count)) : "");
  }
  if (kinds.size() > most) {
    text += fmt::format(" And {}.", plural(static_cast<std::int64_t>(kinds.size() - most),
                                           "other kind of warnings", "other kinds of warnings"));
  }
  return text;
}

// The trace is named beside it.
std::string without_path(const std::string& message, const std::string& path) {
  const std::string prefix = path + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

// Its file's name, with the folder's where another trace has the same.
std::string name_of(const std::vector<std::string>& paths, const Document& others) {
  const std::filesystem::path first(paths.front());
  std::string name = first.filename().string();
  const bool is_taken = std::ranges::any_of(others.traces, [&](const auto& other) {
    return !other->paths.empty() && other->paths != paths &&
           file_name(other->paths.front()) == name;
  });
  if (is_taken && first.has_parent_path()) {
    name = (first.parent_path().filename() / first.filename()).string();
  }
  if (paths.size() > 1) name += fmt::format(" and {} more", paths.size() - 1);
  return name;
}

void add(Document& document, Opened opened) {
  OpenTrace trace;
  trace.name = name_of(opened.paths, document);
  if (const RunDescription& about = opened.run->about; about.pipelines() > 1) {
    trace.name += ", " + about.pipeline_name();
  }
  trace.paths = std::move(opened.paths);
  trace.run = std::move(opened.run);
  trace.banner = banner_of(trace.run->warnings, std::move(opened.note));
  document.traces.push_back(std::make_shared<const OpenTrace>(std::move(trace)));
}

void add(Document& document, File file) {
  OpenTrace trace;
  trace.name = name_of({file.path}, document);
  trace.paths = {file.path};
  trace.events = std::move(file.events);
  trace.input = std::move(file.input);
  if (!trace.input) {
    trace.banner =
        banner_of(trace.events->warnings, "No pipeline is known in it, so it is shown as events: " +
                                              without_path(file.why, file.path));
  }
  document.traces.push_back(std::make_shared<const OpenTrace>(std::move(trace)));
}

// By which the n-th of a kind is told: that of the first prediction.
std::vector<std::string> program_of(const Document& document, const std::vector<File>& files) {
  for (const auto& trace : document.traces) {
    if (trace->run && trace->source() == Source::predicted) return trace->run->about.program;
  }
  for (const File& file : files) {
    if (file.run && file.run->about.source == Source::predicted) return file.run->about.program;
  }
  return {};
}

// Files that can't be read as runs have a worse fault.
void check_use(const ProfileOptions& profile, const std::vector<File>& files,
               const std::map<std::size_t, Opened>& joined) {
  std::vector<const RecordedRun*> runs;
  if (std::ranges::any_of(files, [](const File& file) { return !file.why.empty(); })) return;
  for (const auto& [place, opened] : joined) runs.push_back(&*opened.run);
  for (const File& file : files) {
    if (file.run) runs.push_back(&*file.run);
  }
  if (!runs.empty()) check_that_it_counts(profile, runs);
}

}  // namespace

Document open_traces(const std::vector<std::string>& paths, const Report& report,
                     const ProfileOptions& profile, int replicas) {
  return add_traces({}, paths, report, profile, replicas);
}

Document add_traces(const Document& document, const std::vector<std::string>& given,
                    const Report& report, const ProfileOptions& profile, int replicas) {
  if (given.empty()) throw input_error("no trace file is given");
  std::vector<std::string> paths;
  std::vector<File> files;
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (const std::string& path : files_of({given[i]})) {
      paths.push_back(path);
      files.emplace_back().path = path;
      files.back().folder = is_folder(given[i]) ? i + 1 : 0;
    }
  }
  Progress progress(paths, report);
  by_two_threads(paths.size(), [&](std::size_t i) {
    read_by_itself(files[i], profile.replica, replicas, progress.of(i));
    if (files[i].run || files[i].profile || files[i].input) progress.finish(i);
  });
  ProfileOptions options = profile;
  if (options.program.empty()) options.program = program_of(document, files);
  std::map<std::size_t, Opened> runs;
  for (std::size_t folder = 0; folder <= given.size(); ++folder) {
    runs.merge(Profiles(files, folder, options).join(!profile.empty()));
  }
  check_use(profile, files, runs);
  by_two_threads(paths.size(), [&](std::size_t i) {
    if (!files[i].why.empty()) read_as_events(files[i], progress.of(i));
    progress.finish(i);
  });

  Document result = document;
  result.not_opened.clear();
  bool any = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    File& file = files[i];
    if (const auto joined = runs.find(i); joined != runs.end()) {
      add(result, std::move(joined->second));
    } else if (file.run) {
      add(result, Opened{{file.path}, std::move(file.run), {}});
      for (RecordedRun& replica : file.replicas) {
        add(result, Opened{{file.path}, std::move(replica), {}});
      }
    } else if (file.events) {
      add(result, std::move(file));
    } else {
      if (!file.why.empty()) result.not_opened.push_back(file.why);
      continue;
    }
    any = true;
  }
  if (!any) throw input_error(fmt::format("{}", fmt::join(result.not_opened, "; ")));
  progress.comparing();
  result = paired(std::move(result));
  if (report) report(1, "done");
  return result;
}

}  // namespace pipesim::gui
