#include "traces/read/profile/range_index.h"

#include <algorithm>
#include <tuple>

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

RangeIndex::RangeIndex(const ProfileFile& file, bool with_turns)
    : file_(file), threads_(file.threads.size()), busy_(file.processes.size()) {
  for (std::size_t i = 0; i < file.ranges.size(); ++i) {
    if (stands_for_work(file.ranges[i].name, with_turns)) ranges_.push_back(static_cast<int>(i));
  }
  const auto range = [&](int i) -> const ProfileRange& {
    return file_.ranges[static_cast<std::size_t>(i)];
  };
  const auto key = [&](int i) { return std::tuple(range(i).start_ns, -range(i).end_ns, i); };
  std::sort(ranges_.begin(), ranges_.end(), [&](int a, int b) { return key(a) < key(b); });

  std::vector<std::vector<int>> open(file.threads.size());  // entries of each thread
  std::vector<int> kept;
  for (const int i : ranges_) {
    const auto thread = static_cast<std::size_t>(range(i).thread);
    auto& entries = threads_[thread];
    auto& stack = open[thread];
    while (!stack.empty() && range(entries[static_cast<std::size_t>(stack.back())].range).end_ns <=
                                 range(i).start_ns) {
      stack.pop_back();
    }
    // A turn within a turn is a part of it: a function that calls another.
    const int outer = stack.empty() ? none : stack.back();
    if (outer != none && range(i).name.says == RangeName::Says::turn) continue;
    stack.push_back(static_cast<int>(entries.size()));
    entries.push_back({i, outer});
    kept.push_back(i);
  }
  ranges_ = std::move(kept);
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
    if (threads_[thread].empty()) continue;
    busy_[static_cast<std::size_t>(file.threads[thread].process)].push_back(
        static_cast<int>(thread));
  }
}

int RangeIndex::on_thread(int thread, std::int64_t time_ns) const {
  const auto& entries = threads_[static_cast<std::size_t>(thread)];
  const auto range = [&](const Entry& entry) -> const ProfileRange& {
    return file_.ranges[static_cast<std::size_t>(entry.range)];
  };
  const auto after = std::upper_bound(
      entries.begin(), entries.end(), time_ns,
      [&](std::int64_t time, const Entry& entry) { return time < range(entry).start_ns; });
  for (int at = static_cast<int>(after - entries.begin()) - 1; at != none;) {
    const Entry& entry = entries[static_cast<std::size_t>(at)];
    if (time_ns < range(entry).end_ns) return entry.range;
    at = entry.outer;
  }
  return none;
}

int RangeIndex::in_process(int thread, std::int64_t time_ns) const {
  const int own = on_thread(thread, time_ns);
  if (own != none) return own;
  const int process = file_.threads[static_cast<std::size_t>(thread)].process;
  for (const int other : busy_[static_cast<std::size_t>(process)]) {
    const int found = on_thread(other, time_ns);
    if (found != none) return found;
  }
  return none;
}

}  // namespace pipesim
