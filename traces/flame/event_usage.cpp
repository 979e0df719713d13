#include "traces/flame/event_usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "traces/flame/stacks.h"
#include "traces/intervals.h"

namespace pipesim {
namespace {

// Kineto's names for them through the years.
bool is_of_device(std::string_view category) {
  constexpr std::array<std::string_view, 6> known{"kernel",     "Kernel", "gpu_memcpy",
                                                  "gpu_memset", "Memcpy", "Memset"};
  return std::ranges::find(known, category) != known.end();
}

bool is_message(std::string_view name) {
  constexpr std::array<std::string_view, 7> known{
      "nccl", "rccl", "c10d::", "gloo:", "mpi:", "ucc:", "MPI_"};
  return std::ranges::any_of(known, [&](auto prefix) { return name.starts_with(prefix); });
}

// The times of one process, whose tracks are adjacent.
class ProcessTimes {
 public:
  explicit ProcessTimes(std::string_view process) : process_(process) {}
  std::string_view process() const { return process_; }
  bool empty() const { return work_.empty() && messages_.empty(); }

  void add(std::int64_t start_ns, std::int64_t end_ns, bool message) {
    std::vector<Interval>& own = message ? messages_ : work_;
    // Most are adjacent: few ranges cover many slices.
    if (!own.empty() && own.back().end_ns == start_ns) {
      own.back().end_ns = end_ns;
    } else if (end_ns > start_ns) {
      own.push_back({start_ns, end_ns});
    }
  }

  RankUsage usage() const {
    const std::vector<Interval> work = united(work_);
    const std::vector<Interval> messages = united(messages_);
    RankUsage usage;
    usage.name = process_;
    usage.busy_ns = length_of(work);
    usage.hidden_ns = common_of(work, messages);
    usage.exposed_ns = length_of(messages) - usage.hidden_ns;
    std::vector<Interval> all = work;
    all.insert(all.end(), messages.begin(), messages.end());
    all = united(std::move(all));
    usage.span_ns = all.back().end_ns - all.front().start_ns;
    return usage;
  }

 private:
  std::string_view process_;
  std::vector<Interval> work_, messages_;
};

}  // namespace

std::vector<RankUsage> rank_usage(const EventTrace& events) {
  const auto category = [&](const Slice& slice) { return events.text(slice.category); };
  const bool on_device = std::ranges::any_of(
      events.slices, [&](const Slice& slice) { return is_of_device(category(slice)); });
  std::vector<ProcessTimes> processes;
  each_track(events, [&](std::size_t begin, std::size_t end) {
    const std::string& process = events.tracks[events.slices[begin].track].process;
    if (processes.empty() || processes.back().process() != process) {
      processes.emplace_back(process);
    }
    ProcessTimes& own = processes.back();
    if (on_device) {
      for (std::size_t i = begin; i < end; ++i) {
        const Slice& slice = events.slices[i];
        if (!is_of_device(category(slice))) continue;
        own.add(slice.start_ns, slice.end_ns, is_message(events.text(slice.name)));
      }
      return;
    }
    std::int64_t open = 0;
    std::int64_t open_messages = 0;
    std::int64_t since_ns = 0;
    const auto change = [&](std::uint32_t slice, std::int64_t at_ns, int by) {
      if (open > 0) own.add(since_ns, at_ns, open_messages > 0);
      since_ns = at_ns;
      open += by;
      if (is_message(events.text(events.slices[slice].name))) open_messages += by;
    };
    play_slices(
        events, slices_in_order(events, begin, end),
        [&](std::uint32_t slice, std::int64_t at_ns) { change(slice, at_ns, 1); },
        [&](std::uint32_t slice, std::int64_t at_ns) { change(slice, at_ns, -1); });
  });
  std::erase_if(processes, [](const ProcessTimes& one) { return one.empty(); });
  std::vector<RankUsage> usage;
  for (const ProcessTimes& one : processes) usage.push_back(one.usage());
  if (!events.rank) return usage;
  for (RankUsage& one : usage) {
    const std::string rank = fmt::format("rank {}", *events.rank);
    one.name = usage.size() == 1 ? rank : rank + ", " + one.name;
  }
  return usage;
}

std::vector<NameTimes> name_times(const EventTrace& events) {
  std::vector<NameTimes> times(events.texts.size());
  for (std::uint32_t i = 0; i < events.slices.size(); ++i) {
    const Slice& slice = events.slices[i];
    NameTimes& own = times[slice.name];
    const Slice& longest = events.slices[own.longest];
    own.name = slice.name;
    if (own.count++ == 0 || slice.end_ns - slice.start_ns > longest.end_ns - longest.start_ns) {
      own.longest = i;
    }
    own.total_ns += slice.end_ns - slice.start_ns;
  }
  each_track(events, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> open;  // names
    std::int64_t since_ns = 0;
    const auto pass = [&](std::int64_t at_ns) {
      if (!open.empty()) times[open.back()].self_ns += at_ns - since_ns;
      since_ns = at_ns;
    };
    play_slices(
        events, slices_in_order(events, begin, end),
        [&](std::uint32_t slice, std::int64_t at_ns) {
          pass(at_ns);
          open.push_back(events.slices[slice].name);
        },
        [&](std::uint32_t, std::int64_t at_ns) {
          pass(at_ns);
          open.pop_back();
        });
  });
  std::erase_if(times, [](const NameTimes& one) { return one.count == 0; });
  std::ranges::stable_sort(times, std::greater(), &NameTimes::self_ns);
  return times;
}

}  // namespace pipesim
