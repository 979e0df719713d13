#include "sim/partition/cut_sweep.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/partition/index.h"
#include "sim/partition/sweep_plan.h"

namespace pipesim {
namespace {

constexpr std::size_t max_states = std::size_t{1} << 21;  // of all ranks together

// The states after a step, found by their open cuts.
class States {
 public:
  States(std::size_t width, std::size_t open) : width_(width), open_(open), slots_(16) {}

  std::size_t size() const { return values_.size(); }
  const int* places(std::size_t state) const { return places_.data() + state * width_; }
  Squares value(std::size_t state) const { return values_[state]; }
  std::size_t parent(std::size_t state) const { return parents_[state]; }

  // The state with these open cuts, if need be a new one: second.
  std::pair<std::size_t, bool> at(const std::vector<int>& places) {
    if (2 * (size() + 1) > slots_.size()) grow();
    std::uint32_t& slot = slots_[find(places.data())];
    if (slot != 0) return {slot - 1, false};
    places_.insert(places_.end(), places.begin(), places.end());
    values_.push_back(0);
    parents_.push_back(0);
    slot = static_cast<std::uint32_t>(size());
    return {size() - 1, true};
  }
  void set(std::size_t state, const std::vector<int>& places, Squares value, std::size_t parent) {
    std::ranges::copy(places, places_.begin() + static_cast<std::ptrdiff_t>(state * width_));
    values_[state] = value;
    parents_[state] = parent;
  }
  void forget_slots() { slots_ = {}; }

 private:
  std::size_t find(const int* places) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < open_; ++i) {
      hash = (hash ^ static_cast<std::uint64_t>(places[i])) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      if (slots_[at] == 0 || std::equal(places, places + open_, this->places(slots_[at] - 1))) {
        return at;
      }
    }
  }

  void grow() {
    slots_.assign(2 * slots_.size(), 0);
    for (std::size_t state = 0; state < size(); ++state) {
      slots_[find(places(state))] = static_cast<std::uint32_t>(state + 1);
    }
  }

  std::size_t width_;
  std::size_t open_;
  std::vector<int> places_;
  std::vector<Squares> values_;
  std::vector<std::size_t> parents_;
  std::vector<std::uint32_t> slots_;  // a state plus one, or 0
};

class CutSweep {
 public:
  CutSweep(const CutCosts& costs, const SweepLimits& limits, std::int64_t& steps,
           const Budget* budget)
      : costs_(costs),
        limits_(limits),
        budget_(budget),
        plan_(plan_sweep(costs)),
        steps_left_(steps) {
    cuts_.resize(index(costs.stages()) + 1);
    cuts_.back() = costs.layers();
    std::size_t most_moments = 0;
    for (int rank = 0; rank < costs.ranks(); ++rank) {
      most_moments = std::max(most_moments, costs.moments_of(rank).size());
    }
    held_.assign(2 * index(costs.placement().chunks()) + 2,
                 std::vector<std::int64_t>(most_moments));
    levels_.emplace_back(0, 0);
    levels_.front().at({});
  }

  Swept run() {
    std::size_t states = 0;
    for (const SweepStep& step : plan_) {
      const States& before = levels_.back();
      step_ = &step;
      next_ = States(step.places.size(), step.open);
      places_.resize(step.places.size());
      for (parent_ = 0; parent_ < before.size(); ++parent_) {
        if (parent_ % states_a_look == 0) look();
        expand(before);
        if (is_over_ || steps_left_ < 0 || (step.open > 1 && states + next_.size() > max_states)) {
          return give_up();
        }
      }
      states += next_.size();
      next_.forget_slots();
      levels_.push_back(std::move(next_));
      if (levels_.back().size() == 0) return {};
    }
    return {true, trace()};
  }

 private:
  Swept give_up() {
    steps_left_ = std::max<std::int64_t>(steps_left_, 0);
    return {false, {}};
  }

