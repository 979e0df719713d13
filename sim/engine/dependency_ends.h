// Tracks a schedule's dependencies as its tasks end: what may start, and on which critical path.
//
// Filled by the event evaluation; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/engine/tasks.h"
#include "traces/metrics.h"

namespace pipesim {

class DependencyEnds {
 public:
  // Sorted; must outlive this object.
  explicit DependencyEnds(const std::vector<TaskDependency>& dependencies)
      : dependencies_(dependencies) {}

  bool empty() const { return dependencies_.empty(); }

  // A task ends now, with `path` leading to it. Calls signal(task) for each that waited for it.
  template <typename Signal>
  void end(TaskId task, std::int64_t now_ns, const PathTimes& path, Signal signal) {
    for (auto at = std::ranges::lower_bound(dependencies_, task, {}, &TaskDependency::awaited);
         at != dependencies_.end() && at->awaited == task; ++at) {
      last_[at->task] = {now_ns, path};
      signal(at->task);
    }
  }

  // The path to a task's start at an instant, if its dependencies ended only then; or null.
  const PathTimes* path_to(TaskId task, std::int64_t start_ns) const {
    if (empty()) return nullptr;
    const auto last = last_.find(task);
    return last == last_.end() || last->second.time_ns != start_ns ? nullptr : &last->second.path;
  }

 private:
  struct Last {
    std::int64_t time_ns;
    PathTimes path;
  };

  const std::vector<TaskDependency>& dependencies_;
  std::unordered_map<TaskId, Last> last_;  // by waiting task: the dependency that ended last
};

}  // namespace pipesim
