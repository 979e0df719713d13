#include "exec/supervise/progress_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

// A line of text, padded with blanks. The number of iterations is at both ends, to detect a record
// that is read while it is written.
constexpr std::size_t progress_record_bytes = 160;
constexpr std::string_view progress_name = "pipeexec-progress";

std::string progress_record(const RunProgress& progress) {
  const std::string text =
      fmt::format("{} 1 {} {} {} {} {} {}", progress_name, progress.finished, progress.begun,
                  progress.first_ns, progress.last_ns, progress.iteration_ns, progress.finished);
  return fmt::format("{:<{}}\n", text, progress_record_bytes - 1);
}

// -1 if it can't be opened, or, with errno 0, if it is a pipe or a device, which might keep
// waiting.
int open_regular(const std::string& path, int flags) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    errno = 0;
    return -1;
  }
  return ::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC, 0666);
}

}  // namespace

ProgressFile::ProgressFile(std::string path) : file_(open_regular(path, O_WRONLY | O_CREAT)) {
  if (file_ >= 0) return;
  const std::string why = errno != 0 ? std::strerror(errno) : "it is not a regular file";
  throw input_error(fmt::format("{}: cannot write {}: {}; name a file that can be written",
                                progress_variable, quote(path), why));
}

ProgressFile::~ProgressFile() { ::close(file_); }

void ProgressFile::note(std::int64_t from, std::int64_t finished, std::int64_t now_ns) {
  if (count_ == 0) {
    progress_.begun = from;
    progress_.first_ns = now_ns;
  } else {
    durations_[(count_ - 1) % remembered] = (now_ns - progress_.last_ns) / (finished - from);
    const std::size_t known = std::min(count_, remembered);
    std::array<std::int64_t, remembered> sorted = durations_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((known - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(known));
    progress_.iteration_ns = *middle;
  }
  ++count_;
  progress_.finished = finished;
  progress_.last_ns = now_ns;
  const std::string record = progress_record(progress_);
  if (::pwrite(file_, record.data(), record.size(), 0) < 0) return;
}

void ProgressFile::note(std::int64_t from, std::int64_t finished) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  note(from, finished, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::unique_ptr<ProgressFile> asked_progress_file() {
  const char* path = std::getenv(progress_variable);
  return path != nullptr ? std::make_unique<ProgressFile>(path) : nullptr;
}

std::optional<RunProgress> read_progress(const std::string& path) {
  const int file = open_regular(path, O_RDONLY);
  if (file < 0) return std::nullopt;
  std::array<char, progress_record_bytes> bytes{};
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), 0);
  ::close(file);
  if (got <= 0) return std::nullopt;
  const std::string_view text = strip({bytes.data(), static_cast<std::size_t>(got)});
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.size() != 8 || words[0] != progress_name || words[1] != "1") return std::nullopt;
  std::array<std::int64_t, 6> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string_view word = words[i + 2];
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), numbers[i]);
    if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  const RunProgress progress{numbers[1], numbers[0], numbers[2], numbers[3], numbers[4]};
  const bool whole = numbers[0] == numbers[5] && progress.begun >= 0 &&
                     progress.finished > progress.begun && progress.iteration_ns >= 0;
  return whole ? std::optional(progress) : std::nullopt;
}

}  // namespace pipesim::exec
