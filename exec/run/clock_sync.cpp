#include "exec/run/clock_sync.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include "exec/run/agreement.h"
#include "exec/transport/collectives.h"
#include "traces/base/files.h"

namespace pipesim::exec {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t one_second = 1'000'000'000;
constexpr int max_round_trips = 200;
constexpr std::int64_t longest_reading_ns = 50'000'000;

// NTP lets a clock gain or lose at most 500 us per second, so two differ by at most twice that.
constexpr std::int64_t largest_drift_ppm = 1000;

std::int64_t floor_divide(Wide dividend, std::int64_t divisor) {
  const Wide quotient = dividend / divisor;
  return static_cast<std::int64_t>(dividend % divisor < 0 ? quotient - 1 : quotient);
}

// Identifies the clock that a process reads: the kernel's boot id, and the time namespace, if
// supported.
std::string identity(const Clock& clock, int rank) {
  if (!clock.is_own()) return "rank " + std::to_string(rank);
  std::error_code none;
  return read_file("/proc/sys/kernel/random/boot_id") +
         std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

// Polls at first: wait() may sleep and see the arrival late. Yields in between to others, which may
// need the same lock or processor to send it.
void await(Transport& transport, Ticket ticket) {
  for (int looks = 0; looks < 2000; ++looks) {
    if (transport.test(ticket)) return;
    std::this_thread::yield();
  }
  transport.wait(ticket);
}

std::span<const std::byte> bytes_of_one(const std::int64_t& value) {
  return std::as_bytes(std::span(&value, 1));
}
std::span<std::byte> bytes_of_one(std::int64_t& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Sends rank `of` the time until it has enough answers.
void tell_time(Transport& transport, const Clock& clock, int of) {
  for (;;) {
    std::int64_t goes_on = 0;
    await(transport, transport.receive(of, clock_tag, bytes_of_one(goes_on)));
    const std::int64_t now = clock.now_ns();
    if (goes_on == 0) return;
    await(transport, transport.send(of, clock_tag, bytes_of_one(now)));
  }
}

ClockReading ask_time(Transport& transport, const Clock& clock) {
  ClockReading best;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  // From the first answer on: before, rank 0 is busy with others.
  std::int64_t since = 0;
  std::int64_t until = 0;
  const std::int64_t goes_on = 1;
  for (int trip = 0; trip < max_round_trips && until - since <= longest_reading_ns; ++trip) {
    std::int64_t told = 0;
    const Ticket answer = transport.receive(0, clock_tag, bytes_of_one(told));
    const std::int64_t asked = clock.now_ns();
    const Ticket question = transport.send(0, clock_tag, bytes_of_one(goes_on));
    await(transport, answer);
    until = clock.now_ns();
    await(transport, question);
    if (trip == 0) since = until;
    const std::int64_t took = until - asked;
    if (took >= shortest) continue;
    shortest = took;
    // Half the round trip, rounded up; drift meanwhile; rounding of all three times.
    const std::int64_t half = took / 2 + took % 2;
    best = {asked + took / 2, told, half + half * largest_drift_ppm / 1'000'000 + 1};
  }
  const std::int64_t enough = 0;
  await(transport, transport.send(0, clock_tag, bytes_of_one(enough)));
  return best;
}

}  // namespace

SharedClocks find_shared_clocks(Transport& transport, const Clock& clock) {
  std::string own;
  agree(transport, [&] { own = identity(clock, transport.rank()); });
  SharedClocks clocks;
  std::map<std::string, int> lowest;
  for (const Bytes& bytes : gather(transport, std::as_bytes(std::span(own)))) {
    const std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    clocks.push_back(lowest.emplace(name, static_cast<int>(clocks.size())).first->second);
  }
  const auto bytes = bytes_of(clocks);
  return values_of<int>(broadcast(transport, {bytes.begin(), bytes.end()}));
}

bool all_share_one(const SharedClocks& clocks) {
  return std::ranges::all_of(clocks, [](int lowest) { return lowest == 0; });
}

std::vector<ClockReading> read_clocks(Transport& transport, const Clock& clock,
                                      const SharedClocks& clocks) {
  std::vector<ClockReading> readings(clocks.size());
  if (all_share_one(clocks)) return readings;
  ClockReading own;
  for (int rank = 1; rank < transport.ranks(); ++rank) {
    if (clocks[static_cast<std::size_t>(rank)] != rank) continue;
    if (transport.rank() == 0) tell_time(transport, clock, rank);
    if (transport.rank() == rank) own = ask_time(transport, clock);
  }
  const std::vector<ClockReading> measured = gather_value(transport, own);
  if (transport.rank() == 0) {
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      readings[rank] = measured[static_cast<std::size_t>(clocks[rank])];
    }
  }
  const auto bytes = bytes_of(readings);
  return values_of<ClockReading>(broadcast(transport, {bytes.begin(), bytes.end()}));
}

ClockRelation::ClockRelation(const ClockReading& start, const ClockReading& end)
    : start_(start),
      elapsed_ns_(std::max<std::int64_t>(1, end.own_ns - start.own_ns)),
      gained_ns_(end.first_ns - start.first_ns - (end.own_ns - start.own_ns)),
      // Rounding of a time and its image.
      uncertainty_ns_(std::max(start.uncertainty_ns, end.uncertainty_ns) + 2) {}

std::int64_t ClockRelation::to_first(std::int64_t own_ns) const {
  const Wide gained = static_cast<Wide>(own_ns - start_.own_ns) * gained_ns_;
  return own_ns + offset_ns() + floor_divide(gained, elapsed_ns_) + shift_ns_;
}

std::int64_t ClockRelation::drift_ppb() const {
  return floor_divide(static_cast<Wide>(gained_ns_) * one_second, elapsed_ns_);
}

std::vector<ClockRelation> relate_clocks(const std::vector<ClockReading>& start,
                                         const std::vector<ClockReading>& end,
                                         const SharedClocks& clocks) {
  std::vector<ClockRelation> relations(clocks.size());
  for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
    if (clocks[rank] != 0) relations[rank] = {start[rank], end[rank]};
  }
  return relations;
}

}  // namespace pipesim::exec
