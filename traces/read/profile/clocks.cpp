#include "traces/read/profile/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/causality.h"

namespace pipesim {
namespace {

// Ranks that seem to start an iteration further apart have unrelated clocks.
constexpr std::int64_t related_ns = 1'000'000'000'000;

struct End {
  ProfileOperation* operation;
  std::size_t rank;
};

// Each SEND, the first of its identity, by the key of its RECV.
std::map<ActionKey, End> sends_of(std::vector<ProfileProcess>& processes) {
  std::map<ActionKey, End> sends;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    for (ProfileOperation& operation : processes[rank].operations) {
      if (!is_send(operation.action.kind)) continue;
      sends.try_emplace(ActionKey(peer_of(operation.action), operation.iteration),
                        End{&operation, rank});
    }
  }
  return sends;
}

// Calls `visit(send, receive)` for each transfer with both ends.
template <typename Visit>
void for_each_transfer(std::vector<ProfileProcess>& processes, Visit visit) {
  auto sends = sends_of(processes);
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    for (ProfileOperation& operation : processes[rank].operations) {
      if (!is_receive(operation.action.kind)) continue;
      const auto send = sends.find(ActionKey(operation.action, operation.iteration));
      if (send == sends.end()) continue;
      visit(send->second, End{&operation, rank});
      sends.erase(send);
    }
  }
}

// When the rank began its first iteration: when it reached its first action.
std::int64_t beginning_of(const ProfileProcess& process) {
  std::int64_t first_iteration = process.operations.front().iteration;
  for (const auto& operation : process.operations) {
    first_iteration = std::min(first_iteration, operation.iteration);
  }
  for (const ProfileStep& step : process.steps) {
    if (step.number == first_iteration) return step.start_ns;
  }
  return process.operations.front().called_ns;
}

void shift(ProfileProcess& process, std::int64_t by_ns) {
  for (ProfileOperation& operation : process.operations) {
    operation.called_ns += by_ns;
    operation.start_ns += by_ns;
    operation.end_ns += by_ns;
  }
}

bool are_related(const std::vector<ProfileProcess>& processes,
                 const std::vector<ProfileFile>& files, Warnings& warnings) {
  std::set<std::size_t> used;
  std::set<std::string> hosts;
  std::vector<std::int64_t> beginnings;
  bool since_1970 = true;
  for (const ProfileProcess& process : processes) {
    used.insert(process.file);
    hosts.insert(files[process.file].host);
    since_1970 = since_1970 && files[process.file].since_1970;
    beginnings.push_back(beginning_of(process));
  }
  if (used.size() == 1) return true;
  const auto [least, most] = std::minmax_element(beginnings.begin(), beginnings.end());
  if (!since_1970) {
    warnings.add(
        "times have no baseTimeNanoseconds: clocks are unrelated, and ranks are taken to "
        "start their first iteration at once",
        processes.front().name);
    return false;
  }
  if (*most - *least > related_ns) {
    warnings.add(fmt::format("clocks are unrelated, {} apart: ranks are taken to start their first "
                             "iteration at once",
                             format_time(*most - *least)),
                 processes.front().name);
    return false;
  }
  if (hosts.size() > 1) {
    warnings.add("ranks ran on several hosts, whose clocks may differ", processes.front().name);
  }
  return true;
}

void check_extent(const ProfileProcess& process, std::int64_t zero_ns) {
  for (const ProfileOperation& operation : process.operations) {
    for (const std::int64_t time : {operation.called_ns, operation.start_ns, operation.end_ns}) {
      if (time - zero_ns <= max_time_ns && zero_ns - time <= max_time_ns) continue;
      throw input_error(fmt::format(
          "{}: {} is more than 11 days from the first iteration; omit what is not of the run",
          process.name, to_text(operation.action)));
    }
  }
}

}  // namespace

std::vector<RecordedClock> align_clocks(std::vector<ProfileProcess>& processes,
                                        const std::vector<ProfileFile>& files, Warnings& warnings) {
  const bool related = are_related(processes, files, warnings);
  std::int64_t zero = beginning_of(processes.front());
  for (const ProfileProcess& process : processes) zero = std::min(zero, beginning_of(process));
  for (ProfileProcess& process : processes) {
    const std::int64_t own = beginning_of(process);
    check_extent(process, own);
    shift(process, -(related ? zero : own));
  }

  LeastTransfers least(static_cast<int>(processes.size()));
  for_each_transfer(processes, [&](const End& send, const End& receive) {
    least.add(static_cast<int>(send.rank), static_cast<int>(receive.rank),
              receive.operation->end_ns - send.operation->start_ns);
  });
  const std::vector<std::int64_t> shifts =
      righting_shifts(least, 1, processes.front().name, warnings);
  std::vector<RecordedClock> clocks;
  for (std::size_t rank = 0; rank < shifts.size(); ++rank) {
    shift(processes[rank], shifts[rank]);
    clocks.emplace_back().shift_ns = shifts[rank];
  }
  return clocks;
}

void pair_transfers(std::vector<ProfileProcess>& processes, Warnings& warnings) {
  std::int64_t pairs = 0;
  for_each_transfer(processes, [&](const End& send, const End& receive) {
    ++pairs;
    ProfileOperation& from = *send.operation;
    ProfileOperation& to = *receive.operation;
    const std::int64_t both = std::min(std::max(from.start_ns, to.start_ns), to.end_ns);
    to.queued_ns = both - to.start_ns;
    to.start_ns = both;
    from.end_ns = std::max(from.start_ns, std::min(from.end_ns, to.end_ns));
    const std::int64_t bytes = std::max(from.bytes, to.bytes);
    from.bytes = bytes;
    to.bytes = bytes;
  });
  std::int64_t ends = 0;
  for (const ProfileProcess& process : processes) {
    ends += std::count_if(process.operations.begin(), process.operations.end(),
                          [](const auto& one) { return is_transfer(one.action.kind); });
  }
  if (ends == 2 * pairs) return;
  warnings.add("transfers of which only one end is in the files: their time includes waiting",
               processes.front().name, ends - 2 * pairs);
}

void count_from_first_start(std::vector<ProfileProcess>& processes) {
  std::int64_t first = processes.front().operations.front().start_ns;
  for (const ProfileProcess& process : processes) {
    for (const ProfileOperation& operation : process.operations) {
      first = std::min(first, operation.start_ns);
    }
  }
  for (ProfileProcess& process : processes) shift(process, -first);
}

}  // namespace pipesim