  void expand(const States& before) {
    for (std::size_t i = 0; i < step_->known.size(); ++i) {
      cuts_[index(step_->known[i])] = before.places(parent_)[i];
    }
    parent_value_ = before.value(parent_);
    layers_ns_left_ = 0;
    for (const auto& [begin, end] : step_->gaps) {
      layers_ns_left_ += layers_ns(cuts_[index(begin)], cuts_[index(end)]);
    }
    const Wide room =
        static_cast<Wide>(step_->ranks_left) * limits_.most.ns - step_->beside_ns_left;
    const std::int64_t beside = costs_.beside_ns(step_->rank);
    least_ns_ = static_cast<std::int64_t>(
        std::max<Wide>(static_cast<Wide>(layers_ns_left_) - room + beside, 0));
    std::ranges::fill(held_.front(), 0);
    std::int64_t ns = beside;
    if (ns <= limits_.most.ns && complete(step_->complete, 0, ns)) place(0, ns);
  }

  // Places the rank's cuts from one choice on, where the stages that are complete
  // take so much.
  void place(std::size_t at, std::int64_t ns) {
    if (at == step_->choices.size()) {
      take(ns);
      return;
    }
    const CutChoice& choice = step_->choices[at];
    int low = cuts_[index(choice.left)] + (choice.cut - choice.left);
    int high = cuts_[index(choice.right)] - (choice.right - choice.cut);
    if (!limits_.lowest.empty()) {
      low = std::max(low, limits_.lowest[index(choice.cut)]);
      high = std::min(high, limits_.highest[index(choice.cut)]);
    }
    const bool is_last = at + 1 == step_->choices.size();
    const bool leftwards = choice.grows_left != no_stage;
    const bool rightwards = choice.grows_right != no_stage;
    if (is_last && ns < least_ns_) {
      const std::vector<std::int64_t>& sums = costs_.sums().ns;
      if (rightwards) {
        const std::int64_t begin = sums[index(cuts_[index(choice.grows_right)])];
        const auto first = std::ranges::lower_bound(sums, begin + (least_ns_ - ns));
        low = std::max(low, static_cast<int>(first - sums.begin()));
      } else if (leftwards) {
        const std::int64_t end = sums[index(cuts_[index(choice.grows_left) + 1])];
        const auto beyond = std::ranges::upper_bound(sums, end - (least_ns_ - ns));
        high = std::min(high, static_cast<int>(beyond - sums.begin()) - 1);
      }
    }
    const int direction = leftwards ? -1 : 1;
    for (int place_at = leftwards ? high : low; place_at >= low && place_at <= high;
         place_at += direction) {
      if (++places_tried_ % places_a_look == 0) look();
      if (is_over_ || --steps_left_ < 0) return;  // nothing comes of this sweep
      cuts_[index(choice.cut)] = place_at;
      std::int64_t with_ns = ns;
      if (complete(choice.complete, at + 1, with_ns)) {
        place(at + 1, with_ns);
      } else if (leftwards || rightwards) {
        return;
      }
    }
  }

  // Adds stages to the rank's time and to what it held at `depth` - 1, in place
  // at 0; false where that is beyond the limits.
  bool complete(const std::vector<int>& stages, std::size_t depth, std::int64_t& ns) {
    for (const int stage : stages) {
      ns += layers_ns(cuts_[index(stage)], cuts_[index(stage) + 1]);
    }
    if (ns > limits_.most.ns) return false;
    if (!costs_.has_caps()) return true;
    const std::vector<std::int64_t>& before = held_[depth == 0 ? 0 : depth - 1];
    std::vector<std::int64_t>& now = held_[depth];
    const std::vector<HeldChunks>& moments = costs_.moments_of(step_->rank);
    steps_left_ -= static_cast<std::int64_t>(moments.size());
    fullest_ = 0;
    for (std::size_t m = 0; m < moments.size(); ++m) {
      std::int64_t bytes = before[m];
      for (const int stage : stages) {
        bytes += costs_.held_bytes(moments[m], costs_.placement().chunk_of(stage),
                                   cuts_[index(stage)], cuts_[index(stage) + 1]);
      }
      now[m] = bytes;
      fullest_ = std::max(fullest_, bytes);
    }
    return fullest_ - costs_.cap_of(step_->rank) <= limits_.most.missing_bytes;
  }

  void look() { is_over_ = budget_ != nullptr && budget_->is_over(); }

  // All cuts of the rank are placed.
  void take(std::int64_t ns) {
    if (ns < least_ns_) return;
    std::int64_t bottleneck = ns;
    for (const Direction* way : step_->ways) {
      std::int64_t sum = 0;
      for (const int cut : way->cuts) sum += costs_.transfer_ns(cut, cuts_[index(cut)]);
      bottleneck = std::max(bottleneck, sum);
    }
    if (bottleneck > limits_.most.ns) return;
    keep(value_of(ns, bottleneck));
  }

