#include "sim/schedule/receives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
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
constexpr std::array<ReceivesEntry, 5> receives_entries{{{Receives::sender, "sender"},
                                                         {Receives::just_in_time, "just-in-time"},
                                                         {Receives::early, "early"},
                                                         {Receives::batched, "batched"},
                                                         {Receives::edge, "edge"}}};

// A rank's list without its RECVs, which stand before the items that they are numbered by.
struct ReceiveRow {
  struct Receive {
    Action action;
    std::size_t needed_at = 0;  // the first item of the cell that needs it
    std::size_t before = 0;     // where it is to stand
  };
  std::vector<Action> items;      // batches taken apart
  std::vector<Receive> receives;  // as they stood
};

// Numbers of results on their way: F or backward, by the stage that needs it.
class Inputs {
 public:
  explicit Inputs(const Schedule& program)
      : stages_(static_cast<std::size_t>(program.stages())),
        microbatches_(static_cast<std::size_t>(program.microbatches)) {}
  std::size_t count() const { return 2 * stages_ * microbatches_; }
  // Of what needs it, or of its RECV.
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

// How many items of its receiver each SEND needs, directly or not: by its RECV's number.
//
// Knowledge passes from rank to rank with messages: a rank knows of another as many items as
// the messages that it has used know. A rank goes on until a message is missing, whose SEND
// wakes it.
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
      } else if (comes_from_another_rank(item)) {
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

  bool comes_from_another_rank(const Action& action) const {
    if (!makes_result(action.kind)) return false;
    const int from = input_stage(action);
    if (from < 0 || from == program_.stages()) return false;
    return program_.placement.rank_of(from) != program_.placement.rank_of(action.stage);
  }

  void send(const Action& action, const std::vector<std::size_t>& knows) {
    const Action receive = peer_of(action);
    const auto receiver = static_cast<std::size_t>(program_.placement.rank_of(receive.stage));
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

// Not before the buffer of an earlier input is free: used, and the result sent that it was
// used for.
void hold_back(ReceiveRow& row, std::size_t buffers) {
  std::vector<std::size_t> order(row.receives.size());  // in which they are needed
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

// What stands next to each other goes as one.
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

Receives parse_receives(std::string_view name) {
  std::vector<std::string> known;
  for (const ReceivesEntry& entry : receives_entries) {
    if (entry.name == name) return entry.where;
    known.emplace_back(entry.name);
  }
  throw input_error(unknown_name("place of receives", name, known));
}

Schedule place_receives(const Schedule& program, Receives where, std::optional<int> buffers) {
  if (where == Receives::sender || where == Receives::edge) {
    Schedule placed = program;
    if (where == Receives::edge) placed.lane = TransferLane::edge;
    return placed;
  }
  std::vector<ReceiveRow> rows = receive_rows(program);
  if (where == Receives::early) move_up(program, rows, buffers);
  ActionLists lists = lists_with(rows);
  if (where == Receives::batched) join_transfers(lists);
  return program.with(std::move(lists));
}

Schedule without_transfers(const Schedule& program) {
  for (const auto& [action, awaited] : program.dependencies) {
    if (!is_transfer(action.kind) && !is_transfer(awaited.kind)) continue;
    throw input_error(
        fmt::format("{}: {} waits for {}, so that its transfers can't be placed anew; take out the "
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
  return find_deadlock(place_receives(program, Receives::just_in_time), SendMode::buffered);
}

}  // namespace pipesim
