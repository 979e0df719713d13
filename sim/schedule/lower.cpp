#include "sim/schedule/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sim/schedule/deadlock.h"
#include "traces/base/error.h"

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
      : compute_(compute), forward_ready_(compute), backward_ready_(compute) {
    program_.name = compute.name;
    program_.microbatches = compute.microbatches;
    program_.placement = compute.placement;
    lists_.resize(static_cast<std::size_t>(compute.ranks()));
  }

  Schedule run() {
    std::vector<std::size_t> cursor(lists_.size());
    for (bool unfinished = true; unfinished;) {
      unfinished = false;
      bool progress = false;
      for (std::size_t rank = 0; rank < cursor.size(); ++rank) {
        const auto list = compute_.actions[static_cast<int>(rank)];
        if (cursor[rank] == list.size()) continue;
        const Action* cell = list.data() + cursor[rank];
        const std::size_t size = cell_size(cell, list.data() + list.size());
        if (is_ready(cell, size)) {
          place(rank, cell, size);
          cursor[rank] += size;
          progress = true;
        }
        unfinished = unfinished || cursor[rank] < list.size();
      }
      if (unfinished && !progress) throw_deadlock(compute_);
    }
    for (const auto& list : lists_) program_.actions.add_rank(list);
    return std::move(program_);
  }

 private:
  bool is_ready(const Action* cell, std::size_t size) const {
    for (std::size_t i = 0; i < size; ++i) {
      const auto& [stage, microbatch, kind, joined] = cell[i];
      if (kind == Kind::F && stage > 0 && !forward_ready_.test(stage, microbatch)) return false;
      if (is_backward(kind) && stage + 1 < compute_.stages() &&
          !backward_ready_.test(stage, microbatch)) {
        return false;
      }
    }
    return true;
  }

  void place(std::size_t rank, const Action* cell, std::size_t size) {
    if (cell->kind == Kind::IDLE) return;
    auto& own = lists_[rank];
    own.insert(own.end(), cell, cell + size);
    for (std::size_t i = 0; i < size; ++i) {
      if (cell[i].kind == Kind::F && cell[i].stage + 1 < compute_.stages()) {
        hand_over(rank, make_action(cell[i].stage, Kind::SEND_F, cell[i].microbatch));
      } else if (is_backward(cell[i].kind) && cell[i].stage > 0) {
        hand_over(rank, make_action(cell[i].stage, Kind::SEND_B, cell[i].microbatch));
      }
    }
  }

  // Makes the result of a stage available to its neighbour.
  void hand_over(std::size_t rank, const Action& send) {
    const Action receive = peer_of(send);
    const auto receiver = static_cast<std::size_t>(compute_.placement.rank_of(receive.stage));
    if (receiver != rank) {
      lists_[rank].push_back(send);
      lists_[receiver].push_back(receive);
    }
    (send.kind == Kind::SEND_F ? forward_ready_ : backward_ready_)
        .set(receive.stage, receive.microbatch);
  }

  const Schedule& compute_;
  Schedule program_;
  std::vector<std::vector<Action>> lists_;  // of the program, still growing
  Flags forward_ready_;
  Flags backward_ready_;
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
  Schedule merged;
  merged.name = schedule.name;
  merged.microbatches = schedule.microbatches;
  merged.placement = schedule.placement;
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
    merged.actions.add_rank(out);
  }
  return merged;
}

std::int64_t count_unit_steps(const Schedule& program) {
  Flags forward_sent(program);
  Flags backward_sent(program);
  Flags forward_ready(program);
  Flags backward_ready(program);
  const int last_stage = program.stages() - 1;

  // Whether an action can run now; a compute action needs the RECV, or the
  // neighbour's result on its own rank, of an earlier step.
  const auto is_ready = [&](const Action& a) {
    switch (a.kind) {
      case Kind::F: return a.stage == 0 || forward_ready.test(a.stage, a.microbatch);
      case Kind::I:
      case Kind::B: return a.stage == last_stage || backward_ready.test(a.stage, a.microbatch);
      case Kind::RECV_F: return forward_sent.test(a.stage - 1, a.microbatch);
      case Kind::RECV_B: return backward_sent.test(a.stage + 1, a.microbatch);
      default: return true;
    }
  };
  const auto run = [&](std::size_t rank, const Action& a) {
    const auto local = [&](int stage) {
      return program.placement.rank_of(stage) == static_cast<int>(rank);
    };
    if (a.kind == Kind::F && a.stage < last_stage && local(a.stage + 1)) {
      forward_ready.set(a.stage + 1, a.microbatch);
    } else if (is_backward(a.kind) && a.stage > 0 && local(a.stage - 1)) {
      backward_ready.set(a.stage - 1, a.microbatch);
    } else if (a.kind == Kind::SEND_F) {
      forward_sent.set(a.stage, a.microbatch);
    } else if (a.kind == Kind::SEND_B) {
      backward_sent.set(a.stage, a.microbatch);
    } else if (a.kind == Kind::RECV_F) {
      forward_ready.set(a.stage, a.microbatch);
    } else if (a.kind == Kind::RECV_B) {
      backward_ready.set(a.stage, a.microbatch);
    }
  };

  std::vector<std::size_t> cursor(static_cast<std::size_t>(program.ranks()));
  std::int64_t steps = 0;
  for (;; ++steps) {
    bool unfinished = false;
    bool progress = false;
    // Cells that receive go last, so that they see the sends of their own step.
    std::vector<std::pair<std::size_t, std::span<const Action>>> receiving;
    for (std::size_t rank = 0; rank < cursor.size(); ++rank) {
      const auto list = program.actions[static_cast<int>(rank)];
      while (cursor[rank] < list.size() && list[cursor[rank]].kind == Kind::IDLE) ++cursor[rank];
      if (cursor[rank] == list.size()) continue;
      unfinished = true;
      const Action* first = list.data() + cursor[rank];
      const std::span<const Action> cell(first, cell_size(first, list.data() + list.size()));
      if (std::ranges::any_of(cell, [](const Action& a) { return is_receive(a.kind); })) {
        for (const Action& a : cell) {
          if (is_send(a.kind)) run(rank, a);
        }
        receiving.emplace_back(rank, cell);
      } else if (std::ranges::all_of(cell, is_ready)) {
        for (const Action& a : cell) run(rank, a);
        cursor[rank] += cell.size();
        progress = true;
      }
    }
    for (const auto& [rank, cell] : receiving) {
      if (!std::ranges::all_of(cell, is_ready)) continue;
      for (const Action& a : cell) run(rank, a);
      cursor[rank] += cell.size();
      progress = true;
    }
    if (!unfinished) return steps;
    if (!progress) throw_deadlock(program);
  }
}

}  // namespace pipesim