  Squares value_of(std::int64_t ns, std::int64_t bottleneck) const {
    switch (limits_.aim) {
      case Aim::missing_bytes: {
        const std::int64_t missing =
            costs_.has_caps() ? std::max<std::int64_t>(fullest_ - costs_.cap_of(step_->rank), 0)
                              : 0;
        return std::max(parent_value_, static_cast<Squares>(missing));
      }
      case Aim::ns: return std::max(parent_value_, static_cast<Squares>(bottleneck));
      default: break;
    }
    const Squares value = parent_value_ + static_cast<Squares>(ns) * static_cast<Squares>(ns);
    // The ranks left add least where they are alike.
    const double left = static_cast<double>(layers_ns_left_ - (ns - costs_.beside_ns(step_->rank)) +
                                            step_->beside_ns_left);
    const double least = left * left / std::max(step_->ranks_left, 1);
    constexpr double rounding = 1 + 1e-9;
    const bool beyond =
        value > limits_.most.squares ||
        static_cast<double>(value) + least > static_cast<double>(limits_.most.squares) * rounding;
    return beyond ? too_much : value;
  }

  void keep(Squares value) {
    if (value == too_much) return;
    steps_left_ -= static_cast<std::int64_t>(4 + places_.size());  // as its states are far apart
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i] = cuts_[index(step_->places[i])];
    }
    const auto [state, is_new] = next_.at(places_);
    if (is_new || value < next_.value(state) ||
        (value == next_.value(state) && comes_before(state))) {
      next_.set(state, places_, value, parent_);
    }
  }

  // Whether this way to a state comes before the one that is kept.
  bool comes_before(std::size_t state) const {
    const States& before = levels_.back();
    const std::size_t open = step_->known.size();
    const int* ours = before.places(parent_);
    const int* kept = before.places(next_.parent(state));
    if (!std::equal(ours, ours + open, kept)) {
      return std::lexicographical_compare(ours, ours + open, kept, kept + open);
    }
    const int* places = next_.places(state);
    return std::lexicographical_compare(places_.begin(), places_.end(), places,
                                        places + places_.size());
  }

  Cuts trace() const {
    Cuts cuts = cuts_;
    std::size_t state = 0;
    for (std::size_t level = levels_.size() - 1; level > 0; --level) {
      const std::vector<int>& places = plan_[level - 1].places;
      for (std::size_t i = 0; i < places.size(); ++i) {
        cuts[index(places[i])] = levels_[level].places(state)[i];
      }
      state = levels_[level].parent(state);
    }
    return cuts;
  }

  std::int64_t layers_ns(int begin, int end) const {
    return costs_.sums().ns[index(end)] - costs_.sums().ns[index(begin)];
  }

  __extension__ using Wide = __int128;
  static constexpr Squares too_much = ~Squares{0};

  const CutCosts& costs_;
  const SweepLimits& limits_;
  const Budget* const budget_;
  const std::vector<SweepStep> plan_;
  std::int64_t& steps_left_;
  static constexpr std::size_t states_a_look = 1024;
  static constexpr std::uint32_t places_a_look = 4096;
  std::uint32_t places_tried_ = 0;
  bool is_over_ = false;
  std::vector<States> levels_;  // before the first step, and after each
  States next_{0, 0};

  // Of the state that is expanded.
  const SweepStep* step_ = nullptr;
  std::size_t parent_ = 0;
  Squares parent_value_ = 0;
  std::int64_t layers_ns_left_ = 0;  // before the rank is taken
  std::int64_t least_ns_ = 0;        // of the rank, so that the others can take the rest
  Cuts cuts_;
  std::vector<std::vector<std::int64_t>> held_;  // bytes, by depth and moment
  std::int64_t fullest_ = 0;                     // of those last seen
  std::vector<int> places_;
};

}  // namespace

Swept sweep(const CutCosts& costs, const SweepLimits& limits, std::int64_t& steps,
            const Budget* budget) {
  return CutSweep(costs, limits, steps, budget).run();
}

}  // namespace pipesim
