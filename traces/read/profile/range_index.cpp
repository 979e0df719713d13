#include "traces/read/profile/range_index.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace pipesim {
namespace {

bool stands_for_work(const RangeName& name, bool with_turns) {
  switch (name.says) {
    case RangeName::Says::action:
    case RangeName::Says::microbatch:
    case RangeName::Says::optimizer: return true;
    case RangeName::Says::turn: return with_turns;
    default: return false;
  }
}

}  // namespace

RangeIndex::RangeIndex(const ProfileFile& file, bool with_turns) : file_(file) {
  for (std::size_t i = 0; i < file.ranges.size(); ++i) {
    if (stands_for_work(file.ranges[i].name, with_turns)) ranges_.push_back(static_cast<int>(i));
  }
  const auto range = [&](int i) -> const ProfileRange& {
    return file_.ranges[static_cast<std::size_t>(i)];
  };
  const auto key = [&](int i) { return std::tuple(range(i).start_ns, -range(i).end_ns, i); };
  std::sort(ranges_.begin(), ranges_.end(), [&](int a, int b) { return key(a) < key(b); });

  // A turn within a turn is part of it: a function that calls another.
  std::vector<std::vector<int>> open(file.threads.size());  // ranges around the position
  std::vector<std::vector<int>> of_thread(file.threads.size());
  std::vector<int> kept;
  for (const int i : ranges_) {
    const auto thread = static_cast<std::size_t>(range(i).thread);
    auto& stack = open[thread];
    while (!stack.empty() && range(stack.back()).end_ns <= range(i).start_ns) stack.pop_back();
    if (!stack.empty() && range(i).name.says == RangeName::Says::turn) continue;
    stack.push_back(i);
    of_thread[thread].push_back(i);
    kept.push_back(i);
  }
  ranges_ = std::move(kept);

  std::vector<std::vector<int>> busy(file.processes.size());  // threads that have ranges
  for (std::size_t thread = 0; thread < of_thread.size(); ++thread) {
    threads_.push_back(innermost(of_thread[thread]));
    if (of_thread[thread].empty()) continue;
    busy[static_cast<std::size_t>(file.threads[thread].process)].push_back(
        static_cast<int>(thread));
  }
  for (const std::vector<int>& threads : busy) processes_.push_back(first_of(threads));
}

RangeIndex::Steps RangeIndex::innermost(const std::vector<int>& ranges) const {
  const auto range = [&](int i) -> const ProfileRange& {
    return file_.ranges[static_cast<std::size_t>(i)];
  };
  Steps steps;
  std::vector<int> open;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    open.push_back(ranges[i]);
    std::int64_t now = range(ranges[i]).start_ns;
    const bool is_last = i + 1 == ranges.size();
    const std::int64_t next =
        is_last ? std::numeric_limits<std::int64_t>::max() : range(ranges[i + 1]).start_ns;
    while (now < next) {
      while (!open.empty() && range(open.back()).end_ns <= now) open.pop_back();
      steps.push_back({now, open.empty() ? none : open.back()});
      now = open.empty() ? next : range(open.back()).end_ns;
    }
  }
  return steps;
}

RangeIndex::Steps RangeIndex::first_of(const std::vector<int>& threads) const {
  struct Change {
    Step step;
    int thread;
  };
  std::vector<Change> changes;
  for (const int thread : threads) {
    for (const Step& step : threads_[static_cast<std::size_t>(thread)]) {
      changes.push_back({step, thread});
    }
  }
  std::ranges::stable_sort(changes, {}, [](const Change& change) { return change.step.from_ns; });
  Steps steps;
  std::map<int, int> now;  // ranges by thread
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto& [step, thread] = changes[i];
    if (step.range == none) {
      now.erase(thread);
    } else {
      now[thread] = step.range;
    }
    if (i + 1 < changes.size() && changes[i + 1].step.from_ns == step.from_ns) continue;
    steps.push_back({step.from_ns, now.empty() ? none : now.begin()->second});
  }
  return steps;
}

int RangeIndex::at(const Steps& steps, std::int64_t time_ns) {
  const auto after = std::ranges::upper_bound(steps, time_ns, {}, &Step::from_ns);
  return after == steps.begin() ? none : std::prev(after)->range;
}

int RangeIndex::on_thread(int thread, std::int64_t time_ns) const {
  return at(threads_[static_cast<std::size_t>(thread)], time_ns);
}

int RangeIndex::in_process(int thread, std::int64_t time_ns) const {
  const int own = on_thread(thread, time_ns);
  if (own != none) return own;
  const int process = file_.threads[static_cast<std::size_t>(thread)].process;
  return at(processes_[static_cast<std::size_t>(process)], time_ns);
}

}  // namespace pipesim
