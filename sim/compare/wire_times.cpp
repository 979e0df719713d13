#include "sim/compare/wire_times.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/compare/quantiles.h"

namespace pipesim {
namespace {

// A rank that waits for a message sees it this soon after it has come; one that was busy sees it
// as soon as it is free.
constexpr std::int64_t seen_at_once_ns = 30'000;

// When what the receiver began last before the arrival ended, of the iteration before, too.
std::optional<std::int64_t> computed_until(const Operations& operations, Side side,
                                           const Occurrence& transfer) {
  const auto& list = operations.lists[side][static_cast<std::size_t>(transfer.to_rank)];
  const auto& occurrences = operations.sides[side];
  const auto next = std::ranges::lower_bound(
      list, transfer.end_ns, {}, [&](OperationId id) { return occurrences[id].start_ns; });
  if (next == list.begin()) {
    const auto& ended_before = operations.ended_before_ns[side];
    const auto receiver = static_cast<std::size_t>(transfer.to_rank);
    return receiver < ended_before.size() ? ended_before[receiver] : std::nullopt;
  }
  return occurrences[*(next - 1)].end_ns;
}

// The messages of one kind from one stage: the same way, the same bytes.
struct Way {
  std::vector<std::int64_t> seen;  // what those took that were seen as they came
  std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();  // of any, since it was sent
  std::optional<std::int64_t> otherwise_ns;                          // the longest of the other run

  std::int64_t usual_ns() const {
    if (seen.empty()) return std::min(least_ns, otherwise_ns.value_or(least_ns));
    return quantiles_of(seen).p50;
  }
};

class Waiting {
 public:
  Waiting(Operations& operations, Side side) : operations_(operations), side_(side) {}

  // By what was recorded alone.
  WireTimes known() {
    WireTimes times;
    const auto& occurrences = operations_.sides[side_];
    for (const Occurrence& own : occurrences) {
      if (!own.exists() || own.input == no_operation) continue;
      // Of what is no transfer, a producer on another rank stands where none was recorded.
      if (own.to_rank >= 0 || operations_.transfers(own.input)) continue;
      times.not_recorded += occurrences[own.input].rank == own.rank ? 0 : 1;
    }
    for_each_transfer([&](Way&, OperationId, Occurrence& own) {
      std::int64_t& count = own.has_one_end   ? times.one_end
                            : busy_until(own) ? times.seen_late
                                              : times.told;
      ++count;
    });
    return times;
  }

  // Returns of how many it is not known what they took.
  std::int64_t leave_out() {
    std::int64_t guessed = 0;
    for_each_transfer([&](Way& way, OperationId id, Occurrence& own) {
      way.least_ns = std::min(way.least_ns, own.end_ns - own.sent_ns);
      if (!busy_until(own)) way.seen.push_back(own.duration_ns());
      const auto& others =
          operations_.sides[side_ == predicted_side ? measured_side : predicted_side];
      if (!others[id].exists()) return;
      way.otherwise_ns = std::max(way.otherwise_ns.value_or(0), others[id].duration_ns());
    });
    // A rank that stood still for it behind what it was busy with has seen it come, unless it took
    // from then on what it takes anyway: then it was fetched.
    std::map<Key, std::vector<std::int64_t>> seen_later;
    for_each_transfer([&](Way& way, OperationId id, Occurrence& own) {
      const auto busy = busy_until(own);
      if (!busy || own.end_ns - *busy <= seen_at_once_ns) return;
      const std::int64_t since_sent = own.end_ns - own.sent_ns;
      const std::int64_t since_free = own.end_ns - *busy;
      const std::int64_t usual = way.seen.empty() ? way.least_ns : way.usual_ns();
      const bool was_fetched = std::abs(since_free - usual) < std::abs(since_sent - usual);
      if (!was_fetched) seen_later[key_of(id)].push_back(since_sent);
    });
    for (auto& [key, seen] : seen_later) {
      auto& all = ways_[key].seen;
      all.insert(all.end(), seen.begin(), seen.end());
    }
    for_each_transfer([&](Way& way, OperationId, Occurrence& own) {
      const auto busy = busy_until(own);
      if (!busy) return;
      const std::int64_t since_sent = own.end_ns - own.sent_ns;
      const std::int64_t since_free = std::max<std::int64_t>(0, own.end_ns - *busy);
      const std::int64_t usual = way.usual_ns();
      const bool was_seen = since_free > seen_at_once_ns &&
                            std::abs(since_sent - usual) <= std::abs(since_free - usual);
      const std::int64_t took =
          was_seen ? since_sent : std::min(since_sent, std::max(usual, since_free));
      guessed += was_seen || own.has_one_end ? 0 : 1;
      own.start_ns = own.sent_ns;
      own.end_ns = own.sent_ns + took;
    });
    return guessed;
  }

 private:
  using Key = std::pair<std::int32_t, Kind>;

  template <typename Visit>
  void for_each_transfer(const Visit& visit) {
    for (OperationId id = 0; id < operations_.size(); ++id) {
      Occurrence& own = operations_.sides[side_][id];
      if (own.exists() && operations_.transfers(id)) visit(ways_[key_of(id)], id, own);
    }
  }
  Key key_of(OperationId id) const {
    return {operations_.actions[id].stage, operations_.actions[id].kind};
  }

  // Until when the receiver computed that was busy behind the message's departure.
  std::optional<std::int64_t> busy_until(const Occurrence& transfer) const {
    const auto end_ns = computed_until(operations_, side_, transfer);
    if (!end_ns || *end_ns <= transfer.sent_ns) return std::nullopt;
    return end_ns;
  }

  Operations& operations_;
  Side side_;
  std::map<Key, Way> ways_;
};

}  // namespace

bool may_be_seen_late(const Operations& operations, Side side, const Occurrence& transfer) {
  const auto end_ns = computed_until(operations, side, transfer);
  return end_ns && transfer.end_ns - *end_ns <= seen_at_once_ns;
}

WireTimes tell_wire_times(Operations& operations, Side side, const RunDescription& about) {
  Waiting waiting(operations, side);
  WireTimes times = waiting.known();
  const bool by_hosts =
      about.source == Source::measured && (about.transport == "mpi" || about.transport == "local");
  const bool told_late = about.source == Source::profiled && about.device == "CPU";
  if (by_hosts) times.as_usual = waiting.leave_out();
  if (told_late) return times;
  // As they came, but for those.
  times.told += times.seen_late - times.as_usual;
  times.seen_late = 0;
  return times;
}

}  // namespace pipesim
