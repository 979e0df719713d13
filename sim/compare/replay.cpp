#include "sim/compare/replay.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipesim {
namespace {

constexpr std::int64_t never_reached = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t not_yet = Replay::not_yet;

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
        streams_(static_cast<int>(operations.lists[side].size()), lane_of(send_mode_of(mode))) {}

  Order run() {
    order_.input.assign(operations_.size(), no_operation);
    order_.streams.assign(operations_.size(), {Order::no_stream, Order::no_stream});
    order_.first_collective_ns = operations_.first_collective_ns[side_];
    order_.follows = operations_.follows[side_];
    order_.waits_begin = operations_.waits_begin;
    order_.waits = operations_.waits;
    order_.computes.resize(operations_.size());
    for (OperationId id = 0; id < operations_.size(); ++id) {
      order_.computes[id] = !operations_.transfers(id);
    }
    find_inputs();
    find_groups();
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

  void find_groups() {
    order_.group_of.assign(operations_.size(), Order::no_group);
    if (!operations_.meeting_of.empty()) {
      order_.group_of = operations_.meeting_of;
      for (OperationId id = 0; id < operations_.size(); ++id) {
        const std::int32_t group = order_.group_of[id];
        if (group == Order::no_group) continue;
        const auto at = static_cast<std::size_t>(group);
        order_.groups.resize(std::max(order_.groups.size(), at + 1));
        order_.groups[at].push_back(id);
      }
    }
    for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
      std::vector<OperationId> group;
      for (OperationId id = 0; id < operations_.size(); ++id) {
        if (operations_.actions[id].kind == kind && takes_part(id)) group.push_back(id);
      }
      if (group.size() < 2) continue;
      for (const OperationId id : group) {
        order_.group_of[id] = static_cast<std::int32_t>(order_.groups.size());
      }
      order_.groups.push_back(std::move(group));
    }
    unready_.clear();
    for (const auto& group : order_.groups) unready_.push_back(group.size());
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
        const auto at = static_cast<std::size_t>(streams_.transfers(owner, own.rank, own.to_rank));
        lists.resize(std::max(lists.size(), at + 1));
        has_transfers.resize(lists.size());
        lists[at].push_back(id);
        has_transfers[at] = true;
      }
    }
    has_transfers.resize(lists.size());
    order_.free_ns.assign(lists.size(), not_yet);
    const auto& ended_before = operations_.ended_before_ns[side_];
    for (std::size_t rank = 0; rank < ended_before.size(); ++rank) {
      order_.free_ns[rank] = ended_before[rank].value_or(not_yet);
    }
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
      blockers_[id] += static_cast<int>(order_.waits_of(id).size());
      const OperationId input = order_.input[id];
      if (input == no_operation) continue;
      ++blockers_[id];
      next_consumer_[id] = first_consumer_[input];
      first_consumer_[input] = id;
    }
    find_waiting();
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
      dissolve(order_.group_of[id]);
      ready_.push_back(id);
      go_on();
    }
  }

  // Who waits for what, the other way round.
  void find_waiting() {
    if (order_.waits_begin.empty()) return;
    waiting_begin_.assign(operations_.size() + 1, 0);
    for (const OperationId awaited : order_.waits) ++waiting_begin_[awaited + 1];
    std::partial_sum(waiting_begin_.begin(), waiting_begin_.end(), waiting_begin_.begin());
    waiting_.resize(order_.waits.size());
    std::vector<std::uint32_t> next = waiting_begin_;
    for (OperationId id = 0; id < operations_.size(); ++id) {
      for (const OperationId awaited : order_.waits_of(id)) waiting_[next[awaited]++] = id;
    }
  }

  void go_on() {
    while (!ready_.empty()) {
      const OperationId id = ready_.back();
      ready_.pop_back();
      if (done_[id]) continue;
      const std::int32_t group = order_.group_of[id];
      if (group == Order::no_group) {
        put(id);
      } else if (--unready_[static_cast<std::size_t>(group)] == 0) {
        for (const OperationId member : order_.groups[static_cast<std::size_t>(group)]) put(member);
      }
    }
  }

  void put(OperationId id) {
    done_[id] = true;
    order_.sequence.push_back(id);
    for (const OperationId next : next_[id]) unblock(next);
    for (OperationId consumer = first_consumer_[id]; consumer != no_operation;
         consumer = next_consumer_[consumer]) {
      unblock(consumer);
    }
    if (waiting_begin_.empty()) return;
    for (std::uint32_t i = waiting_begin_[id]; i < waiting_begin_[id + 1]; ++i) {
      unblock(waiting_[i]);
    }
  }

  // Its operations no longer wait for each other.
  void dissolve(std::int32_t group) {
    if (group == Order::no_group) return;
    for (const OperationId id : order_.groups[static_cast<std::size_t>(group)]) {
      order_.group_of[id] = Order::no_group;
      if (blockers_[id] == 0) ready_.push_back(id);
    }
    order_.groups[static_cast<std::size_t>(group)].clear();
  }

  void unblock(OperationId id) {
    if (id != no_operation && --blockers_[id] == 0) ready_.push_back(id);
  }

  const Operations& operations_;
  Side side_;
  P2p mode_;
  bool only_matched_;
  const std::vector<Occurrence>& occurrences_;
  Streams streams_;
  Order order_;
  std::vector<std::array<OperationId, 2>> next_;  // on its streams
  std::vector<int> blockers_;                     // how many it still waits for
  std::vector<OperationId> first_consumer_;
  std::vector<OperationId> next_consumer_;  // of the same input
  std::vector<std::uint32_t> waiting_begin_;
  std::vector<OperationId> waiting_;  // by awaited operation, from waiting_begin_ on
  std::vector<bool> done_;
  std::vector<OperationId> ready_;
  std::vector<std::size_t> unready_;  // operations of each group
};

}  // namespace

