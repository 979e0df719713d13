#include "sim/compare/replay.h"

#include <algorithm>
#include <limits>

namespace pipesim {
namespace {

constexpr std::int64_t never_reached = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t not_yet = std::numeric_limits<std::int64_t>::min();

// Puts operations into one sequence, in which each follows its input and what its
// streams did before.
class Sequencer {
 public:
  Sequencer(const Operations& operations, Side side, P2p mode, bool only_matched)
      : operations_(operations),
        side_(side),
        mode_(mode),
        only_matched_(only_matched),
        occurrences_(operations.sides[side]),
        transfer_streams_(static_cast<int>(operations.lists[side].size()),
                          lane_of(send_mode_of(mode))) {}

  Order run() {
    order_.input.assign(operations_.size(), no_operation);
    order_.streams.assign(operations_.size(), {Order::no_stream, Order::no_stream});
    order_.first_collective_ns = operations_.first_collective_ns[side_];
    order_.follows = operations_.follows[side_];
    order_.computes.resize(operations_.size());
    for (OperationId id = 0; id < operations_.size(); ++id) {
      order_.computes[id] = !operations_.transfers(id);
    }
    find_inputs();
    if (!only_matched_ && !operations_.is_of_costs[side_]) find_what_closing_waits_for();
    fill_streams();
    sort();
    return std::move(order_);
  }

 private:
  bool takes_part(OperationId id) const {
    return occurrences_[id].exists() && (!only_matched_ || operations_.matched(id));
  }

  void find_inputs() {
    for (OperationId id = 0; id < operations_.size(); ++id) {
      if (!takes_part(id)) continue;
      OperationId input = occurrences_[id].input;
      // Where the transfer is left out, its producer counts.
      if (input != no_operation && !takes_part(input) && operations_.transfers(input)) {
        input = occurrences_[input].input;
      }
      if (input != no_operation && takes_part(input)) order_.input[id] = input;
    }
  }

  void find_what_closing_waits_for() {
    std::vector<OperationId> by_end;
    for (const auto& list : operations_.lists[side_]) {
      by_end.insert(by_end.end(), list.begin(), list.end());
    }
    const auto end_of = [&](OperationId id) { return occurrences_[id].end_ns; };
    std::ranges::stable_sort(by_end, {}, end_of);
    for (const auto& list : operations_.lists[side_]) {
      for (std::size_t i = 1; i < list.size(); ++i) {
        const Kind kind = operations_.actions[list[i]].kind;
        if (kind != Kind::REDUCE_GRAD && kind != Kind::OPTIMIZER) continue;
        const Occurrence& own = occurrences_[list[i]];
        const auto later = std::ranges::upper_bound(by_end, own.start_ns, {}, end_of);
        if (later == by_end.begin()) continue;
        const OperationId last = *(later - 1);
        if (end_of(last) > end_of(list[i - 1])) order_.input[list[i]] = last;
      }
    }
  }

  // What each stream does, in the order of the starts.
  void fill_streams() {
    next_.assign(operations_.size(), {no_operation, no_operation});
    blockers_.assign(operations_.size(), 0);
    std::vector<std::vector<OperationId>> lists = operations_.lists[side_];
    std::vector<bool> has_transfers;
    for (OperationId id = 0; id < operations_.size() && mode_ != P2p::async; ++id) {
      if (!takes_part(id) || !operations_.transfers(id)) continue;
      const Occurrence& own = occurrences_[id];
      for (const int owner : {own.rank, own.to_rank}) {
        const auto at =
            static_cast<std::size_t>(transfer_streams_.at(owner, own.rank, own.to_rank));
        lists.resize(std::max(lists.size(), at + 1));
        has_transfers.resize(lists.size());
        lists[at].push_back(id);
        has_transfers[at] = true;
      }
    }
    has_transfers.resize(lists.size());
    order_.stream_count = lists.size();
    for (std::size_t stream = 0; stream < lists.size(); ++stream) {
      auto& list = lists[stream];
      std::erase_if(list, [&](OperationId id) { return !takes_part(id); });
      if (has_transfers[stream]) {
        std::ranges::stable_sort(list, {},
                                 [&](OperationId id) { return occurrences_[id].start_ns; });
      }
      for (std::size_t i = 0; i < list.size(); ++i) {
        auto& streams = order_.streams[list[i]];
        const std::size_t which = streams[0] == Order::no_stream ? 0 : 1;
        streams[which] = static_cast<std::int32_t>(stream);
        if (i == 0) continue;
        auto& next = next_[list[i - 1]];
        next[next[0] == no_operation ? 0 : 1] = list[i];
        ++blockers_[list[i]];
      }
    }
  }

