#include "sim/partition/sweep_plan.h"

#include <limits>

#include "sim/partition/index.h"

namespace pipesim {
namespace {

class Planner {
 public:
  explicit Planner(const CutCosts& costs)
      : costs_(costs),
        taken_(index(costs.ranks())),
        known_(index(costs.stages()) + 1),
        beside_ns_left_(0) {
    known_.front() = known_.back() = true;
    for (int rank = 0; rank < costs.ranks(); ++rank) beside_ns_left_ += costs.beside_ns(rank);
  }

  std::vector<SweepStep> plan() {
    std::vector<SweepStep> steps;
    for (int left = costs_.ranks() - 1; left >= 0; --left) {
      steps.push_back(take(next_rank()));
      steps.back().ranks_left = left;
    }
    return steps;
  }

 private:
  bool is_taken(int stage) const { return taken_[index(costs_.placement().rank_of(stage))]; }
  bool is_open(int cut) const {
    return cut > 0 && cut < costs_.stages() && is_taken(cut - 1) != is_taken(cut);
  }

  // The one that leaves the fewest cuts open; of several the one with the last stage.
  int next_rank() const {
    int best = -1;
    int fewest = std::numeric_limits<int>::max();
    for (int rank = 0; rank < costs_.ranks(); ++rank) {
      if (taken_[index(rank)]) continue;
      const std::vector<int>& stages = costs_.placement().stages_of(rank);
      int opened = 0;
      const auto meet = [&](int other) {
        if (other < 0 || other >= costs_.stages()) return;
        if (costs_.placement().rank_of(other) == rank) return;
        opened += is_taken(other) ? -1 : 1;
      };
      for (const int stage : stages) {
        meet(stage - 1);
        meet(stage + 1);
      }
      if (opened > fewest) continue;
      if (opened == fewest && stages.back() < costs_.placement().stages_of(best).back()) continue;
      best = rank;
      fewest = opened;
    }
    return best;
  }

  SweepStep take(int rank) {
    SweepStep step;
    step.rank = rank;
    for (int stage = 0; stage < costs_.stages(); ++stage) {
      if (is_open(stage)) step.known.push_back(stage);
      if (is_taken(stage)) continue;
      if (stage == 0 || is_taken(stage - 1)) step.gaps.emplace_back(stage, stage);
      step.gaps.back().second = stage + 1;
    }
    const std::vector<int>& stages = costs_.placement().stages_of(rank);
    std::vector<int> placed;
    for (const int stage : stages) {
      if (known_[index(stage)] && known_[index(stage) + 1]) step.complete.push_back(stage);
    }
    for (const int stage : stages) {
      for (const int cut : {stage, stage + 1}) {
        if (known_[index(cut)]) continue;
        step.choices.push_back(choose(cut, stages));
        placed.push_back(cut);
      }
    }
    taken_[index(rank)] = true;
    beside_ns_left_ -= costs_.beside_ns(rank);
    step.beside_ns_left = beside_ns_left_;
    for (int cut = 0; cut < costs_.stages(); ++cut) {
      if (is_open(cut)) step.places.push_back(cut);
    }
    step.open = step.places.size();
    for (const int cut : placed) {
      if (!is_open(cut)) step.places.push_back(cut);
    }
    for (const Direction& way : costs_.ways()) {
      if ((way.rank == rank && !taken_[index(way.other)]) ||
          (way.other == rank && !taken_[index(way.rank)])) {
        step.ways.push_back(&way);
      }
    }
    return step;
  }

  CutChoice choose(int cut, const std::vector<int>& stages) {
    CutChoice choice;
    choice.cut = choice.left = choice.right = cut;
    while (!known_[index(--choice.left)]) {
    }
    while (!known_[index(++choice.right)]) {
    }
    known_[index(cut)] = true;
    for (const int stage : stages) {
      if (stage != cut && stage + 1 != cut) continue;
      if (known_[index(stage)] && known_[index(stage) + 1]) choice.complete.push_back(stage);
    }
    if (choice.complete.size() == 1) {
      const int stage = choice.complete.front();
      (stage == cut ? choice.grows_left : choice.grows_right) = stage;
    }
    return choice;
  }

  const CutCosts& costs_;
  std::vector<bool> taken_;  // by rank
  std::vector<bool> known_;  // by cut
  std::int64_t beside_ns_left_;
};

}  // namespace

std::vector<SweepStep> plan_sweep(const CutCosts& costs) { return Planner(costs).plan(); }

}  // namespace pipesim
