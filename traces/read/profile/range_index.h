// Finds the range of a file that encloses an instant: the innermost of its thread or, since
// backwards are launched from autograd's threads, of its process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/read/profile/profile_file.h"

namespace pipesim {

// Refers to the file, which must outlive it; knows only the ranges that stand for work. Const use
// is thread-safe.
class RangeIndex {
 public:
  static constexpr int none = -1;

  RangeIndex(const ProfileFile& file, bool with_turns);

  // The index of the range, or none.
  int on_thread(int thread, std::int64_t time_ns) const;
  int in_process(int thread, std::int64_t time_ns) const;

  // All known ranges, by start.
  const std::vector<int>& ranges() const { return ranges_; }

 private:
  // The range, or none, from this time to the next step's.
  struct Step {
    std::int64_t from_ns;
    int range;
  };
  using Steps = std::vector<Step>;  // by time

  static int at(const Steps& steps, std::int64_t time_ns);
  // For one thread's ranges, by start, outer ones first.
  Steps innermost(const std::vector<int>& ranges) const;
  // Merges threads' steps: at each time that of the first thread that has a range.
  Steps first_of(const std::vector<int>& threads) const;

  const ProfileFile& file_;
  std::vector<Steps> threads_, processes_;
  std::vector<int> ranges_;
};

}  // namespace pipesim
