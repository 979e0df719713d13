#include "sim/compare/wire_times.h"

#include <optional>
#include <vector>

#include "traces/arrivals.h"

namespace pipesim {
namespace {

// When what the receiver began last before the arrival ended, of the iteration before, too.
std::optional<std::int64_t> computed_until(const Operations& operations, Side side,
                                           const Occurrence& transfer) {
  const auto& list = operations.lists[side][static_cast<std::size_t>(transfer.to_rank)];
  const auto& occurrences = operations.sides[side];
  const auto& ended_before = operations.ended_before_ns[side];
  const auto receiver = static_cast<std::size_t>(transfer.to_rank);
  return last_end_before(
      list, transfer.end_ns, [&](OperationId id) { return occurrences[id].start_ns; },
      [&](OperationId id) { return occurrences[id].end_ns; },
      receiver < ended_before.size() ? ended_before[receiver] : std::nullopt);
}

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
    for_each_transfer([&](OperationId, const Occurrence& own) {
      std::int64_t& count = own.has_one_end   ? times.one_end
                            : busy_until(own) ? times.seen_late
                                              : times.told;
      ++count;
    });
    return times;
  }

  // Returns of how many it is not known what they took.
  std::int64_t leave_out() {
    const auto& others =
        operations_.sides[side_ == predicted_side ? measured_side : predicted_side];
    std::vector<Message> messages;
    for_each_transfer([&](OperationId id, const Occurrence& own) {
      Message& message = messages.emplace_back(Message{
          operations_.actions[id], own.sent_ns, own.start_ns, own.end_ns, busy_until(own), {}});
      if (others[id].exists()) message.otherwise_ns = others[id].duration_ns();
    });
    separate_arrivals(messages);
    std::int64_t guessed = 0;
    auto message = messages.begin();
    for_each_transfer([&](OperationId, Occurrence& own) {
      guessed += message->is_assumed && !own.has_one_end ? 1 : 0;
      own.start_ns = message->start_ns;
      own.end_ns = message->end_ns;
      ++message;
    });
    return guessed;
  }

 private:
  template <typename Visit>
  void for_each_transfer(const Visit& visit) {
    for (OperationId id = 0; id < operations_.size(); ++id) {
      Occurrence& own = operations_.sides[side_][id];
      if (own.exists() && operations_.transfers(id)) visit(id, own);
    }
  }

  // Until when the receiver computed that was busy behind the message's departure.
  std::optional<std::int64_t> busy_until(const Occurrence& transfer) const {
    const auto end_ns = computed_until(operations_, side_, transfer);
    if (!end_ns || *end_ns <= transfer.sent_ns) return std::nullopt;
    return end_ns;
  }

  Operations& operations_;
  Side side_;
};

}  // namespace

bool may_be_seen_late(const Operations& operations, Side side, const Occurrence& transfer) {
  const auto end_ns = computed_until(operations, side, transfer);
  return end_ns && transfer.end_ns - *end_ns <= seen_at_once_ns;
}

WireTimes tell_wire_times(Operations& operations, Side side, const RunDescription& about) {
  Waiting waiting(operations, side);
  WireTimes times = waiting.known();
  const bool ends_come_late = about.source == Source::profiled && about.device == "CPU";
  if (has_late_looks(about)) times.as_usual = waiting.leave_out();
  if (ends_come_late) return times;
  // As they came, but for those.
  times.told += times.seen_late - times.as_usual;
  times.seen_late = 0;
  return times;
}

}  // namespace pipesim
