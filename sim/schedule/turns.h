// Orders in which ranks deal out their cells: in turns, at most one each (see lower.h), or each
// rank as far as it can.
//
// Every cell comes after all that it waits for. Templates over who is told; one owner, one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.h"
#include "traces/base/prefetch.h"

namespace pipesim {

// A set of ranks, taken in order.
class RankSet {
 public:
  static constexpr auto none = static_cast<std::size_t>(-1);

  explicit RankSet(int ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {}
  bool empty() const { return size_ == 0; }
  void insert(std::size_t rank) {
    std::uint64_t& word = words_[rank / 64];
    const std::uint64_t bit = std::uint64_t{1} << rank % 64;
    size_ += (word & bit) == 0 ? 1 : 0;
    word |= bit;
  }
  // Removes and returns the first, or the first after `rank`; none if there is none.
  std::size_t take_first() { return take_from(0); }
  std::size_t take_after(std::size_t rank) { return take_from(rank + 1); }

 private:
  std::size_t take_from(std::size_t rank) {
    if (size_ == 0) return none;
    std::uint64_t mask = ~std::uint64_t{0} << rank % 64;
    for (std::size_t at = rank / 64; at < words_.size(); ++at, mask = ~std::uint64_t{0}) {
      const std::uint64_t word = words_[at] & mask;
      if (word == 0) continue;
      const auto bit = static_cast<std::size_t>(std::countr_zero(word));
      words_[at] &= ~(std::uint64_t{1} << bit);
      --size_;
      return at * 64 + bit;
    }
    return none;
  }

  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
};

class Turns {
 public:
  explicit Turns(const Schedule& schedule)
      : this_turn_(schedule.ranks()), next_turn_(schedule.ranks()) {
    begin(schedule);
  }

  // From the start of all lists, once they are dealt. The schedule outlives this.
  void begin(const Schedule& schedule) {
    ranks_.clear();
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      const auto list = schedule.actions[rank];
      ranks_.push_back({list.data(), list.data() + list.size()});
      if (!list.empty()) next_turn_.insert(static_cast<std::size_t>(rank));
    }
  }

  // Calls `deal(rank, cell, size)` for each cell, an empty one, too. It returns false if the cell
  // still waits for another: it is dealt again after wake(). Returns whether all were dealt.
  template <typename Deal>
  bool run(Deal deal) {
    while (!next_turn_.empty()) {
      std::swap(this_turn_, next_turn_);
      for (turn_of_ = this_turn_.take_first(); turn_of_ != RankSet::none;
           turn_of_ = this_turn_.take_after(turn_of_)) {
        Rank& rank = ranks_[turn_of_];
        if (rank.cell == rank.end) continue;
        const std::size_t size = cell_size(rank.cell, rank.end);
        if (!deal(static_cast<int>(turn_of_), rank.cell, size)) continue;
        rank.cell += size;
        if (rank.cell != rank.end) next_turn_.insert(turn_of_);
        prefetch_ahead(rank.cell, 8);
      }
    }
    for (const Rank& rank : ranks_) {
      if (rank.cell != rank.end) return false;
    }
    return true;
  }

  // The first action of a rank's next cell.
  const Action& next_of(int rank) const { return *ranks_[static_cast<std::size_t>(rank)].cell; }

  // A rank's next cell may be dealt: in this turn, if the rank has not had it yet.
  void wake(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    (at > turn_of_ ? this_turn_ : next_turn_).insert(at);
  }

 private:
  struct Rank {
    const Action* cell;  // the next
    const Action* end;
  };

  std::vector<Rank> ranks_;
  RankSet this_turn_, next_turn_;
  std::size_t turn_of_ = 0;  // the rank whose turn it is
};

// Ranks go on one after the other, each until one of its cells waits for another. That keeps what
// belongs to a rank in the cache. Calls as in Turns.
class Runs {
 public:
  explicit Runs(const Schedule& schedule) : ranks_(static_cast<std::size_t>(schedule.ranks())) {
    begin(schedule);
  }

  void begin(const Schedule& schedule) {
    for (int rank = schedule.ranks() - 1; rank >= 0; --rank) {
      const auto list = schedule.actions[rank];
      ranks_[static_cast<std::size_t>(rank)] = {list.data(), list.data() + list.size(), false};
      runnable_.push_back(rank);
    }
  }

  template <typename Deal>
  bool run(Deal deal) {
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      Rank& own = ranks_[static_cast<std::size_t>(rank)];
      while (own.cell != own.end) {
        const std::size_t size = cell_size(own.cell, own.end);
        if (!deal(rank, own.cell, size)) break;
        own.cell += size;
      }
      own.waits = own.cell != own.end;
      // Other ranks go first; by then these lines would be gone.
      prefetch_ahead(own.cell, 16);
    }
    for (const Rank& rank : ranks_) {
      if (rank.cell != rank.end) return false;
    }
    return true;
  }

  const Action& next_of(int rank) const { return *ranks_[static_cast<std::size_t>(rank)].cell; }

  void wake(int rank) {
    Rank& own = ranks_[static_cast<std::size_t>(rank)];
    if (!std::exchange(own.waits, false)) return;
    runnable_.push_back(rank);
    prefetch_ahead(own.cell, 0);
  }

 private:
  struct Rank {
    const Action* cell = nullptr;  // the next
    const Action* end = nullptr;
    bool waits = false;
  };

  std::vector<Rank> ranks_;
  std::vector<int> runnable_;
};

}  // namespace pipesim
