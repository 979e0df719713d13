#include "sim/schedule/families/slots.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace pipesim::families {
namespace {

bool is_forward(Pass pass) { return pass <= Pass::forward_up; }
bool is_input(Pass pass) { return pass == Pass::input_up || pass == Pass::input_down; }
bool is_weight(Pass pass) { return pass >= Pass::weight; }
// From the first rank to the last.
bool goes_down(Pass pass) { return pass == Pass::forward_down || pass == Pass::input_up; }

// The slots of the travelling passes of all microbatches.
class SlotTable {
 public:
  explicit SlotTable(const Timelines& ranks) : ranks_(ranks.size()) {
    slots_.resize(ranks_ * travelling_passes);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (const SlotItem& item : ranks[rank]) {
        if (!is_weight(item.pass)) slots_[index(rank, item.pass)].push_back(item.slot);
      }
    }
  }

  void put(std::size_t rank, const SlotItem& item) {
    if (is_weight(item.pass)) return;
    slots_[index(rank, item.pass)][static_cast<std::size_t>(item.microbatch)] = item.slot;
  }

  // The last slot of an item's inputs: its pass on the previous rank, the previous pass, the same
  // pass of the previous microbatch. -1: none. Weight gradients have no entry.
  int last_needed(std::size_t rank, const SlotItem& item) const {
    const auto microbatch = static_cast<std::size_t>(item.microbatch);
    const auto slot_of = [&](std::size_t of, Pass pass, std::size_t at) {
      return slots_[index(of, pass)][at];
    };
    int last = -1;
    if (goes_down(item.pass) && rank > 0) last = slot_of(rank - 1, item.pass, microbatch);
    if (!goes_down(item.pass) && rank + 1 < ranks_) {
      last = slot_of(rank + 1, item.pass, microbatch);
    }
    if (item.pass != Pass::forward_down) {
      const auto before = static_cast<Pass>(static_cast<int>(item.pass) - 1);
      last = std::max(last, slot_of(rank, before, microbatch));
    }
    if (microbatch > 0) last = std::max(last, slot_of(rank, item.pass, microbatch - 1));
    return last;
  }

 private:
  static std::size_t index(std::size_t rank, Pass pass) {
    return rank * travelling_passes + static_cast<std::size_t>(pass);
  }

  std::size_t ranks_;
  std::vector<std::vector<int>> slots_;  // by rank and pass, by microbatch
};

// The rank of each item, in the order of slots, ranks from the top in each.
std::vector<std::uint32_t> ranks_in_turn(const Timelines& ranks) {
  std::vector<std::size_t> first(1);  // by slot: how many items come before
  for (const Timeline& items : ranks) {
    for (const SlotItem& item : items) {
      const auto slot = static_cast<std::size_t>(item.slot);
      if (first.size() < slot + 2) first.resize(slot + 2);
      ++first[slot + 1];
    }
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> order(first.back());
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    for (const SlotItem& item : ranks[rank]) {
      order[first[static_cast<std::size_t>(item.slot)]++] = rank;
    }
  }
  return order;
}

// A rank's memory after an item, and the pending weight gradients in it, which run in the next free
// slots.
struct Holding {
  int chunks = 0;
  int owed = 0;

  bool operator==(const Holding&) const = default;
};

// One rank's timeline while its items are moved or kept, one after the other.
class MovingTimeline {
 public:
  MovingTimeline(Timeline& items, bool has_weights) : items_(items), has_weights_(has_weights) {
    holdings_.resize(items.size());
    for (std::size_t k = 0; k < items.size(); ++k) {
      holdings_[k] = behind(k == 0 ? Holding() : holdings_[k - 1], slot_before(k), items[k]);
      peak_ = std::max(peak_, holdings_[k].chunks);
    }
  }

  int peak() const { return peak_; }
  const SlotItem& next() const { return items_[next_]; }

  // The last slot of the inputs of the next item, a weight gradient: as many input gradients as
  // weight gradients including it, and the previous weight gradient.
  int last_needed_by_weight() const {
    return std::max(last_weight_, inputs_[static_cast<std::size_t>(next().microbatch)]);
  }

  void leave_next() { pass_by(next_); }

  // Moves the next item to the first free slot after `last` with which the rank holds no more than
  // `most`, if one comes before its own. Returns the item.
  SlotItem move_next(int last, int most) {
    const auto at_last = std::ranges::upper_bound(
        items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(next_), last, {},
        &SlotItem::slot);
    for (auto k = static_cast<std::size_t>(at_last - items_.begin()); k <= next_; ++k) {
      // Free slots before item k. Once nothing is pending they are all equivalent.
      const int first = std::max(last, slot_before(k)) + 1;
      const int owed = k == 0 ? 0 : holdings_[k - 1].owed;
      const int end = std::min(items_[k].slot, std::max(first, slot_before(k) + 1 + owed) + 1);
      for (int slot = first; slot < end; ++slot) {
        if (!fits(k, slot, most)) continue;
        move(k, slot);
        return pass_by(k);
      }
    }
    return pass_by(next_);
  }

 private:
  int slot_before(std::size_t k) const { return k == 0 ? -1 : items_[k - 1].slot; }

  Holding behind(Holding now, int before, const SlotItem& item) const {
    const int done = std::min(now.owed, item.slot - before - 1);
    now.chunks -= done;
    now.owed -= done;
    if (is_forward(item.pass)) ++now.chunks;
    if (is_weight(item.pass)) --now.chunks;
    if (is_input(item.pass) && !has_weights_) ++now.owed;
    return now;
  }

