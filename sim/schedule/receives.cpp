#include "sim/schedule/receives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

struct ReceivesEntry {
  Receives where;
  std::string_view name;
};
constexpr std::array<ReceivesEntry, 6> receives_entries{{{Receives::sender, "sender"},
                                                         {Receives::just_in_time, "just-in-time"},
                                                         {Receives::early, "early"},
                                                         {Receives::batched, "batched"},
                                                         {Receives::timed, "timed"},
                                                         {Receives::edge, "edge"}}};

// A rank's list without its RECVs, each placed before the item with the given index.
struct ReceiveRow {
  struct Receive {
    Action action;
    std::size_t needed_at = 0;  // the first item of the cell that needs it
    std::size_t before = 0;     // where to put it
  };
  std::vector<Action> items;      // with batches split
  std::vector<Receive> receives;  // in their original order
};

// Numbers for results in transit: F or backward, by the stage that needs it.
class Inputs {
 public:
  explicit Inputs(const Schedule& program)
      : stages_(static_cast<std::size_t>(program.stages())),
        microbatches_(static_cast<std::size_t>(program.microbatches)) {}
  std::size_t count() const { return 2 * stages_ * microbatches_; }
  // The number for the action that needs it, or for its RECV.
  std::size_t operator()(const Action& action) const {
    const bool forward = action.kind == Kind::F || action.kind == Kind::RECV_F;
    const std::size_t row = (forward ? 0 : stages_) + static_cast<std::size_t>(action.stage);
    return row * microbatches_ + static_cast<std::size_t>(action.microbatch);
  }

 private:
  std::size_t stages_;
  std::size_t microbatches_;
};

std::vector<ReceiveRow> receive_rows(const Schedule& program) {
  const Inputs inputs(program);
  std::vector<std::size_t> needed_at(inputs.count());
  std::vector<ReceiveRow> rows(static_cast<std::size_t>(program.ranks()));
  for (int rank = 0; rank < program.ranks(); ++rank) {
    ReceiveRow& row = rows[static_cast<std::size_t>(rank)];
    std::size_t cell = 0;
    for (Action action : program.actions[rank]) {
      if (action.kind == Kind::IDLE) continue;
      if (is_transfer(action.kind)) action.joined = false;
      if (is_receive(action.kind)) {
        row.receives.push_back({action, 0, 0});
        continue;
      }
      const bool continues = !row.items.empty() && row.items.back().joined;
      if (!continues) cell = row.items.size();
      row.items.push_back(action);
      if (makes_result(action.kind)) needed_at[inputs(action)] = cell;
    }
    for (ReceiveRow::Receive& receive : row.receives) {
      receive.needed_at = receive.before = needed_at[inputs(receive.action)];
    }
  }
  return rows;
}

// Whether it has an input from another rank.
bool needs_message(const Action& action, const Schedule& program) {
  if (!makes_result(action.kind)) return false;
  const int from = input_stage(action);
  if (from < 0 || from == program.stages()) return false;
  const Placement& placement = program.placement;
  return placement.rank_of(from, placement.copy_of(action.microbatch)) != placement.rank_of(action);
}

// How many items of its receiver each SEND needs, directly or not: by its RECV's number.
// Knowledge passes from rank to rank with messages: a rank knows of as many items of another as the
// messages that it has used. A rank continues until a message is missing, whose SEND wakes it.
class NeededItems {
 public:
  NeededItems(const Schedule& program, const std::vector<ReceiveRow>& rows)
      : program_(program),
        rows_(rows),
        inputs_(program),
        ranks_(rows.size(), {0, false, std::vector<std::size_t>(rows.size())}),
        needed_(inputs_.count()) {}

  std::vector<std::size_t> run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    return std::move(needed_);
  }

 private:
  struct Rank {
    std::size_t next = 0;  // item
    bool waits = false;
    std::vector<std::size_t> knows;  // items, by rank
  };

  void advance(std::size_t number) {
    Rank& rank = ranks_[number];
    const std::vector<Action>& items = rows_[number].items;
    rank.waits = false;
    for (; rank.next < items.size(); ++rank.next) {
      const Action& item = items[rank.next];
      if (is_send(item.kind)) {
        rank.knows[number] = rank.next + 1;
        send(item, rank.knows);
      } else if (needs_message(item, program_)) {
        const auto message = messages_.find(inputs_(item));
        if (message == messages_.end()) {
          rank.waits = true;
          return;
        }
        for (std::size_t i = 0; i < rank.knows.size(); ++i) {
          rank.knows[i] = std::max(rank.knows[i], message->second[i]);
        }
        messages_.erase(message);
      }
    }
  }

  void send(const Action& action, const std::vector<std::size_t>& knows) {
    const Action receive = peer_of(action);
    const auto receiver = static_cast<std::size_t>(program_.placement.rank_of(receive));
    needed_[inputs_(receive)] = knows[receiver];
    messages_.emplace(inputs_(receive), knows);
    if (std::exchange(ranks_[receiver].waits, false)) runnable_.push_back(receiver);
  }

  const Schedule& program_;
  const std::vector<ReceiveRow>& rows_;
  Inputs inputs_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> needed_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> messages_;  // sent and not used
  std::vector<std::size_t> runnable_;
};