  // Kahn's algorithm; a circle is broken at what started first.
  void sort() {
    first_consumer_.assign(operations_.size(), no_operation);
    next_consumer_.assign(operations_.size(), no_operation);
    std::vector<OperationId> all;
    for (OperationId id = 0; id < operations_.size(); ++id) {
      if (!takes_part(id)) continue;
      all.push_back(id);
      const OperationId input = order_.input[id];
      if (input == no_operation) continue;
      ++blockers_[id];
      next_consumer_[id] = first_consumer_[input];
      first_consumer_[input] = id;
    }
    done_.assign(operations_.size(), false);
    order_.sequence.reserve(all.size());
    for (const OperationId id : all) {
      if (blockers_[id] == 0) ready_.push_back(id);
    }
    go_on();
    if (order_.sequence.size() == all.size()) return;
    std::ranges::stable_sort(all, {}, [&](OperationId id) { return occurrences_[id].start_ns; });
    for (const OperationId id : all) {
      if (done_[id]) continue;
      if (order_.input[id] != no_operation && !done_[order_.input[id]]) {
        order_.input[id] = no_operation;
      }
      ready_.push_back(id);
      go_on();
    }
  }

  void go_on() {
    while (!ready_.empty()) {
      const OperationId id = ready_.back();
      ready_.pop_back();
      if (done_[id]) continue;
      done_[id] = true;
      order_.sequence.push_back(id);
      for (const OperationId next : next_[id]) unblock(next);
      for (OperationId consumer = first_consumer_[id]; consumer != no_operation;
           consumer = next_consumer_[consumer]) {
        unblock(consumer);
      }
    }
  }

  void unblock(OperationId id) {
    if (id != no_operation && --blockers_[id] == 0) ready_.push_back(id);
  }

