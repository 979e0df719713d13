// Which range of a file stands around an instant: the innermost of its thread,
// or, as backwards are launched from threads of autograd, of its process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/read/profile/profile_file.h"

namespace pipesim {

// Refers to the file's ranges, of which it knows those that stand for work.
// Reading is const and thread-safe.
class RangeIndex {
 public:
  static constexpr int none = -1;

  RangeIndex(const ProfileFile& file, bool with_turns);

  // The index of the range, or none.
  int on_thread(int thread, std::int64_t time_ns) const;
  int in_process(int thread, std::int64_t time_ns) const;

  // All that it knows, by start.
  const std::vector<int>& ranges() const { return ranges_; }

 private:
  struct Entry {
    int range;
    int outer;  // entry of the same thread around it, or none
  };

  const ProfileFile& file_;
  std::vector<std::vector<Entry>> threads_;  // by start, outer ones first
  std::vector<std::vector<int>> busy_;       // of each process, its threads that have entries
  std::vector<int> ranges_;
};

}  // namespace pipesim
