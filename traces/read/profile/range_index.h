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
  // From a time on, up to the next one's, that range or none.
  struct Step {
    std::int64_t from_ns;
    int range;
  };
  using Steps = std::vector<Step>;  // by time

  static int at(const Steps& steps, std::int64_t time_ns);
  // Of one thread's ranges, by start, outer ones first.
  Steps innermost(const std::vector<int>& ranges) const;
  // Of threads' steps, at each time those of the first thread that has a range.
  Steps first_of(const std::vector<int>& threads) const;

  const ProfileFile& file_;
  std::vector<Steps> threads_, processes_;
  std::vector<int> ranges_;
};

}  // namespace pipesim
