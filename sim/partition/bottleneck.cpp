#include "sim/partition/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/partition/cut_costs.h"
#include "sim/partition/cut_sweep.h"
#include "sim/partition/index.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// What sweeps may take, over all layouts and over those near one: some seconds at most.
constexpr std::int64_t max_steps = std::int64_t{1} << 28;
constexpr std::int64_t max_steps_of_squares = std::int64_t{1} << 25;
constexpr std::int64_t max_steps_of_one_stage = std::int64_t{1} << 27;  // a rank, for squares
constexpr std::int64_t max_steps_nearby = std::int64_t{1} << 26;
constexpr std::int64_t max_steps_a_move = std::int64_t{1} << 22;
constexpr int max_rounds = 16;  // over the cuts, one by one

class BottleneckSearch {
 public:
  BottleneckSearch(const CutCosts& costs, Effort effort, const Budget* budget)
      : costs_(costs),
        budget_(budget),
        everything_(costs.max_ns()),
        has_one_stage_a_rank_(costs.ranks() == costs.stages()),
        part_(effort == Effort::small ? 128 : 1),
        at_least_ns_(costs.least_ns()) {}

  std::variant<Bottleneck, Shortfall> run() {
    start();
    find_fastest();
    if (cost_.missing_bytes > 0) {
      find_least_missing();
      if (cost_.missing_bytes == 0) find_fastest();
    }
    if (cost_.missing_bytes > 0) {
      Shortfall shortfall = costs_.shortfall_of(cuts_);
      shortfall.at_least_bytes = at_least_missing_;
      return shortfall;
    }
    even_out();
    return Bottleneck{layout_of(cuts_), cost_.ns, std::min(at_least_ns_, cost_.ns)};
  }

 private:
  void use(Cuts cuts) {
    cuts_ = std::move(cuts);
    cost_ = costs_.cost_of(cuts_);
  }

  // From layouts with as many layers a stage, or with as much time, to ones that no
  // cut alone makes better.
  void start() {
    const std::int64_t n = costs_.layers();
    const std::int64_t stages = costs_.stages();
    const std::vector<std::int64_t>& sums = costs_.sums().ns;
    Cuts by_count{0};
    Cuts by_time{0};
    for (std::int64_t cut = 1; cut < stages; ++cut) {
      by_count.push_back(static_cast<int>(cut * n / stages));
      const std::int64_t ns = sums.back() / stages * cut + sums.back() % stages * cut / stages;
      const auto at = std::ranges::lower_bound(sums, ns) - sums.begin();
      by_time.push_back(
          static_cast<int>(std::clamp<std::int64_t>(at, by_time.back() + 1, n - (stages - cut))));
    }
    by_count.push_back(costs_.layers());
    by_time.push_back(costs_.layers());
    use(std::move(by_count));
    move_single_cuts();
    const Cuts cuts = cuts_;
    const LayoutCost cost = cost_;
    use(std::move(by_time));
    move_single_cuts();
    if (cost <= cost_) use(cuts);
  }

  void move_single_cuts() {
    bool moved = true;
    for (int round = 0; round < max_rounds && moved; ++round) {
      moved = false;
      for (int cut = 1; cut < costs_.stages(); ++cut) {
        for (const int by : {-1, 1}) {
          Cuts cuts = cuts_;
          int& at = cuts[index(cut)];
          at += by;
          if (at == cuts[index(cut - 1)] || at == cuts[index(cut + 1)]) continue;
          if (budget_ != nullptr && budget_->is_over()) return;
          if (costs_.cost_of(cuts) >= cost_) continue;
          use(std::move(cuts));
          moved = true;
        }
      }
    }
  }

  // The least bottleneck of what fits. A sweep within close limits is short, so the
  // limits grow until one finds a layout, or shows that there is none up to them.
  void find_fastest() {
    std::int64_t beyond = 0;  // how far above the lower bound
    for (;;) {
      const bool fits = cost_.missing_bytes == 0;
      const std::int64_t last = fits ? cost_.ns - 1 : everything_;
      if (at_least_ns_ > last) break;
      beyond = beyond == 0 ? std::min(last - at_least_ns_, at_least_ns_) / 64 + 1 : 4 * beyond;
      const std::int64_t limit = last - at_least_ns_ <= beyond ? last : at_least_ns_ + beyond;
      const Swept swept = sweep(costs_, {Aim::ns, {0, limit, 0}}, steps_, budget_);
      if (!swept.to_the_end) {
        if (fits) move_nearby(Aim::ns);
        return;
      }
      if (!swept.cuts.empty()) {
        use(swept.cuts);
        at_least_ns_ = cost_.ns;
        return;
      }
      at_least_ns_ = limit + 1;
    }
    if (cost_.missing_bytes > 0) at_least_missing_ = 1;
  }

