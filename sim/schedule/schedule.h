// A schedule as data: each rank's actions, in order.
//
// Pure generators (families/) or a file (csv.h) make one; passes (lower.h)
// turn a compute schedule into a program with explicit transfers. Neither the
// simulator nor the executor ever asks which schedule it runs. Owns its
// actions; reading is const and thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/placement.h"
#include "sim/schedule/streams.h"
#include "traces/action.h"
#include "traces/base/large_vector.h"

namespace pipesim {

// The lists of all ranks, one after the other in one array.
class ActionLists {
 public:
  int ranks() const { return static_cast<int>(ends_.size()); }
  std::int64_t size() const { return static_cast<std::int64_t>(all_.size()); }
  std::span<const Action> all() const { return {all_.data(), all_.size()}; }
  std::span<const Action> operator[](int rank) const {
    return {all_.data() + begin_of(rank), all_.data() + ends_[static_cast<std::size_t>(rank)]};
  }
  std::span<Action> operator[](int rank) {
    return {all_.data() + begin_of(rank), all_.data() + ends_[static_cast<std::size_t>(rank)]};
  }

  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> result;
    for (int rank = 0; rank < ranks(); ++rank) result.push_back((*this)[rank].size());
    return result;
  }

  ActionLists() = default;
  // Lists of these lengths, with actions still to be written.
  explicit ActionLists(const std::vector<std::size_t>& lengths) {
    std::size_t end = 0;
    for (const std::size_t length : lengths) ends_.push_back(end += length);
    all_.resize(end);
  }

  void reserve(std::size_t actions) { all_.reserve(actions); }
  // Opens the list of the next rank, to which add() appends.
  void add_rank() { ends_.push_back(all_.size()); }
  void add(const Action& action) {
    all_.push_back(action);
    ends_.back() = all_.size();
  }
  void add_rank(std::span<const Action> actions) {
    all_.insert(all_.end(), actions.begin(), actions.end());
    ends_.push_back(all_.size());
  }

 private:
  std::size_t begin_of(int rank) const {
    return rank == 0 ? 0 : ends_[static_cast<std::size_t>(rank) - 1];
  }

  LargeVector<Action> all_;
  std::vector<std::size_t> ends_;
};

// An action that, besides what it needs anyway, starts only after another one has ended, on any
// rank and stream. A SEND has ended once its message has arrived, or at once if it completes by
// itself; a RECV once its message is there and, if the RECV is on a stream, the stream has come to
// it.
struct Dependency {
  static constexpr std::size_t max_awaited = 64;  // by one action

  Action action;   // an F, I, W, B or SEND
  Action awaited;  // that, or a RECV

  bool operator==(const Dependency&) const = default;
};

struct Schedule {
  std::string name;
  int microbatches = 0;
  Placement placement;
  // actions[r]: the actions of rank r. Cells of several actions are joined; IDLE marks an empty
  // cell of a file and takes no time.
  ActionLists actions;
  // The streams that its file puts transfers on (`compute`: it leaves that to the mode of sending),
  // and the file's lines with `after`. A family's schedule has neither.
  TransferLane lane = TransferLane::compute;
  std::vector<Dependency> dependencies{};

  int ranks() const { return actions.ranks(); }
  int stages() const { return placement.stages(); }
  // Whether the lists have transfers, as those of a program do.
  bool has_transfers() const;
  // The same with other lists, for a pass to return.
  Schedule with(ActionLists lists) const {
    return {name, microbatches, placement, std::move(lists), lane, dependencies};
  }
};

// The ranks that take part in a blocking collective, in ascending order: for a REDUCE_TIED those of
// the first and the last stage, which may be the same one, for a GRAD_NORM all.
std::vector<int> group_of(Kind blocking_collective, const Placement& placement);

// A fault in a schedule: which rule is broken, and where.
struct ScheduleFault {
  int rank = 0;
  std::size_t index = 0;  // of the action within actions[rank]
  std::string rule;
  std::optional<std::size_t> dependency{};  // the one that breaks it, if one does
};

// Checks that every stage has each microbatch's F once, and B once or I and W
// once; that F precedes I precedes W on its rank; that transfers, if any, are complete and in a
// possible place; that no gradient is produced after its stage's last REDUCE_GRAD; that
// REDUCE_TIED, GRAD_NORM and OPTIMIZER, at most one of each per rank and the first two on all ranks
// of their group, come in this order after everything else on their rank; that what an UNSHARD
// gathers is released after its last use; that dependencies are between existing actions, of
// different cells. Returns the first fault. Does not check for deadlock: see deadlock.h.
std::optional<ScheduleFault> find_fault(const Schedule& schedule);

}  // namespace pipesim
