#include "sim/schedule/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/schedule/deadlock.h"
#include "sim/schedule/turns.h"
#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/prefetch.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

// Flags for (stage, microbatch).
class Flags {
 public:
  explicit Flags(const Schedule& schedule)
      : microbatches_(static_cast<std::size_t>(schedule.microbatches)),
        flags_(static_cast<std::size_t>(schedule.stages()) * microbatches_) {}
  bool test(int stage, int microbatch) const { return flags_[at(stage, microbatch)]; }
  void set(int stage, int microbatch) { flags_[at(stage, microbatch)] = true; }

 private:
  std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches_ + static_cast<std::size_t>(microbatch);
  }
  std::size_t microbatches_;
  std::vector<bool> flags_;
};

class Lowering {
 public:
  explicit Lowering(const Schedule& compute)
      : compute_(compute),
        turns_(compute),
        forward_ready_(compute),
        backward_ready_(compute),
        program_(count_actions()) {
    for (int rank = 0; rank < compute.ranks(); ++rank) next_.push_back(program_[rank].data());
    for (const Dependency& dependency : compute.dependencies) {
      dependents_.emplace(ActionKey(dependency.awaited), dependency.action);
      ++awaited_[ActionKey(dependency.action)];
    }
  }

  Schedule run() {
    const bool complete = turns_.run([&](int rank, const Action* cell, std::size_t size) {
      if (!is_ready(cell, size)) return false;
      place(static_cast<std::size_t>(rank), cell, size);
      return true;
    });
    if (!complete) throw_deadlock(compute_);
    return compute_.with(std::move(program_));
  }

 private:
  // The stage that needs an action's result.
  std::optional<int> receiver_of(const Action& action) const {
    if (!makes_result(action.kind)) return std::nullopt;
    const int to = output_stage(action);
    return to < 0 || to == compute_.stages() ? std::nullopt : std::optional(to);
  }

  // The transfer that follows a compute action; nothing if its result stays on its rank or there is
  // none.
  std::optional<Action> send_after(const Action& action) const {
    const auto consumer = receiver_of(action);
    if (!consumer) return std::nullopt;
    const auto& placement = compute_.placement;
    const int copy = placement.copy_of(action.microbatch);
    if (placement.rank_of(*consumer, copy) == placement.rank_of(action.stage, copy)) {
      return std::nullopt;
    }
    return send_of(action);
  }

  // The lengths of the program's lists.
  std::vector<std::size_t> count_actions() const {
    std::vector<std::size_t> counts(static_cast<std::size_t>(compute_.ranks()));
    for (int rank = 0; rank < compute_.ranks(); ++rank) {
      for (const Action& action : compute_.actions[rank]) {
        if (action.kind == Kind::IDLE) continue;
        std::size_t& own = counts[static_cast<std::size_t>(rank)];
        ++own;
        const auto send = send_after(action);
        if (!send) continue;
        ++own;
        ++counts[static_cast<std::size_t>(compute_.placement.rank_of(peer_of(*send)))];
      }
    }
    return counts;
  }

  bool is_ready(const Action* cell, std::size_t size) const {
    for (std::size_t i = 0; i < size; ++i) {
      const Action& action = cell[i];
      if (!awaited_.empty() && awaited_.contains(ActionKey(action))) return false;
      if (!makes_result(action.kind)) continue;
      const int from = input_stage(action);
      if (from < 0 || from == compute_.stages()) continue;
      const Flags& ready = action.kind == Kind::F ? forward_ready_ : backward_ready_;
      if (!ready.test(action.stage, action.microbatch)) return false;
    }
    return true;
  }

  void place(std::size_t rank, const Action* cell, std::size_t size) {
    if (cell->kind == Kind::IDLE) return;
    Action*& own = next_[rank];
    own = std::copy_n(cell, size, own);
    prefetch_ahead(own, 8);
    for (const Action& action : std::span(cell, size)) {
      if (const auto send = send_after(action)) {
        const Action receive = peer_of(*send);
        *own++ = *send;
        *next_[static_cast<std::size_t>(compute_.placement.rank_of(receive))]++ = receive;
      }
      if (const auto consumer = receiver_of(action)) {
        (action.kind == Kind::F ? forward_ready_ : backward_ready_)
            .set(*consumer, action.microbatch);
        wake(make_action(*consumer, action.kind, action.microbatch));
      }
      if (!dependents_.empty()) let_go(action);
    }
  }

  // Releases the actions that wait for an action by the schedule's dependencies.
  void let_go(const Action& action) {
    const auto [first, last] = dependents_.equal_range(ActionKey(action));
    for (auto at = first; at != last; ++at) {
      const auto awaited = awaited_.find(ActionKey(at->second));
      if (--awaited->second > 0) continue;
      awaited_.erase(awaited);
      wake(at->second);
    }
  }

  void wake(const Action& action) { turns_.wake(compute_.placement.rank_of(action)); }

  const Schedule& compute_;
  std::vector<Action*> next_;  // by list of the program: its current end
  Turns turns_;
  Flags forward_ready_;
  Flags backward_ready_;
  std::multimap<ActionKey, Action> dependents_;  // by awaited action
  std::map<ActionKey, std::size_t> awaited_;     // how many, by waiting action, while there are any
  ActionLists program_;
};

// When each action of a program runs, if each takes one step.
// A rank continues until it waits for a SEND that has no step yet; that SEND wakes it. So every
// action is visited once, and again each time its rank is woken.
class UnitSteps {
 public:
  explicit UnitSteps(const Schedule& program)
      : program_(program),
        microbatches_(static_cast<std::size_t>(program.microbatches)),
        forward_ready_(program),
        backward_ready_(program),
        ranks_(static_cast<std::size_t>(program.ranks())) {
    const std::size_t results = static_cast<std::size_t>(program.stages()) * microbatches_;
    for (auto* sent : {&forward_sent_, &backward_sent_}) sent->assign(results, not_yet);
  }