Order order_of(const Operations& operations, Side side, P2p mode, bool only_matched) {
  return Sequencer(operations, side, mode, only_matched).run();
}

Values values_of(const Operations& operations, Side side, const Order& all) {
  const auto& occurrences = operations.sides[side];
  const std::vector<std::int64_t> none(operations.size());
  Values values{none, none, none};
  std::vector<std::int64_t> ends;
  for (const Occurrence& own : occurrences) ends.push_back(own.end_ns);
  Replay replay(std::move(ends));
  replay.reset(all);
  replay.run(all, [&](OperationId id, std::int64_t ready) {
    const Occurrence& own = occurrences[id];
    if (own.awaits_collective()) {
      const std::int64_t until = std::min(own.collective_arrival_ns, own.start_ns);
      values.exchange[id] = std::max<std::int64_t>(0, until - ready);
    }
    values.gap[id] = own.start_ns - ready - values.exchange[id];
    values.duration[id] = own.duration_ns();
    return own.end_ns;
  });
  return values;
}

std::int64_t Replay::makespan_ns(const Order& order, const Values& values) {
  constexpr int repetitions = 3;  // until an iteration is like the one before
  reset(order);
  std::int64_t first = order.first_collective_ns.value_or(never_reached);
  std::int64_t last = not_yet;
  std::int64_t before = not_yet;
  for (int repetition = 0; repetition < (order.repeats ? repetitions : 1); ++repetition) {
    before = last;
    run(order, [&](OperationId id, std::int64_t ready) {
      const std::int64_t start = ready + values.exchange[id] + values.gap[id];
      const std::int64_t end = start + values.duration[id];
      if (order.computes[id]) {
        first = std::min(first, start);
        last = std::max(last, end);
      }
      return end;
    });
  }
  if (last == not_yet) return 0;
  if (order.repeats) return last - before;
  return order.follows ? last : last - first;
}