// Delays receives until the buffer of an earlier input is free: used, and the result of that sent.
void hold_back(ReceiveRow& row, std::size_t buffers) {
  std::vector<std::size_t> order(row.receives.size());  // order in which they are needed
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return row.receives[i].needed_at; });
  for (std::size_t i = buffers; i < order.size(); ++i) {
    ReceiveRow::Receive& receive = row.receives[order[i]];
    std::size_t free_from = row.receives[order[i - buffers]].needed_at;
    const Action* const cell = row.items.data() + free_from;
    free_from += cell_size(cell, row.items.data() + row.items.size());
    while (free_from < row.items.size() && is_send(row.items[free_from].kind)) ++free_from;
    receive.before = std::max(receive.before, std::min(free_from, receive.needed_at));
  }
}

void move_up(const Schedule& program, std::vector<ReceiveRow>& rows, std::optional<int> buffers) {
  const Inputs inputs(program);
  const std::vector<std::size_t> needed = NeededItems(program, rows).run();
  for (ReceiveRow& row : rows) {
    for (ReceiveRow::Receive& receive : row.receives)
      receive.before = needed[inputs(receive.action)];
    if (buffers) hold_back(row, static_cast<std::size_t>(*buffers));
  }
}

// The places of RECVs if ranks run their cells at the given times, and send at the end of each.
// Events are put in one order: by time, ends of cells before starts, then by rank; and regardless
// of times, nothing before its inputs. A RECV happens with its SEND. Lists are parts of that order,
// so no transport deadlocks on them.
class TimedPlaces {
 public:
  TimedPlaces(const Schedule& program, std::vector<ReceiveRow>& rows, const ReceiveTimes& times)
      : program_(program), rows_(rows), times_(times), inputs_(program), ranks_(rows.size()) {
    sent_.resize(inputs_.count());
  }

  void run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) go_on(rank, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      Rank& rank = ranks_[event.rank];
      if (event.starts) {
        rank.next += size_of_next(event.rank);
        events_.push({std::max(event.time_ns, rank.end_ns), false, event.rank});
      } else {
        go_on(event.rank, event.time_ns);
      }
    }
    for (ReceiveRow& row : rows_) {
      std::ranges::sort(row.receives, {}, [&](const ReceiveRow::Receive& receive) {
        return sent_[inputs_(receive.action)]->number;
      });
      for (ReceiveRow::Receive& receive : row.receives) {
        receive.before = sent_[inputs_(receive.action)]->place;
      }
    }
  }

 private:
  struct Event {
    std::int64_t time_ns;
    bool starts;  // a cell; else it ends
    std::size_t rank;

    bool operator>(const Event& other) const {
      return std::tie(time_ns, starts, rank) > std::tie(other.time_ns, other.starts, other.rank);
    }
  };
  struct Rank {
    std::size_t next = 0;     // the next item
    std::int64_t end_ns = 0;  // of the current or next cell
    bool waits = false;       // for an input
  };
  struct Sent {
    std::size_t number;  // among all sends
    std::size_t place;   // index in its receiver's list
  };

  std::size_t size_of_next(std::size_t number) const {
    const std::vector<Action>& items = rows_[number].items;
    return cell_size(items.data() + ranks_[number].next, items.data() + items.size());
  }

  // Processes the items before the rank's next cell, and starts the cell once its inputs are sent.
  void go_on(std::size_t number, std::int64_t now_ns) {
    std::size_t& next = ranks_[number].next;
    const std::vector<Action>& items = rows_[number].items;
    for (; next < items.size() && !is_compute(items[next].kind); ++next) {
      if (is_send(items[next].kind)) send(peer_of(items[next]), now_ns);
    }
    if (next < items.size()) start_once_sent(number, now_ns);
  }

  void send(const Action& receive, std::int64_t now_ns) {
    const auto receiver = static_cast<std::size_t>(program_.placement.rank_of(receive));
    sent_[inputs_(receive)] = Sent{sent_count_++, ranks_[receiver].next};
    if (ranks_[receiver].waits) start_once_sent(receiver, now_ns);
  }

  void start_once_sent(std::size_t number, std::int64_t now_ns) {
    Rank& rank = ranks_[number];
    const std::span<const Action> cell(rows_[number].items.data() + rank.next,
                                       size_of_next(number));
    rank.waits = std::ranges::any_of(cell, [&](const Action& action) {
      return needs_message(action, program_) && !sent_[inputs_(action)];
    });
    if (rank.waits) return;
    const auto [start_ns, end_ns] = times_(cell.front());
    rank.end_ns = end_ns;
    events_.push({std::max(start_ns, now_ns), true, number});
  }

  const Schedule& program_;
  std::vector<ReceiveRow>& rows_;
  const ReceiveTimes& times_;
  Inputs inputs_;
  std::vector<Rank> ranks_;
  std::vector<std::optional<Sent>> sent_;  // by RECV
  std::size_t sent_count_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

