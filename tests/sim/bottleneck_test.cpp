// Layouts of the least bottleneck, against all layouts and against closed forms.
#include "sim/partition/bottleneck.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "sim/engine/simulate.h"
#include "sim/partition/index.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/families.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using testing::pick;
using Moments = std::vector<HeldChunks>;

std::int64_t value_at(const std::vector<std::int64_t>& values, int i) {
  return values.empty() ? 0 : values[index(i)];
}

// A layout's cost, layer by layer, with each directed way by itself.
struct Loads {
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

Loads loads_of(const BottleneckProblem& problem, const std::vector<int>& layout) {
  const Placement& placement = problem.placement;
  Loads truth;
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

// Whether at a moment when the rank is as full as it gets none of its layers takes more.
bool is_largest_when_fullest(const BottleneckProblem& problem, const Shortfall& lack) {
  const Placement& placement = problem.placement;
  const std::int64_t fullest = lack.bytes + problem.memory_caps[index(lack.rank)];
  Moments moments{{{}, {}}};
  if (!problem.moments.empty()) moments = problem.moments[index(lack.rank)];
  for (const HeldChunks& held : moments) {
    std::int64_t sum = 0;
    std::int64_t most = 0;
    std::int64_t named = 0;
    int layer = 0;
    for (int stage = 0; stage < placement.stages(); ++stage) {
      for (int i = 0; i < lack.layout[index(stage)]; ++i, ++layer) {
        if (placement.rank_of(stage) != lack.rank) continue;
        std::int64_t bytes = value_at(problem.state_bytes, layer);
        if (!problem.moments.empty()) {
          const std::size_t chunk = index(placement.chunk_of(stage));
          bytes += held.activations[chunk] * value_at(problem.activation_bytes, layer);
          bytes += held.residues[chunk] * value_at(problem.residue_bytes, layer);
        }
        sum += bytes;
        most = std::max(most, bytes);
        if (layer == lack.layer) named = bytes;
      }
    }
    if (sum == fullest && named == most) return true;
  }
  return false;
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

BottleneckProblem random_bottleneck(std::mt19937_64& random, Placement placement, int max_layers) {
  BottleneckProblem problem;
  problem.placement = std::move(placement);
  const int stages = problem.placement.stages();
  const int ranks = problem.placement.ranks();
  const int layers = static_cast<int>(pick(random, stages, std::max(stages + 1, max_layers)));
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

// Whether what is found is the best of all layouts; whether one fits.
void expect_least_of_all(const BottleneckProblem& problem, bool& fits) {
  const int stages = problem.placement.stages();
  auto least = std::tuple(std::numeric_limits<std::int64_t>::max(), std::int64_t{0}, 0.0);
  std::vector<int> first;  // of those with the least of all three
  for_each_layout(problem.layers(), stages, [&](const std::vector<int>& layout) {
    const Loads truth = loads_of(problem, layout);
    const auto cost =
        std::tuple(truth.missing(problem.memory_caps), truth.bottleneck(), truth.squares());
    if (cost >= least) return;
    least = cost;
    first = layout;
  });
  const auto& [missing, ns, squares] = least;
  const auto found = find_bottleneck(problem);
  fits = missing == 0;
  if (fits) {
    const auto* best = std::get_if<Bottleneck>(&found);
    ASSERT_NE(best, nullptr);
    ASSERT_TRUE(best->is_proven());
    ASSERT_EQ(best->ns, ns);
    ASSERT_EQ(best->layout.size(), index(stages));
    ASSERT_EQ(std::accumulate(best->layout.begin(), best->layout.end(), 0), problem.layers());
    ASSERT_GE(std::ranges::min(best->layout), 1);
    const Loads truth = loads_of(problem, best->layout);
    ASSERT_EQ(truth.missing(problem.memory_caps), 0);
    ASSERT_EQ(truth.bottleneck(), ns);
    ASSERT_EQ(truth.squares(), squares);
    ASSERT_EQ(bottleneck_of(problem, best->layout), ns);
    for (int r = 0; r < problem.placement.ranks(); ++r) {
      ASSERT_EQ(memory_of(problem, best->layout, r), truth.memory[index(r)]);
    }
    if (problem.placement.is_loop() && stages == problem.placement.ranks()) {
      ASSERT_EQ(best->layout, first);
    }
  } else {
    const auto* best = std::get_if<Shortfall>(&found);
    ASSERT_NE(best, nullptr);
    ASSERT_TRUE(best->is_proven());
    ASSERT_EQ(best->bytes, missing);
    const Loads truth = loads_of(problem, best->layout);
    ASSERT_EQ(truth.missing(problem.memory_caps), missing);
    ASSERT_EQ(truth.memory[index(best->rank)] - problem.memory_caps[index(best->rank)], missing);
    int stage = 0;
    for (int end = best->layout[0]; end <= best->layer;) end += best->layout[index(++stage)];
    ASSERT_EQ(problem.placement.rank_of(stage), best->rank);
    ASSERT_TRUE(is_largest_when_fullest(problem, *best));
  }
}

void expect_least_of_many(std::mt19937_64& random, int rounds, int max_layers,
                          const std::function<Placement()>& placement) {
  int fitted = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    bool fits = false;
    ASSERT_NO_FATAL_FAILURE(
        expect_least_of_all(random_bottleneck(random, placement(), max_layers), fits));
    fitted += fits ? 1 : 0;
  }
  EXPECT_GT(fitted, rounds / 10);
  EXPECT_LT(fitted, rounds - rounds / 10);
}

TEST(Bottleneck, IsTheLeastOfAllLayouts) {
  std::mt19937_64 random(1);
  expect_least_of_many(random, 12'000, 9, [&] { return random_placement(random); });
}

TEST(Bottleneck, IsTheLeastWithChunksToo) {
  std::mt19937_64 random(2);
  for (const Placement& placement :
       {Placement::loop(3, 2), Placement::v(3, 2), Placement::loop(2, 3), Placement::v(2, 4)}) {
    expect_least_of_many(random, 200, 14, [&] { return placement; });
  }
}

// One nanosecond a layer.
BottleneckProblem layers_alike(int layers, Placement placement) {
  BottleneckProblem problem;
  problem.layer_ns.assign(index(layers), 1);
  problem.placement = std::move(placement);
  return problem;
}

TEST(Bottleneck, OfLayersThatAreAlikeIsTheLargestShare) {
  for (int p = 1; p <= 6; ++p) {
    for (const Placement& placement :
         {Placement::loop(p, 1), Placement::loop(p, 2), Placement::v(p, 2), Placement::v(p, 3)}) {
      for (int n = placement.stages(); n <= placement.stages() + 13; ++n) {
        const auto best = std::get<Bottleneck>(find_bottleneck(layers_alike(n, placement)));
        ASSERT_EQ(best.ns, (n + p - 1) / p);
        ASSERT_TRUE(best.is_proven());
        const Loads truth = loads_of(layers_alike(n, placement), best.layout);
        ASSERT_EQ(std::ranges::min(truth.rank_ns), n / p);
      }
    }
  }
  EXPECT_EQ(std::get<Bottleneck>(find_bottleneck(layers_alike(9, Placement::loop(4, 1)))).layout,
            (std::vector<int>{2, 2, 2, 3}));
}

TEST(Bottleneck, OfAsManyLayersAsStagesHasOneEach) {
  for (const Placement& placement :
       {Placement::loop(5, 1), Placement::loop(3, 3), Placement::v(4, 2)}) {
    BottleneckProblem problem = layers_alike(placement.stages(), placement);
    std::iota(problem.layer_ns.begin(), problem.layer_ns.end(), 1);
    const auto best = std::get<Bottleneck>(find_bottleneck(problem));
    EXPECT_EQ(best.layout, std::vector<int>(index(placement.stages()), 1));
    EXPECT_EQ(best.ns, std::ranges::max(loads_of(problem, best.layout).rank_ns));
    EXPECT_TRUE(best.is_proven());
  }
}

TEST(Bottleneck, OfAVAddsWhatBothLegsSend) {
  // Rank 0 has stages 0 and 3: each way carries boundary 0 and boundary 2.
  BottleneckProblem problem = layers_alike(6, Placement::v(2, 2));
  problem.transfer_ns = {{4, 4, 4, 4, 4, 4}, {90, 90, 90, 90, 90, 90}, {5, 5, 5, 5, 3, 3}};
  const auto best = std::get<Bottleneck>(find_bottleneck(problem));
  EXPECT_EQ(best.ns, 4 + 3);
  EXPECT_EQ(best.layout.back(), 1);
}

TEST(Bottleneck, TakesNoMoreMemoryThanThereIs) {
  // Rank 0 holds two microbatches' activations, rank 1 one.
  BottleneckProblem problem = layers_alike(6, Placement::loop(2, 1));
  problem.state_bytes.assign(6, 10);
  problem.activation_bytes = {1, 1, 9, 1, 1, 1};
  problem.moments = {{{{2}, {0}}}, {{{1}, {0}}}};
  problem.memory_caps = {47, 1000};
  const auto best = std::get<Bottleneck>(find_bottleneck(problem));
  EXPECT_EQ(best.layout, (std::vector<int>{2, 4}));
  EXPECT_EQ(memory_of(problem, {2, 4}, 0), 2 * 10 + 2 * 2);
  EXPECT_EQ(memory_of(problem, {3, 3}, 0), 3 * 10 + 2 * 11);

  problem.memory_caps = {11, 40};
  const auto lack = std::get<Shortfall>(find_bottleneck(problem));
  EXPECT_EQ(lack.layout, (std::vector<int>{2, 4}));
  EXPECT_EQ(lack.bytes, 24 - 11);
  EXPECT_EQ(lack.rank, 0);
  EXPECT_EQ(lack.at_least_bytes, 13);

  problem.memory_caps = {1000, 1};
  const auto other = std::get<Shortfall>(find_bottleneck(problem));
  EXPECT_EQ(other.layout, (std::vector<int>{5, 1}));
  EXPECT_EQ(other.rank, 1);
  EXPECT_EQ(other.layer, 5);
  EXPECT_EQ(other.bytes, 10);
}

TEST(Bottleneck, NeedsALayerForEachStage) {
  EXPECT_EQ(testing::error_of([] { find_bottleneck(layers_alike(3, Placement::loop(2, 2))); }),
            "partition: 3 layers cannot fill 4 virtual stages; give each at least one layer");
}

// One stage a rank: the least bottleneck by all last cuts of all stages. Nothing fits: -1.
std::int64_t by_all_last_cuts(const BottleneckProblem& problem) {
  const int n = problem.layers();
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> before(index(n) + 1, none);
  before[0] = 0;
  for (int stage = 0; stage < problem.placement.stages(); ++stage) {
    std::vector<std::int64_t> now(index(n) + 1, none);
    for (int end = 1; end <= n; ++end) {
      const bool is_last = stage + 1 == problem.placement.stages();
      const std::int64_t sent = is_last ? 0 : problem.transfer_ns[index(stage)][index(end) - 1];
      std::int64_t ns = value_at(problem.stage_ns, stage);
      std::int64_t states = 0;
      std::int64_t activations = 0;
      for (int begin = end - 1; begin >= 0; --begin) {
        ns += problem.layer_ns[index(begin)];
        states += value_at(problem.state_bytes, begin);
        activations += value_at(problem.activation_bytes, begin);
        if (!problem.memory_caps.empty()) {
          const int held = problem.moments[index(stage)].front().activations.front();
          if (states + held * activations > problem.memory_caps[index(stage)]) break;
        }
        now[index(end)] = std::min(now[index(end)], std::max({before[index(begin)], ns, sent}));
      }
    }
    before = now;
  }
  return before.back() == none ? -1 : before.back();
}

TEST(Bottleneck, OfAThousandLayersOn64RanksIsTheLeast) {
  std::mt19937_64 random(5);
  BottleneckProblem problem;
  problem.placement = Placement::loop(64, 1);
  problem.layer_ns = random_values(random, 1000, 1'000'000);
  problem.stage_ns = random_values(random, 64, 1'000'000);
  for (int b = 1; b < 64; ++b) {
    problem.transfer_ns.push_back(random_values(random, 1000, 15'000'000));
  }
  const auto free = std::get<Bottleneck>(find_bottleneck(problem));
  EXPECT_TRUE(free.is_proven());
  EXPECT_EQ(free.ns, by_all_last_cuts(problem));
  EXPECT_EQ(loads_of(problem, free.layout).bottleneck(), free.ns);

  problem.state_bytes = random_values(random, 1000, 1'000'000);
  problem.activation_bytes = random_values(random, 1000, 100'000);
  problem.moments = fullest_moments(generate({"1f1b", 64, 128}));
  problem.memory_caps.assign(64, 33'000'000);
  const auto held = std::get<Bottleneck>(find_bottleneck(problem));
  EXPECT_TRUE(held.is_proven());
  EXPECT_EQ(held.ns, by_all_last_cuts(problem));
  EXPECT_GT(held.ns, free.ns);
  const Loads truth = loads_of(problem, held.layout);
  EXPECT_EQ(truth.bottleneck(), held.ns);
  EXPECT_EQ(truth.missing(problem.memory_caps), 0);
}

TEST(Bottleneck, SaysWhatMayBeMissingWhereThereAreTooManyLayouts) {
  std::mt19937_64 random(6);
  BottleneckProblem problem;
  problem.placement = Placement::loop(8, 6);
  problem.layer_ns = random_values(random, 96, 1'000'000);
  const auto best = std::get<Bottleneck>(find_bottleneck(problem));
  EXPECT_FALSE(best.is_proven());
  const Loads truth = loads_of(problem, best.layout);
  EXPECT_EQ(truth.bottleneck(), best.ns);
  const std::int64_t total =
      std::accumulate(problem.layer_ns.begin(), problem.layer_ns.end(), std::int64_t{0});
  EXPECT_LE(best.at_least_ns, best.ns);
  EXPECT_GE(best.at_least_ns, (total + 7) / 8);
  EXPECT_LT(static_cast<double>(best.ns), 1.02 * static_cast<double>(best.at_least_ns));
}

TEST(FullestMoments, AreAsPublished) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 13; ++m) {
      const auto one_f_one_b = fullest_moments(generate({"1f1b", p, m}));
      const auto gpipe = fullest_moments(generate({"gpipe", p, m}));
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(one_f_one_b[index(r)], (Moments{{{std::min(p - r, m)}, {0}}}));
        EXPECT_EQ(gpipe[index(r)], (Moments{{{m}, {0}}}));
      }
    }
  }
}

TEST(FullestMoments, OfAListAreItsCrests) {
  Schedule schedule;
  schedule.microbatches = 2;
  schedule.placement = Placement({0, 0});
  const auto act = [](int stage, Kind kind, int microbatch) {
    return make_action(stage, kind, microbatch);
  };
  // Held, activations and then residues: 1,0 2,0 2,1 | 2,0;0,1 1,0;1,1 | 1,1;1,1 and less.
  const std::vector<Action> list{act(0, Kind::F, 0), act(0, Kind::F, 1), act(1, Kind::F, 0),
                                 act(1, Kind::I, 0), act(0, Kind::I, 0), act(1, Kind::F, 1),
                                 act(0, Kind::W, 0), act(1, Kind::B, 1), act(0, Kind::B, 1),
                                 act(1, Kind::W, 0)};
  schedule.actions.add_rank(list);
  ASSERT_FALSE(find_fault(schedule));
  EXPECT_EQ(fullest_moments(schedule),
            (std::vector<Moments>{{{{1, 1}, {1, 1}}, {{2, 0}, {0, 1}}, {{2, 1}, {0, 0}}}}));
}

// With bytes of each stage's own, ranks need at the fullest of the moments what a
// simulation meters; and no moment is there for nothing.
void expect_as_metered(const Schedule& schedule, std::mt19937_64& random) {
  BottleneckProblem problem = layers_alike(schedule.stages(), schedule.placement);
  problem.moments = fullest_moments(schedule);
  problem.activation_bytes = random_values(random, schedule.stages(), 100);
  problem.residue_bytes = random_values(random, schedule.stages(), 150);
  Costs costs = testing::costs_of(schedule.stages(), 10, 20);
  for (int s = 0; s < schedule.stages(); ++s) {
    costs.stages[index(s)].activation_bytes = problem.activation_bytes[index(s)];
    costs.stages[index(s)].weight_residue_bytes = problem.residue_bytes[index(s)];
  }
  const Metrics metrics = simulate(schedule, costs);
  const std::vector<int> layout(index(schedule.stages()), 1);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    ASSERT_EQ(memory_of(problem, layout, rank), metrics.ranks[index(rank)].peak_activation_bytes);
    const Moments& moments = problem.moments[index(rank)];
    for (const HeldChunks& one : moments) {
      EXPECT_EQ(std::ranges::count_if(moments,
                                      [&](const HeldChunks& other) {
                                        return std::ranges::equal(other.activations,
                                                                  one.activations,
                                                                  std::greater_equal<>()) &&
                                               std::ranges::equal(other.residues, one.residues,
                                                                  std::greater_equal<>());
                                      }),
                1);
    }
  }
}

TEST(FullestMoments, AreWhatASimulationMeters) {
  std::mt19937_64 random(7);
  int generated = 0;
  for (const Family& family : all_families()) {
    for (int p = 1; p <= 5; ++p) {
      for (const int v : testing::chunk_counts(family)) {
        for (int m = p; m <= 4 * p; m += p) {
          SCOPED_TRACE(fmt::format("{} p{} v{} m{}", family.name, p, v, m));
          ScheduleRequest request{std::string(family.name), p, m, {}, {}, {}};
          if (family.many_chunks) request.chunks = v;
          Schedule schedule;
          try {
            schedule = generate(request);
          } catch (const Error&) {
            continue;  // too few microbatches for it
          }
          for (int weights = 0; weights < 3; ++weights) expect_as_metered(schedule, random);
          ++generated;
        }
      }
    }
  }
  EXPECT_GT(generated, 100);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(fmt::format("random {}", round));
    expect_as_metered(testing::random_schedule(random), random);
  }
}

}  // namespace
}  // namespace pipesim
