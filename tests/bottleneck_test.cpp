// Layouts of the least bottleneck, against all layouts and against closed forms.
#include "sim/plan/bottleneck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::int64_t value_at(const std::vector<std::int64_t>& values, int i) {
  return values.empty() ? 0 : values[index(i)];
}

// A layout's cost, layer by layer, with each directed way by itself.
struct Truth {
  std::vector<std::int64_t> rank_ns;
  std::map<std::pair<int, int>, std::int64_t> way_ns;
  std::vector<std::int64_t> memory;

  std::int64_t bottleneck() const {
    std::int64_t most = std::ranges::max(rank_ns);
    for (const auto& [way, ns] : way_ns) most = std::max(most, ns);
    return most;
  }
  double squares() const {
    double sum = 0;
    for (const std::int64_t ns : rank_ns) sum += static_cast<double>(ns) * static_cast<double>(ns);
    return sum;
  }
  std::int64_t missing(const std::vector<std::int64_t>& caps) const {
    std::int64_t most = 0;
    for (std::size_t r = 0; r < caps.size(); ++r) most = std::max(most, memory[r] - caps[r]);
    return most;
  }
};

Truth truth_of(const BottleneckProblem& problem, const std::vector<int>& layout) {
  const Placement& placement = problem.placement;
  Truth truth;
  truth.rank_ns.resize(index(placement.ranks()));
  truth.memory.resize(index(placement.ranks()));
  std::vector<int> stage_of;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    stage_of.insert(stage_of.end(), index(layout[index(stage)]), stage);
    truth.rank_ns[index(placement.rank_of(stage))] += value_at(problem.stage_ns, stage);
  }
  for (int layer = 0; layer < problem.layers(); ++layer) {
    const int stage = stage_of[index(layer)];
    const int rank = placement.rank_of(stage);
    truth.rank_ns[index(rank)] += problem.layer_ns[index(layer)];
    if (layer + 1 == problem.layers() || stage_of[index(layer) + 1] == stage) continue;
    const int next = placement.rank_of(stage + 1);
    if (next == rank || problem.transfer_ns.empty()) continue;
    truth.way_ns[{rank, next}] += problem.transfer_ns[index(stage)][index(layer)];
    truth.way_ns[{next, rank}] += problem.transfer_ns[index(stage)][index(layer)];
  }
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const std::size_t moments = problem.moments.empty() ? 1 : problem.moments[index(rank)].size();
    for (std::size_t m = 0; m < moments; ++m) {
      std::int64_t bytes = 0;
      for (int layer = 0; layer < problem.layers(); ++layer) {
        const int stage = stage_of[index(layer)];
        if (placement.rank_of(stage) != rank) continue;
        bytes += value_at(problem.state_bytes, layer);
        if (problem.moments.empty()) continue;
        const HeldChunks& held = problem.moments[index(rank)][m];
        const std::size_t chunk = index(placement.chunk_of(stage));
        bytes += held.activations[chunk] * value_at(problem.activation_bytes, layer);
        bytes += held.residues[chunk] * value_at(problem.residue_bytes, layer);
      }
      truth.memory[index(rank)] = std::max(truth.memory[index(rank)], bytes);
    }
  }
  return truth;
}

// Calls use(layout) for every layout.
template <typename Use>
void for_each_layout(int layers, int stages, const Use& use) {
  std::vector<int> layout;
  const auto extend = [&](const auto& self, int left) -> void {
    const int stages_left = stages - static_cast<int>(layout.size());
    if (stages_left == 1) {
      layout.push_back(left);
      use(layout);
      layout.pop_back();
      return;
    }
    for (int own = 1; own <= left - (stages_left - 1); ++own) {
      layout.push_back(own);
      self(self, left - own);
      layout.pop_back();
    }
  };
  extend(extend, layers);
}

std::vector<std::int64_t> random_values(std::mt19937_64& random, int count, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < count; ++i) values.push_back(pick(random, 0, most));
  return values;
}

Placement random_placement(std::mt19937_64& random) {
  switch (pick(random, 0, 4)) {
    case 0: return Placement::loop(static_cast<int>(pick(random, 1, 5)), 1);
    case 1: return Placement::loop(static_cast<int>(pick(random, 1, 3)), 2);
    case 2: return Placement::v(static_cast<int>(pick(random, 1, 3)), 2);
    case 3: {  // one stage a rank, in any order
      std::vector<int> ranks(index(static_cast<int>(pick(random, 1, 5))));
      std::iota(ranks.begin(), ranks.end(), 0);
      for (std::size_t i = ranks.size(); i > 1; --i) {
        std::swap(ranks[i - 1], ranks[random() % i]);
      }
      return Placement(ranks);
    }
    default: return testing::random_schedule(random).placement;
  }
}