  // The same for what lacks, however slow.
  void find_least_missing() {
    std::int64_t beyond = 0;
    while (at_least_missing_ < cost_.missing_bytes) {
      const std::int64_t last = cost_.missing_bytes - 1;
      beyond = beyond == 0 ? (last - at_least_missing_) / 64 + 1 : 4 * beyond;
      const std::int64_t limit = has_one_stage_a_rank_ || last - at_least_missing_ <= beyond
                                     ? last
                                     : at_least_missing_ + beyond;
      const Swept swept =
          sweep(costs_, {Aim::missing_bytes, {limit, everything_, 0}}, steps_, budget_);
      if (!swept.to_the_end) {
        move_nearby(Aim::missing_bytes);
        return;
      }
      if (!swept.cuts.empty()) {
        use(swept.cuts);
        at_least_missing_ = cost_.missing_bytes;
        return;
      }
      at_least_missing_ = limit + 1;
    }
  }

  // The least sum of squares for the bottleneck.
  void even_out() {
    steps_ = (has_one_stage_a_rank_ ? max_steps_of_one_stage : max_steps_of_squares) / part_;
    const Swept swept = sweep(costs_, {Aim::squares, cost_}, steps_, budget_);
    if (swept.to_the_end) {
      use(swept.cuts);
    } else {
      move_nearby(Aim::squares);
    }
  }

  // To the best layout all of whose cuts are near, or all cuts of two chunks, as long
  // as there is a better one.
  void move_nearby(Aim aim) {
    const int chunks = costs_.placement().chunks();
    const auto every_cut = [](int) { return true; };
    for (bool moved = true; moved;) {
      moved = move_within(aim, 1, every_cut);
      for (int one = 0; one < chunks; ++one) {
        for (int other = one + 1; other < chunks; ++other) {
          moved = move_within(aim, 4,
                              [&](int cut) {
                                const int chunk = costs_.placement().chunk_of(cut);
                                return chunk == one || chunk == other;
                              }) ||
                  moved;
        }
      }
    }
  }

  // To the best layout whose cuts are no further away than `reach`, and those that are
  // not free where they are; false where none is better, or steps ran out.
  template <typename IsFree>
  bool move_within(Aim aim, int reach, const IsFree& is_free) {
    SweepLimits limits{aim, cost_};
    switch (aim) {
      case Aim::missing_bytes:
        if (cost_.missing_bytes == 0) return false;
        limits.most = {cost_.missing_bytes - 1, everything_, 0};
        break;
      case Aim::ns: --limits.most.ns; break;
      case Aim::squares: --limits.most.squares; break;
    }
    limits.lowest = limits.highest = cuts_;
    for (int cut = 1; cut < costs_.stages(); ++cut) {
      if (!is_free(cut)) continue;
      limits.lowest[index(cut)] -= reach;
      limits.highest[index(cut)] += reach;
    }
    const std::int64_t granted = std::min(steps_nearby_, max_steps_a_move / part_);
    std::int64_t left = granted;
    const Swept swept = sweep(costs_, limits, left, budget_);
    steps_nearby_ -= granted - left;
    if (swept.cuts.empty()) return false;
    use(swept.cuts);
    return true;
  }

  const CutCosts& costs_;
  const Budget* const budget_;
  const std::int64_t everything_;  // no bottleneck is longer
  const bool has_one_stage_a_rank_;
  const std::int64_t part_;  // of the steps: one of so many
  std::int64_t steps_ = max_steps / part_;
  std::int64_t steps_nearby_ = max_steps_nearby / part_;
  std::int64_t at_least_ns_;
  std::int64_t at_least_missing_ = 0;
  Cuts cuts_;  // the best so far
  LayoutCost cost_;
};

}  // namespace

std::variant<Bottleneck, Shortfall> find_bottleneck(const BottleneckProblem& problem, Effort effort,
                                                    const Budget* budget) {
  if (problem.layers() < problem.placement.stages()) {
    throw input_error(fmt::format("partition: {} cannot fill {}; give each at least one layer",
                                  plural(problem.layers(), "layer"),
                                  plural(problem.placement.stages(), "virtual stage")));
  }
  const CutCosts costs(problem);
  return BottleneckSearch(costs, effort, budget).run();
}

std::int64_t bottleneck_of(const BottleneckProblem& problem, const std::vector<int>& layout) {
  return CutCosts(problem).cost_of(cuts_of(layout)).ns;
}

std::int64_t memory_of(const BottleneckProblem& problem, const std::vector<int>& layout, int rank) {
  return CutCosts(problem).memory_bytes(cuts_of(layout), rank);
}

}  // namespace pipesim