ReplayTimes play(const Operations& operations, const Order& order, const Values& values) {
  const std::size_t size = operations.size();
  ReplayTimes played;
  for (auto* times : {&played.ready_ns, &played.start_ns, &played.slack_ns}) {
    times->assign(size, 0);
  }
  played.awaited.assign(size, no_operation);
  std::vector<std::array<OperationId, 2>> before(size, {no_operation, no_operation});
  std::vector<OperationId> last_on(order.free_ns.size(), no_operation);
  std::int64_t first = order.first_collective_ns.value_or(never_reached);
  OperationId last = no_operation;
  Replay replay(operations);
  replay.reset(order);
  const auto later_of = [&](OperationId one, OperationId other) {
    if (one == no_operation || other == no_operation) return one == no_operation ? other : one;
    return replay.end_ns(other) > replay.end_ns(one) ? other : one;
  };
  OperationId group_awaited = no_operation;  // of the group that came last
  replay.run(order, [&](OperationId id, std::int64_t ready) {
    OperationId& awaited = played.awaited[id];
    const auto wait_for = [&](OperationId other) { awaited = later_of(awaited, other); };
    if (order.leads(id)) {
      group_awaited = no_operation;
      for (const OperationId member : order.group(id)) {
        for (const std::int32_t stream : order.streams[member]) {
          if (stream == Order::no_stream) continue;
          group_awaited = later_of(group_awaited, last_on[static_cast<std::size_t>(stream)]);
        }
        for (const OperationId other : order.waits_of(member)) {
          group_awaited = later_of(group_awaited, other);
        }
      }
    }
    for (std::size_t which = 0; which < 2; ++which) {
      const std::int32_t stream = order.streams[id][which];
      if (stream == Order::no_stream) continue;
      OperationId& own = last_on[static_cast<std::size_t>(stream)];
      before[id][which] = own;
      wait_for(own);
      own = id;
    }
    wait_for(order.input[id]);
    for (const OperationId other : order.waits_of(id)) wait_for(other);
    if (order.group_of[id] != Order::no_group) wait_for(group_awaited);
    // Its rank may come to it from the iteration before, and from nothing in this one.
    if (awaited != no_operation && replay.end_ns(awaited) != ready) awaited = no_operation;
    // What waits for its rank's own collective comes after its rank, whatever else it waited for.
    if (values.exchange[id] > 0 && before[id][0] != no_operation) awaited = before[id][0];
    played.ready_ns[id] = ready;
    played.start_ns[id] = ready + values.exchange[id] + values.gap[id];
    const std::int64_t end_ns = played.start_ns[id] + values.duration[id];
    if (operations.transfers(id)) return end_ns;
    first = std::min(first, played.start_ns[id]);
    if (last == no_operation || end_ns > replay.end_ns(last)) last = id;
    return end_ns;
  });
  played.end_ns = replay.take_ends();
  if (last == no_operation) return played;
  played.makespan_ns = played.end_ns[last] - (order.follows ? 0 : first);

  for (OperationId id = last; id != no_operation; id = played.awaited[id]) {
    // Of a group whose ranks wait for exchanges with replicas, the one that waited longest.
    if (order.group_of[id] != Order::no_group) {
      const auto by_exchange = [&](OperationId member) { return values.exchange[member]; };
      const OperationId longest = *std::ranges::max_element(order.group(id), {}, by_exchange);
      if (values.exchange[longest] > 0) id = longest;
    }
    played.critical_path.push_back(id);
  }
  std::ranges::reverse(played.critical_path);

  // Backwards: how late each could end for all that needs it to end as late as it may.
  std::vector<std::int64_t>& latest_end = played.slack_ns;
  for (const OperationId id : order.sequence) latest_end[id] = played.end_ns[last];
  std::int64_t group_latest = never_reached;  // of the group's operations so far
  for (auto at = order.sequence.rbegin(); at != order.sequence.rend(); ++at) {
    const OperationId id = *at;
    const std::int64_t latest_ready =
        latest_end[id] - values.duration[id] - values.gap[id] - values.exchange[id];
    const auto bound = [&](OperationId of, std::int64_t latest) {
      for (const OperationId other : {before[of][0], before[of][1], order.input[of]}) {
        if (other != no_operation) latest_end[other] = std::min(latest_end[other], latest);
      }
      for (const OperationId other : order.waits_of(of)) {
        latest_end[other] = std::min(latest_end[other], latest);
      }
    };
    bound(id, latest_ready);
    if (order.group_of[id] == Order::no_group) continue;
    group_latest = std::min(group_latest, latest_ready);
    if (!order.leads(id)) continue;
    for (const OperationId member : order.group(id)) bound(member, group_latest);
    group_latest = never_reached;
  }
  for (const OperationId id : order.sequence) played.slack_ns[id] -= played.end_ns[id];
  return played;
}

CriticalPath parts_of_path(const Operations& operations, Side side, const ReplayTimes& played,
                           const Values& values) {
  CriticalPath times;
  if (played.critical_path.empty()) return times;
  const std::int64_t end = played.end_ns[played.critical_path.back()];
  std::int64_t now = end - played.makespan_ns;
  const auto go_to = [&](std::int64_t to, std::int64_t& part) {
    const std::int64_t before = std::exchange(now, std::clamp(to, now, end));
    part += now - before;
  };
  bool is_first = true;  // and may come straight from the iteration before
  for (const OperationId id : played.critical_path) {
    const Occurrence& own = operations.sides[side][id];
    if (own.awaits_collective()) {
      go_to(own.collective_since_ns, times.other_ns);
      go_to(own.collective_arrival_ns, times.p2p_ns);
    }
    if (std::exchange(is_first, false)) go_to(played.ready_ns[id], times.other_ns);
    const Action& action = operations.actions[id];
    const bool moves = operations.transfers(id) || is_collective(action) || moves_data(action.kind);
    go_to(played.ready_ns[id] + values.exchange[id], times.p2p_ns);
    go_to(played.start_ns[id], moves ? times.p2p_ns : times.other_ns);
    go_to(played.end_ns[id], moves                     ? times.p2p_ns
                             : operations.computes(id) ? times.compute_ns
                                                       : times.other_ns);
  }
  return times;
}

}  // namespace pipesim