  const Operations& operations_;
  Side side_;
  P2p mode_;
  bool only_matched_;
  const std::vector<Occurrence>& occurrences_;
  TransferStreams transfer_streams_;
  Order order_;
  std::vector<std::array<OperationId, 2>> next_;  // on its streams
  std::vector<int> blockers_;                     // how many it still waits for
  std::vector<OperationId> first_consumer_;
  std::vector<OperationId> next_consumer_;  // of the same input
  std::vector<bool> done_;
  std::vector<OperationId> ready_;
};

// What an operation may wait for: what its streams did before, and its input.
template <typename End>
std::int64_t ready_at(const Order& order, OperationId id,
                      const std::vector<std::int64_t>& stream_end_ns, End end_of) {
  std::int64_t ready = not_yet;
  for (const std::int32_t stream : order.streams[id]) {
    if (stream != Order::no_stream) {
      ready = std::max(ready, stream_end_ns[static_cast<std::size_t>(stream)]);
    }
  }
  if (order.input[id] != no_operation) ready = std::max(ready, end_of(order.input[id]));
  return ready == not_yet ? 0 : ready;
}

}  // namespace

Order order_of(const Operations& operations, Side side, P2p mode, bool only_matched) {
  return Sequencer(operations, side, mode, only_matched).run();
}

Values values_of(const Operations& operations, Side side, const Order& all) {
  const auto& occurrences = operations.sides[side];
  Values values{std::vector<std::int64_t>(operations.size()),
                std::vector<std::int64_t>(operations.size())};
  std::vector<std::int64_t> stream_end_ns(all.stream_count, not_yet);
  for (const OperationId id : all.sequence) {
    const Occurrence& own = occurrences[id];
    const std::int64_t ready = ready_at(
        all, id, stream_end_ns, [&](OperationId input) { return occurrences[input].end_ns; });
    values.gap[id] = own.start_ns - ready;
    values.duration[id] = own.duration_ns();
    for (const std::int32_t stream : all.streams[id]) {
      if (stream != Order::no_stream) stream_end_ns[static_cast<std::size_t>(stream)] = own.end_ns;
    }
  }
  return values;
}

std::int64_t Player::makespan_ns(const Order& order, const Values& values) {
  stream_end_ns_.assign(order.stream_count, not_yet);
  std::int64_t first = order.first_collective_ns.value_or(never_reached);
  std::int64_t last = not_yet;
  for (const OperationId id : order.sequence) {
    const std::int64_t start =
        ready_at(order, id, stream_end_ns_, [&](OperationId input) { return end_ns_[input]; }) +
        values.gap[id];
    const std::int64_t end = end_ns_[id] = start + values.duration[id];
    for (const std::int32_t stream : order.streams[id]) {
      if (stream != Order::no_stream) stream_end_ns_[static_cast<std::size_t>(stream)] = end;
    }
    if (order.computes[id]) {
      first = std::min(first, start);
      last = std::max(last, end);
    }
  }
  if (last == not_yet) return 0;
  return order.follows ? last : last - first;
}

Played play(const Operations& operations, const Order& order, const Values& values) {
  const std::size_t size = operations.size();
  Played played;
  for (auto* times : {&played.ready_ns, &played.start_ns, &played.end_ns, &played.slack_ns}) {
    times->assign(size, 0);
  }
  played.awaited.assign(size, no_operation);
  std::vector<std::array<OperationId, 2>> before(size, {no_operation, no_operation});
  std::vector<OperationId> last_on(order.stream_count, no_operation);
  std::int64_t first = order.first_collective_ns.value_or(never_reached);
  OperationId last = no_operation;
  for (const OperationId id : order.sequence) {
    OperationId& awaited = played.awaited[id];
    const auto wait_for = [&](OperationId other) {
      if (other == no_operation) return;
      if (awaited == no_operation || played.end_ns[other] > played.end_ns[awaited]) awaited = other;
    };
    for (std::size_t which = 0; which < 2; ++which) {
      const std::int32_t stream = order.streams[id][which];
      if (stream == Order::no_stream) continue;
      OperationId& own = last_on[static_cast<std::size_t>(stream)];
      before[id][which] = own;
      wait_for(own);
      own = id;
    }
    wait_for(order.input[id]);
    played.ready_ns[id] = awaited == no_operation ? 0 : played.end_ns[awaited];
    played.start_ns[id] = played.ready_ns[id] + values.gap[id];
    played.end_ns[id] = played.start_ns[id] + values.duration[id];
    if (operations.transfers(id)) continue;
    first = std::min(first, played.start_ns[id]);
    if (last == no_operation || played.end_ns[id] > played.end_ns[last]) last = id;
  }
  if (last == no_operation) return played;
  played.makespan_ns = played.end_ns[last] - (order.follows ? 0 : first);

  for (OperationId id = last; id != no_operation; id = played.awaited[id]) {
    played.critical_path.push_back(id);
  }
  std::ranges::reverse(played.critical_path);

  // Backwards: how late each could end for all that needs it to end as late as it may.
  std::vector<std::int64_t>& latest_end = played.slack_ns;
  for (const OperationId id : order.sequence) latest_end[id] = played.end_ns[last];
  for (auto at = order.sequence.rbegin(); at != order.sequence.rend(); ++at) {
    const OperationId id = *at;
    const std::int64_t latest_ready = latest_end[id] - values.duration[id] - values.gap[id];
    for (const OperationId other : {before[id][0], before[id][1], order.input[id]}) {
      if (other != no_operation) latest_end[other] = std::min(latest_end[other], latest_ready);
    }
  }
  for (const OperationId id : order.sequence) played.slack_ns[id] -= played.end_ns[id];
  return played;
}

}  // namespace pipesim