  // Whether the rank holds at most `most` with the next item in that slot before item k.
  bool fits(std::size_t k, int slot, int most) const {
    SlotItem moved = next();
    moved.slot = slot;
    Holding now = behind(k == 0 ? Holding() : holdings_[k - 1], slot_before(k), moved);
    for (; now.chunks <= most && k < items_.size(); ++k) {
      if (k == next_) continue;
      now = behind(now, slot, items_[k]);
      slot = items_[k].slot;
      if (k > next_ && now == holdings_[k]) return true;  // and so is the rest
    }
    return now.chunks <= most;
  }

  void move(std::size_t k, int slot) {
    const auto at = [&](std::size_t i) { return items_.begin() + static_cast<std::ptrdiff_t>(i); };
    std::rotate(at(k), at(next_), at(next_ + 1));
    items_[k].slot = slot;
    for (; k < items_.size(); ++k) {
      const Holding now = behind(k == 0 ? Holding() : holdings_[k - 1], slot_before(k), items_[k]);
      if (k > next_ && now == holdings_[k]) return;
      holdings_[k] = now;
    }
  }

  SlotItem pass_by(std::size_t k) {
    const SlotItem item = items_[k];
    if (is_input(item.pass)) {
      inputs_.insert(std::ranges::upper_bound(inputs_, item.slot), item.slot);
    }
    if (is_weight(item.pass)) last_weight_ = item.slot;
    ++next_;
    return item;
  }

  Timeline& items_;
  bool has_weights_;
  std::vector<Holding> holdings_;  // after each item
  std::vector<int> inputs_;        // slots of the input gradients before `next_`, sorted
  int last_weight_ = -1;
  std::size_t next_ = 0;
  int peak_ = 0;
};

}  // namespace

Timelines repeated(const std::vector<Block>& blocks, int microbatches, int interval) {
  Timelines ranks;
  ranks.reserve(blocks.size());
  for (const Block& block : blocks) {
    Timeline& items = ranks.emplace_back();
    items.reserve(static_cast<std::size_t>(microbatches) * travelling_passes);
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (int pass = 0; pass < travelling_passes; ++pass) {
        items.push_back({block[static_cast<std::size_t>(pass)] + interval * microbatch, microbatch,
                         static_cast<Pass>(pass)});
      }
    }
    std::ranges::sort(items, {}, &SlotItem::slot);
  }
  return ranks;
}

void add_weights(Timelines& ranks, Weights weights) {
  const bool by_chunk = weights == Weights::by_chunk;
  for (Timeline& items : ranks) {
    Timeline filled;
    filled.reserve(items.size() + items.size() / 2);
    std::array<int, 2> owed{};  // by chunk: on the way up, or both; the other
    std::array<int, 2> done{};
    const auto fill = [&](int slot, int count) {
      for (; count > 0 && owed[0] + owed[1] > 0; --count) {
        const std::size_t chunk = owed[0] > 0 ? 0 : 1;
        const Pass pass = !by_chunk    ? Pass::weight
                          : chunk == 0 ? Pass::weight_up
                                       : Pass::weight_down;
        --owed[chunk];
        filled.push_back({slot++, done[chunk]++, pass});
      }
    };
    const auto first_free = [&] { return filled.empty() ? 0 : filled.back().slot + 1; };
    for (const SlotItem& item : items) {
      fill(first_free(), item.slot - first_free());
      if (is_input(item.pass)) ++owed[by_chunk && item.pass == Pass::input_down ? 1 : 0];
      filled.push_back(item);
    }
    fill(first_free(), owed[0] + owed[1]);
    items = std::move(filled);
  }
}

void drop_weights(Timelines& ranks) {
  for (Timeline& items : ranks) {
    std::erase_if(items, [](const SlotItem& item) { return is_weight(item.pass); });
  }
}

void move_earlier(Timelines& ranks) {
  const auto weighs = [](const SlotItem& item) { return is_weight(item.pass); };
  const bool has_weights = std::ranges::any_of(ranks.front(), weighs);
  int last_microbatch = 0;
  for (const SlotItem& item : ranks.front()) {
    if (item.pass == Pass::forward_down) last_microbatch = item.microbatch;
  }
  SlotTable slots(ranks);
  std::vector<MovingTimeline> moving;
  moving.reserve(ranks.size());
  int most = 0;
  const std::vector<std::uint32_t> turns = ranks_in_turn(ranks);
  for (Timeline& items : ranks) {
    moving.emplace_back(items, has_weights);
    most = std::max(most, moving.back().peak());
  }
  enum class Phase { filling, steady, draining };
  Phase phase = Phase::filling;
  for (const std::uint32_t rank : turns) {
    MovingTimeline& own = moving[rank];
    const SlotItem item = own.next();
    if (phase == Phase::filling && rank == 0 && item.pass == Pass::input_down) {
      phase = Phase::steady;
    }
    if (phase == Phase::steady || (phase == Phase::filling && !has_weights)) {
      own.leave_next();
    } else {
      const int last =
          is_weight(item.pass) ? own.last_needed_by_weight() : slots.last_needed(rank, item);
      slots.put(rank, own.move_next(last, most));
    }
    if (phase == Phase::steady && item.pass == Pass::forward_down &&
        item.microbatch == last_microbatch) {
      phase = Phase::draining;
    }
  }
}

void squeeze(Timelines& ranks) {
  SlotTable slots(ranks);
  std::vector<std::size_t> next(ranks.size());
  for (const std::uint32_t rank : ranks_in_turn(ranks)) {
    const std::size_t k = next[rank]++;
    SlotItem& item = ranks[rank][k];
    int last = k == 0 ? -1 : ranks[rank][k - 1].slot;
    if (!is_weight(item.pass)) last = std::max(last, slots.last_needed(rank, item));
    item.slot = last + 1;
    slots.put(rank, item);
  }
}

}  // namespace pipesim::families