ActionLists lists_with(std::vector<ReceiveRow>& rows) {
  ActionLists lists;
  for (ReceiveRow& row : rows) {
    std::ranges::stable_sort(row.receives, {}, &ReceiveRow::Receive::before);
    lists.add_rank();
    auto receive = row.receives.begin();
    for (std::size_t i = 0; i < row.items.size(); ++i) {
      for (; receive != row.receives.end() && receive->before == i; ++receive) {
        lists.add(receive->action);
      }
      lists.add(row.items[i]);
    }
  }
  return lists;
}

// Joins adjacent transfers into one cell.
void join_transfers(ActionLists& lists) {
  for (int rank = 0; rank < lists.ranks(); ++rank) {
    const std::span<Action> list = lists[rank];
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (is_transfer(list[i - 1].kind) && is_transfer(list[i].kind)) list[i - 1].joined = true;
    }
  }
}

}  // namespace

std::vector<Receives> all_receives() {
  std::vector<Receives> all(receives_entries.size());
  std::ranges::transform(receives_entries, all.begin(), &ReceivesEntry::where);
  return all;
}

std::string_view receives_name(Receives where) {
  return std::ranges::find(receives_entries, where, &ReceivesEntry::where)->name;
}

std::vector<std::string> receives_names() {
  std::vector<std::string> names;
  for (const ReceivesEntry& entry : receives_entries) names.emplace_back(entry.name);
  return names;
}

Receives parse_receives(std::string_view name) {
  for (const ReceivesEntry& entry : receives_entries) {
    if (entry.name == name) return entry.where;
  }
  throw input_error(unknown_name("place of receives", name, receives_names()));
}

Schedule place_receives(const Schedule& program, Receives where, const ReceivePlacing& placing) {
  if (where == Receives::sender || where == Receives::edge) {
    Schedule placed = program;
    if (where == Receives::edge) placed.lane = TransferLane::edge;
    return placed;
  }
  std::vector<ReceiveRow> rows = receive_rows(program);
  if (where == Receives::early) move_up(program, rows, placing.buffers);
  if (where == Receives::timed) TimedPlaces(program, rows, placing.times).run();
  ActionLists lists = lists_with(rows);
  if (where == Receives::batched) join_transfers(lists);
  return program.with(std::move(lists));
}

Schedule without_transfers(const Schedule& program) {
  for (const auto& [action, awaited] : program.dependencies) {
    if (!is_transfer(action.kind) && !is_transfer(awaited.kind)) continue;
    throw input_error(
        fmt::format("{}: {} waits for {}, so its transfers can't be placed anew; remove the "
                    "lines with `after` that name a SEND or RECV",
                    program.name, to_text(action), to_text(awaited)));
  }
  ActionLists lists;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    lists.add_rank();
    for (const Action& action : program.actions[rank]) {
      if (!is_transfer(action.kind)) lists.add(action);
    }
  }
  Schedule compute = program.with(std::move(lists));
  compute.lane = TransferLane::compute;
  return compute;
}

int count_receive_buffers(const Schedule& program) {
  const Inputs inputs(program);
  std::vector<bool> is_received(inputs.count());
  int most = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    int waiting = 0;
    for (const Action& action : program.actions[rank]) {
      if (is_receive(action.kind)) {
        is_received[inputs(action)] = true;
        most = std::max(most, ++waiting);
      } else if (makes_result(action.kind) && is_received[inputs(action)]) {
        --waiting;
      }
    }
  }
  return most;
}

std::optional<std::string> find_posted_deadlock(const Schedule& program) {
  const Schedule posted = place_receives(program, Receives::just_in_time);
  // What waits for a SEND waits for its receiver, too.
  const auto is_awaited = [&](const Action& send) {
    return std::ranges::any_of(program.dependencies, [&](const Dependency& one) {
      return one.awaited.kind == send.kind && one.awaited.stage == send.stage;
    });
  };
  return find_deadlock(posted, SendMode::rendezvous,
                       [&](const Action& send) { return !is_awaited(send); });
}

}  // namespace pipesim