  std::int64_t count() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto list = program_.actions[static_cast<int>(rank)];
      ranks_[rank] = {list.data(), list.data() + list.size(), 0, false};
      runnable_.push_back(rank);
    }
    while (!runnable_.empty()) {
      const std::size_t rank = runnable_.back();
      runnable_.pop_back();
      advance(rank);
    }
    std::int64_t steps = 0;
    for (const Rank& rank : ranks_) {
      if (rank.waits) throw_deadlock(program_);
      steps = std::max(steps, rank.step);
    }
    return steps;
  }

 private:
  static constexpr std::int64_t not_yet = -1;

  struct Rank {
    const Action* next = nullptr;
    const Action* end = nullptr;
    std::int64_t step = 0;  // of the action before `next`, from 1
    bool waits = false;
  };

  std::int64_t& sent(Kind send, int stage, int microbatch) {
    auto& steps = send == Kind::SEND_F ? forward_sent_ : backward_sent_;
    return steps[static_cast<std::size_t>(stage) * microbatches_ +
                 static_cast<std::size_t>(microbatch)];
  }

  void advance(std::size_t number) {
    Rank& rank = ranks_[number];
    rank.waits = false;
    for (;;) {
      while (rank.next != rank.end && rank.next->kind == Kind::IDLE) ++rank.next;
      if (rank.next == rank.end) return;
      const std::span<const Action> cell(rank.next, cell_size(rank.next, rank.end));
      std::int64_t step = rank.step + 1;
      // A cell that receives also sends as soon as its turn comes.
      if (std::ranges::any_of(cell, [](const Action& a) { return is_receive(a.kind); })) {
        send_all(cell, step);
      }
      for (const Action& a : cell) {
        if (!is_ready(a, step)) {
          rank.waits = true;
          return;
        }
      }
      send_all(cell, step);
      for (const Action& a : cell) finish(number, a);
      rank.step = step;
      rank.next += cell.size();
    }
  }

  // Whether it can run, as far as known; sets `step` to when it does.
  bool is_ready(const Action& a, std::int64_t& step) {
    switch (a.kind) {
      case Kind::F:
      case Kind::I:
      case Kind::B: {
        const int from = input_stage(a);
        if (from < 0 || from == program_.stages()) return true;
        return (a.kind == Kind::F ? forward_ready_ : backward_ready_).test(a.stage, a.microbatch);
      }
      case Kind::RECV_F:
      case Kind::RECV_B: {
        const Action send = peer_of(a);
        const std::int64_t from = sent(send.kind, send.stage, a.microbatch);
        step = std::max(step, from);
        return from != not_yet;
      }
      default: return true;
    }
  }

  void send_all(std::span<const Action> cell, std::int64_t step) {
    for (const Action& a : cell) {
      if (!is_send(a.kind)) continue;
      std::int64_t& known = sent(a.kind, a.stage, a.microbatch);
      if (known != not_yet) continue;
      known = step;
      const auto receiver = static_cast<std::size_t>(program_.placement.rank_of(peer_of(a)));
      if (std::exchange(ranks_[receiver].waits, false)) runnable_.push_back(receiver);
    }
  }

  // Later cells of its own rank can use the result from then on.
  void finish(std::size_t rank, const Action& a) {
    if (!is_receive(a.kind) && !makes_result(a.kind)) return;
    const int consumer = is_receive(a.kind) ? a.stage : output_stage(a);
    const bool exists = consumer >= 0 && consumer < program_.stages();
    const int copy = program_.placement.copy_of(a.microbatch);
    if (!exists || program_.placement.rank_of(consumer, copy) != static_cast<int>(rank)) return;
    const bool forward = a.kind == Kind::F || a.kind == Kind::RECV_F;
    (forward ? forward_ready_ : backward_ready_).set(consumer, a.microbatch);
  }

  const Schedule& program_;
  std::size_t microbatches_;
  Flags forward_ready_;
  Flags backward_ready_;
  std::vector<std::int64_t> forward_sent_;  // steps, by (stage, microbatch) of the sender
  std::vector<std::int64_t> backward_sent_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> runnable_;
};

}  // namespace

Schedule lower(const Schedule& compute) {
  if (compute.has_transfers()) {
    throw input_error(
        fmt::format("{}: already has SEND and RECV; lower a compute schedule", compute.name));
  }
  return Lowering(compute).run();
}

Schedule merge_backward(const Schedule& schedule) {
  if (!schedule.dependencies.empty()) {
    throw input_error(fmt::format(
        "{}: {} waits for more than it needs; only schedules without `after` can merge backwards",
        schedule.name, to_text(schedule.dependencies.front().action)));
  }
  ActionLists merged;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    std::vector<Action> out;
    for (const Action& action : schedule.actions[rank]) {
      if (action.kind == Kind::IDLE) continue;
      const bool follows = action.kind == Kind::W && !out.empty() &&
                           out.back() == make_action(action.stage, Kind::I, action.microbatch) &&
                           (out.size() < 2 || !out[out.size() - 2].joined);
      if (follows) {
        out.back().kind = Kind::B;
      } else {
        out.push_back(action);
      }
    }
    merged.add_rank(out);
  }
  return schedule.with(std::move(merged));
}

std::int64_t count_unit_steps(const Schedule& program) { return UnitSteps(program).count(); }

}  // namespace pipesim
