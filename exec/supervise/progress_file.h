// How far a run has come, in a small file that whoever supervises it looks at.
//
// Rank 0 of the run owns the ProgressFile and overwrites one record of a fixed size with each
// iteration, or with several that are done at once, without waiting for a disk. One thread each for
// writing and for reading; the two may be different processes.
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
  std::int64_t begun = 0;     // iterations that were done when the run went on
  std::int64_t finished = 0;  // iterations that are done now; more than `begun`
  std::int64_t first_ns = 0;  // by the system's clock, when the run's first iteration was done
  std::int64_t last_ns = 0;   // ... and its last ones
  // The median of the last iterations, from end to end; 0 until there are some after the first.
  std::int64_t iteration_ns = 0;

  bool operator==(const RunProgress&) const = default;
};

class ProgressFile {
 public:
  // An input error where it can't be written.
  explicit ProgressFile(std::string path);
  ~ProgressFile();
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;

  // Those from `from` to `finished` are done now, by this time of the system's clock. What can't be
  // written is lost: a training does not end for it.
  void note(std::int64_t from, std::int64_t finished, std::int64_t now_ns);
  void note(std::int64_t from, std::int64_t finished);

 private:
  static constexpr std::size_t remembered = 101;

  int file_ = -1;
  RunProgress progress_;
  std::array<std::int64_t, remembered> durations_{};  // of an iteration, the last ones, in a ring
  std::size_t count_ = 0;                             // of all
};

// That which the environment asks for; null where it asks for none.
std::unique_ptr<ProgressFile> asked_progress_file();

// Nothing where there is no record, or none that is whole.
std::optional<RunProgress> read_progress(const std::string& path);

}  // namespace pipesim::exec