BottleneckProblem random_problem(std::mt19937_64& random) {
  BottleneckProblem problem;
  problem.placement = random_placement(random);
  const int stages = problem.placement.stages();
  const int ranks = problem.placement.ranks();
  const int layers = static_cast<int>(pick(random, stages, std::max(stages + 1, 9)));
  const std::int64_t coarse = pick(random, 0, 1) == 0 ? 4 : 1000;  // ties, or hardly any
  const auto perhaps = [&] { return pick(random, 0, 2) != 0; };
  problem.layer_ns = random_values(random, layers, pick(random, 0, 9) == 0 ? 0 : coarse);
  if (perhaps()) problem.stage_ns = random_values(random, stages, coarse);
  if (perhaps()) {
    for (int b = 1; b < stages; ++b) {
      problem.transfer_ns.push_back(random_values(random, layers, 2 * coarse));
    }
  }
  if (perhaps()) problem.state_bytes = random_values(random, layers, coarse);
  if (perhaps()) problem.activation_bytes = random_values(random, layers, coarse);
  if (perhaps()) problem.residue_bytes = random_values(random, layers, coarse);
  if (perhaps()) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& own = problem.moments.emplace_back();
      for (std::int64_t m = pick(random, 1, 3); m > 0; --m) {
        HeldChunks held;
        for (std::size_t c = 0; c < problem.placement.stages_of(rank).size(); ++c) {
          held.activations.push_back(static_cast<int>(pick(random, 0, 3)));
          held.residues.push_back(static_cast<int>(pick(random, 0, 3)));
        }
        own.push_back(held);
      }
    }
  }
  if (perhaps()) {
    problem.memory_caps = random_values(random, ranks, coarse * pick(random, 1, 12));
  }
  return problem;
}

TEST(Bottleneck, IsTheLeastOfAllLayouts) {
  std::mt19937_64 random(1);
  int fitted = 0;
  int lacked = 0;
  for (int round = 0; round < 12'000; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const BottleneckProblem problem = random_problem(random);
    const int stages = problem.placement.stages();
    auto least = std::tuple(std::numeric_limits<std::int64_t>::max(), std::int64_t{0}, 0.0);
    std::vector<int> first;  // of those with the least of all three
    for_each_layout(problem.layers(), stages, [&](const std::vector<int>& layout) {
      const Truth truth = truth_of(problem, layout);
      const auto cost =
          std::tuple(truth.missing(problem.memory_caps), truth.bottleneck(), truth.squares());
      if (cost >= least) return;
      least = cost;
      first = layout;
    });
    const auto& [missing, ns, squares] = least;
    const auto found = find_bottleneck(problem);
    if (missing == 0) {
      ++fitted;
      const auto* best = std::get_if<Bottleneck>(&found);
      ASSERT_NE(best, nullptr);
      ASSERT_TRUE(best->is_proven());
      ASSERT_EQ(best->ns, ns);
      ASSERT_EQ(best->layout.size(), index(stages));
      ASSERT_EQ(std::accumulate(best->layout.begin(), best->layout.end(), 0), problem.layers());
      ASSERT_GE(std::ranges::min(best->layout), 1);
      const Truth truth = truth_of(problem, best->layout);
      ASSERT_EQ(truth.missing(problem.memory_caps), 0);
      ASSERT_EQ(truth.bottleneck(), ns);
      ASSERT_EQ(truth.squares(), squares);
      ASSERT_EQ(bottleneck_of(problem, best->layout), ns);
      for (int r = 0; r < problem.placement.ranks(); ++r) {
        ASSERT_EQ(memory_of(problem, best->layout, r), truth.memory[index(r)]);
      }
      bool in_order = problem.placement.is_loop() && stages == problem.placement.ranks();
      if (in_order) {
        ASSERT_EQ(best->layout, first);
      }
    } else {
      ++lacked;
      const auto* best = std::get_if<Shortfall>(&found);
      ASSERT_NE(best, nullptr);
      ASSERT_TRUE(best->is_proven());
      ASSERT_EQ(best->bytes, missing);
      const Truth truth = truth_of(problem, best->layout);
      ASSERT_EQ(truth.missing(problem.memory_caps), missing);
      ASSERT_EQ(truth.memory[index(best->rank)] - problem.memory_caps[index(best->rank)], missing);
      int stage = 0;
      for (int end = best->layout[0]; end <= best->layer;) end += best->layout[index(++stage)];
      ASSERT_EQ(problem.placement.rank_of(stage), best->rank);
    }
  }
  EXPECT_GT(fitted, 1000);
  EXPECT_GT(lacked, 1000);
}

}  // namespace
}  // namespace pipesim
