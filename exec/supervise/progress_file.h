// A run's progress, in a small file that its supervisor reads.
// Rank 0 of the run owns the ProgressFile and overwrites one record of a fixed size after each
// iteration, or after several at once, without waiting for a disk. One thread each for writing and
// for reading; the two may be in different processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pipesim::exec {

// The environment variable that names the file.
inline constexpr const char* progress_variable = "PIPEEXEC_PROGRESS";

// Iterations, or batches of an input pipeline, count from the beginning of the training, those
// before a checkpoint included.
struct RunProgress {
  std::int64_t begun = 0;     // iterations done when the run started
  std::int64_t finished = 0;  // iterations done now; more than `begun`
  std::int64_t first_ns = 0;  // by the system's clock, when the run's first iteration was done
  std::int64_t last_ns = 0;   // ... and its last ones
  // The median of the last iterations, from end to end; 0 until there is one after the first.
  std::int64_t iteration_ns = 0;

  bool operator==(const RunProgress&) const = default;
};

class ProgressFile {
 public:
  // Throws an input error if it can't be written.
  explicit ProgressFile(std::string path);
  ~ProgressFile();
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;

  // Iterations from `from` to `finished` are done, at this time of the system's clock. Failures to
  // write are ignored: they must not end a training.
  void note(std::int64_t from, std::int64_t finished, std::int64_t now_ns);
  void note(std::int64_t from, std::int64_t finished);

 private:
  static constexpr std::size_t remembered = 101;

  int file_ = -1;
  RunProgress progress_;
  std::array<std::int64_t, remembered> durations_{};  // of the last iterations, in a ring
  std::size_t count_ = 0;                             // of all iterations
};

// The file that the environment names; null if it names none.
std::unique_ptr<ProgressFile> asked_progress_file();

// Nothing if there is no complete record.
std::optional<RunProgress> read_progress(const std::string& path);

}  // namespace pipesim::exec
