// Layers dealt out for the least iteration, against all layouts.
#include "sim/partition/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sim/cost/layout.h"
#include "sim/cost/pipedream_graph.h"
#include "sim/partition/index.h"
#include "sim/schedule/family.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/random_schedule.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using testing::pick;

std::string name_of(int layer) { return fmt::format("layer {}", layer); }

PartitionProblem problem_of(const Schedule& schedule, const CostsFile& file) {
  PartitionProblem problem;
  problem.schedule = schedule;
  problem.layers = file.layers;
  problem.even = even_layout(static_cast<int>(file.layers.size()), schedule.stages());
  problem.costs = [file, schedule](const std::vector<int>& layout) {
    Costs costs = file.resolve(schedule.placement, layout);
    costs.check(schedule.placement, schedule.microbatches, "test");
    return costs;
  };
  return problem;
}

// What a layout comes to, without the search.
struct Truth {
  std::vector<int> layout;
  std::int64_t makespan_ns = 0;
  std::int64_t bottleneck_ns = 0;
  std::vector<std::int64_t> memory;

  std::int64_t peak() const { return std::ranges::max(memory); }
};

Truth truth_of(const PartitionProblem& problem, const std::vector<int>& layout) {
  const Placement& placement = problem.schedule.placement;
  const Costs costs = problem.costs(layout);
  SimulationOptions options;
  options.transfers = problem.transfers;
  const Prediction prediction = predict(problem.schedule, costs, nullptr, {}, options);
  Truth truth;
  truth.layout = layout;
  truth.makespan_ns = prediction.metrics.makespan_ns;
  for (const RankMemory& rank : prediction.memory) truth.memory.push_back(rank.total());
  // The longest that anything is occupied: ranks, and both ways between any two.
  std::map<std::pair<int, int>, std::int64_t> occupied;
  for (int s = 0; s < placement.stages(); ++s) {
    const int rank = placement.rank_of(s);
    const StageCosts& stage = costs.stages[index(s)];
    occupied[{rank, rank}] += stage.forward_ns + stage.forward_messages_ns + stage.backward_ns() +
                              stage.backward_messages_ns;
    if (s + 1 == placement.stages() || placement.rank_of(s + 1) == rank) continue;
    const int next = placement.rank_of(s + 1);
    for (const auto& way : {std::pair(rank, next), std::pair(next, rank)}) {
      occupied[way] += costs.occupied_ns(costs.link(way.first, way.second), stage.output_bytes);
    }
  }
  for (const auto& [way, ns] : occupied) truth.bottleneck_ns = std::max(truth.bottleneck_ns, ns);
  return truth;
}

// Of all layouts: a bit for each place between two layers says whether a cut is there.
std::vector<Truth> all_truths(const PartitionProblem& problem) {
  const auto layers = static_cast<int>(problem.layers.size());
  std::vector<Truth> all;
  for (unsigned cuts = 0; cuts < 1U << (layers - 1); ++cuts) {
    std::vector<int> layout{1};
    for (int place = 0; place + 1 < layers; ++place) {
      if ((cuts >> place & 1U) != 0) {
        layout.push_back(1);
      } else {
        ++layout.back();
      }
    }
    if (static_cast<int>(layout.size()) != problem.schedule.stages()) continue;
    all.push_back(truth_of(problem, layout));
  }
  return all;
}

struct Named {
  std::string family;
  int ranks = 1;
  int chunks = 1;
  std::string placement = "loop";
};

Schedule random_small_schedule(std::mt19937_64& random) {
  static const std::vector<Named> small{{"1f1b", 1},
                                        {"1f1b", 2},
                                        {"1f1b", 3},
                                        {"1f1b", 4},
                                        {"gpipe", 3},
                                        {"gpipe", 4},
                                        {"eager-1f1b", 4},
                                        {"zb-h1", 2},
                                        {"zb-h1", 4},
                                        {"zb-h2", 3},
                                        {"interleaved", 2, 2},
                                        {"bfs", 2, 2},
                                        {"naive", 2, 2, "v"},
                                        {"bfs", 2, 2, "v"},
                                        {"bfs", 1, 3},
                                        {"interleaved-zb", 2, 2},
                                        {"zb-v", 2, 2, "v"},
                                        {"zb-v", 3, 2, "v"},
                                        {"v-half", 2, 2, "v"},
                                        {"v-min", 3, 2, "v"},
                                        {"dualpipe-v", 2, 2, "v"}};
  const Named& one = small[random() % small.size()];
  ScheduleRequest request{one.family, one.ranks, one.ranks * static_cast<int>(pick(random, 1, 3))};
  if (one.chunks > 1) request.chunks = one.chunks;
  if (one.family == "dualpipe-v") request.microbatches += 2 * one.ranks;
  request.placement = one.placement;
  return generate(request);
}

// Layers and links of which any part may be missing.
CostsFile random_file(std::mt19937_64& random, const Schedule& schedule, int layers) {
  const std::int64_t coarse = pick(random, 0, 2) == 0 ? 4 : 1000;  // ties, or hardly any
  const auto perhaps = [&](std::int64_t most) {
    return pick(random, 0, 2) == 0 ? 0 : pick(random, 1, most);
  };
  const std::int64_t state = perhaps(coarse);
  const std::int64_t activation = perhaps(coarse);
  const std::int64_t residue = perhaps(coarse);
  const std::int64_t workspace = perhaps(2 * coarse);
  const std::int64_t output = perhaps(coarse);
  const std::int64_t closing = perhaps(coarse);
  CostsFile file;
  file.name = "test";
  for (int l = 0; l < layers; ++l) {
    StageCosts& layer = file.layers.emplace_back();
    layer.forward_ns = pick(random, 0, coarse);
    layer.backward_input_ns = pick(random, 0, coarse);
    layer.backward_weight_ns = pick(random, 0, coarse);
    layer.weight_bytes = pick(random, 0, state);
    layer.gradient_bytes = pick(random, 0, state);
    layer.optimizer_bytes = pick(random, 0, state);
    layer.activation_bytes = pick(random, 0, activation);
    layer.weight_residue_bytes = pick(random, 0, residue);
    layer.workspace_bytes = pick(random, 0, workspace);
    layer.output_bytes = pick(random, 0, output);
    layer.optimizer_ns = pick(random, 0, closing);
  }
  file.costs.p2p.latency_ns = pick(random, 0, perhaps(coarse));
  if (pick(random, 0, 1) == 0) file.costs.p2p.bytes_per_second = 1'000'000'000;
  file.receive_ns = pick(random, 0, perhaps(3));
  file.costs.reserved_bytes = perhaps(2 * coarse);
  // A slow way in one direction, where no two cuts share it.
  if (schedule.ranks() > 1 && schedule.stages() == schedule.ranks() && pick(random, 0, 2) == 0) {
    Link slow = file.costs.p2p;
    slow.bytes_per_second = 300'000'000;
    const int rank = static_cast<int>(pick(random, 0, schedule.ranks() - 2));
    const bool is_forward = pick(random, 0, 1) == 0;
    file.costs.edges[{rank + (is_forward ? 0 : 1), rank + (is_forward ? 1 : 0)}] = slow;
  }
  return file;
}

std::vector<int> random_layout(std::mt19937_64& random, int layers, int stages) {
  std::vector<int> layout(index(stages), 1);
  for (int spare = layers - stages; spare > 0; --spare) ++layout[random() % layout.size()];
  return layout;
}

PartitionProblem random_problem(std::mt19937_64& random, int max_layers) {
  const Schedule schedule = random_small_schedule(random);
  const int stages = schedule.stages();
  const int layers = static_cast<int>(pick(random, stages, std::max(stages, max_layers)));
  PartitionProblem problem = problem_of(schedule, random_file(random, schedule, layers));
  if (pick(random, 0, 3) == 0) problem.transfers.mode = P2p::blocking;
  if (pick(random, 0, 3) == 0) problem.given = random_layout(random, layers, stages);
  return problem;
}

// A cap between what the lightest and what the heaviest layout needs, or just below.
void limit_memory(std::mt19937_64& random, const std::vector<Truth>& all,
                  PartitionProblem& problem) {
  const auto [least, most] = std::ranges::minmax(all, {}, &Truth::peak);
  const std::int64_t cap = pick(random, least.peak() - 1 - least.peak() / 8, most.peak());
  if (cap > 0 && pick(random, 0, 2) != 0) problem.memory_cap = cap;
}

bool fits(const PartitionProblem& problem, const Truth& truth) {
  return !problem.memory_cap || truth.peak() <= *problem.memory_cap;
}

void expect_split(const PartitionProblem& problem, const Split& split) {
  const Truth truth = truth_of(problem, split.layout);
  EXPECT_EQ(split.metrics.makespan_ns, truth.makespan_ns);
  EXPECT_EQ(split.bottleneck_ns, truth.bottleneck_ns);
  ASSERT_EQ(split.memory.size(), truth.memory.size());
  for (std::size_t r = 0; r < truth.memory.size(); ++r) {
    EXPECT_EQ(split.memory[r].total(), truth.memory[r]);
  }
  EXPECT_EQ(split.peak_memory_bytes(), truth.peak());
}

// The best of all layouts in the order of the objective; null where none fits.
const Truth* best_of(const PartitionProblem& problem, Objective objective,
                     const std::vector<Truth>& all) {
  const auto worth = [&](const Truth& one) {
    return std::tuple(objective == Objective::bottleneck ? one.bottleneck_ns : 0, one.makespan_ns,
                      one.peak());
  };
  const Truth* best = nullptr;
  for (const Truth& one : all) {
    if (!fits(problem, one)) continue;
    if (best == nullptr || worth(one) < worth(*best)) best = &one;
  }
  return best;
}

std::int64_t least_bottleneck(const PartitionProblem& problem, const std::vector<Truth>& all) {
  return best_of(problem, Objective::bottleneck, all)->bottleneck_ns;
}

// That the message is right in every number: "... with 1,2 rank 1 lacks 3 B; its largest
// layer is layer 2. ...".
void expect_refusal(const PartitionProblem& problem, const std::vector<Truth>& all,
                    const std::string& message) {
  for (const Truth& one : all) {
    const std::string with = fmt::format(" with {} rank ", fmt::join(one.layout, ","));
    const std::size_t at = message.find(with);
    if (at == std::string::npos) continue;
    const int rank = std::stoi(message.substr(at + with.size()));
    EXPECT_EQ(one.memory[index(rank)], one.peak());
    const std::size_t of = message.find("largest layer is layer ");
    ASSERT_NE(of, std::string::npos) << message;
    const int layer = std::stoi(message.substr(of + 23));
    int stage = 0;
    for (int end = one.layout[0]; end <= layer;) end += one.layout[index(++stage)];
    EXPECT_EQ(problem.schedule.placement.rank_of(stage), rank);
    EXPECT_EQ(message,
              fmt::format("no layout fits into {} per rank: with {} rank {} lacks {}; its largest "
                          "layer is layer {}. Give more memory, more stages or smaller "
                          "microbatches",
                          format_bytes(*problem.memory_cap), fmt::join(one.layout, ","), rank,
                          format_bytes(one.peak() - *problem.memory_cap), layer));
    return;
  }
  FAIL() << message << " names no layout";
}

TEST(Partition, IsTheBestOfAllLayouts) {
  std::mt19937_64 random(1);
  int refused = 0;
  int capped = 0;
  int better_than_even = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    PartitionProblem problem = random_problem(random, 8);
    const std::vector<Truth> all = all_truths(problem);
    limit_memory(random, all, problem);
    capped += problem.memory_cap ? 1 : 0;
    const Truth* best = best_of(problem, Objective::iteration, all);
    if (best == nullptr) {
      ++refused;
      expect_refusal(problem, all, testing::input_error_of([&] {
                       find_partition(problem, Objective::iteration, {}, name_of);
                     }));
      if (HasFailure()) return;
      continue;
    }
    const Partition partition = find_partition(problem, Objective::iteration, {}, name_of);
    ASSERT_EQ(partition.end, SearchEnd::all_tried);
    ASSERT_EQ(partition.tried, static_cast<std::int64_t>(all.size()));
    ASSERT_EQ(partition.balanced.metrics.makespan_ns, best->makespan_ns);
    ASSERT_EQ(partition.balanced.peak_memory_bytes(), best->peak());
    ASSERT_EQ(partition.even.layout, problem.even);
    ASSERT_EQ(partition.given.has_value(), problem.given.has_value());
    expect_split(problem, partition.even);
    expect_split(problem, partition.balanced);
    if (partition.given) {
      ASSERT_EQ(partition.given->layout, *problem.given);
      expect_split(problem, *partition.given);
    }
    ASSERT_LE(partition.bottleneck_at_least_ns, least_bottleneck(problem, all));
    if (!problem.memory_cap) {
      ASSERT_EQ(partition.bottleneck_at_least_ns, least_bottleneck(problem, all));
    }
    if (best->makespan_ns < partition.even.metrics.makespan_ns) ++better_than_even;
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(capped, 2 * refused);
  EXPECT_GT(better_than_even, 1000);
}

TEST(Partition, OfTheLeastBottleneckOfAllThatFit) {
  std::mt19937_64 random(2);
  int refused = 0;
  int searched = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    PartitionProblem problem = random_problem(random, 8);
    const std::vector<Truth> all = all_truths(problem);
    limit_memory(random, all, problem);
    if (best_of(problem, Objective::bottleneck, all) == nullptr) {
      ++refused;
      expect_refusal(problem, all, testing::input_error_of([&] {
                       find_partition(problem, Objective::bottleneck, {}, name_of);
                     }));
      if (HasFailure()) return;
      continue;
    }
    const Partition partition = find_partition(problem, Objective::bottleneck, {}, name_of);
    ASSERT_EQ(partition.balanced.bottleneck_ns, least_bottleneck(problem, all));
    ASSERT_LE(partition.bottleneck_at_least_ns, partition.balanced.bottleneck_ns);
    ASSERT_TRUE(fits(problem, truth_of(problem, partition.balanced.layout)));
    expect_split(problem, partition.balanced);
    // Of the starts the even and the given one are not better in any other way.
    const auto worth = [](const Split& split) {
      return std::tuple(split.bottleneck_ns, split.metrics.makespan_ns, split.peak_memory_bytes());
    };
    for (const Split* start : {&partition.even, partition.given ? &*partition.given : nullptr}) {
      if (start == nullptr || !fits(problem, truth_of(problem, start->layout))) continue;
      ASSERT_LE(worth(partition.balanced), worth(*start));
    }
    if (partition.end == SearchEnd::not_searched) {
      ASSERT_EQ(partition.balanced.bottleneck_ns, partition.bottleneck_at_least_ns);
    } else {
      ASSERT_EQ(partition.end, SearchEnd::all_tried);
      ++searched;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, 150);
  EXPECT_GT(searched, 50);
}

// Where not all layouts can be tried.
TEST(Partition, IsNeverWorseThanItsStarts) {
  std::mt19937_64 random(3);
  std::map<SearchEnd, int> ends;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    PartitionProblem problem = random_problem(random, 40);
    const auto layers = static_cast<int>(problem.layers.size());
    if (pick(random, 0, 1) == 0) {
      problem.given = random_layout(random, layers, problem.schedule.stages());
    }
    const Truth even = truth_of(problem, problem.even);
    if (pick(random, 0, 1) == 0 && even.peak() > 0) problem.memory_cap = even.peak();
    for (const std::int64_t trials : {1, 5, 50}) {
      SearchLimits limits;
      limits.trials = trials;
      std::int64_t told = 0;
      std::int64_t best_ns = 0;
      limits.progress = [&](std::int64_t tried, std::int64_t makespan_ns) {
        EXPECT_EQ(tried, ++told);
        best_ns = makespan_ns;
      };
      const Partition partition = find_partition(problem, Objective::iteration, limits, name_of);
      expect_split(problem, partition.balanced);
      ASSERT_EQ(told, partition.tried);
      ASSERT_EQ(best_ns, partition.balanced.metrics.makespan_ns);
      ASSERT_TRUE(fits(problem, truth_of(problem, partition.balanced.layout)));
      ASSERT_EQ(std::reduce(partition.balanced.layout.begin(), partition.balanced.layout.end()),
                layers);
      ASSERT_LE(partition.balanced.metrics.makespan_ns, even.makespan_ns);
      if (problem.given) {
        const Truth given = truth_of(problem, *problem.given);
        if (fits(problem, given)) {
          ASSERT_LE(partition.balanced.metrics.makespan_ns, given.makespan_ns);
        }
      }
      if (!problem.memory_cap) {
        const auto least = std::get<Bottleneck>(
            find_bottleneck(bottleneck_problem(problem, problem.costs(problem.even))));
        ASSERT_LE(partition.balanced.metrics.makespan_ns,
                  truth_of(problem, least.layout).makespan_ns);
      }
      constexpr int max_starts = 2 + 4;  // even, given, one a round
      ASSERT_LE(partition.tried, trials + max_starts);
      ++ends[partition.end];
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(ends[SearchEnd::trials], 500);
  EXPECT_GT(ends[SearchEnd::all_tried] + ends[SearchEnd::settled], 20);
}

// No layout fits but one that has to be found, since no start is it.
TEST(Partition, LooksForWhatFits) {
  std::mt19937_64 random(4);
  int found = 0;
  int missed = 0;
  for (int round = 0; round < 400; ++round) {
    PartitionProblem problem = random_problem(random, 12);
    if (problem.schedule.stages() < 3 || problem.layers.size() < 8) continue;
    const std::vector<Truth> all = all_truths(problem);
    problem.memory_cap = std::ranges::min(all, {}, &Truth::peak).peak();
    if (*problem.memory_cap == 0) continue;
    SearchLimits limits;
    limits.trials = 20;  // of 21 layouts and more
    try {
      const Partition partition = find_partition(problem, Objective::iteration, limits, name_of);
      ASSERT_TRUE(fits(problem, truth_of(problem, partition.balanced.layout)));
      ++found;
    } catch (const Error& error) {
      ASSERT_TRUE(std::string(error.what()).starts_with("none of ")) << error.what();
      ++missed;
    }
  }
  EXPECT_GT(found, 5 * missed);
  EXPECT_GT(found, 100);
}

Partition partition_of(const PartitionProblem& problem, std::int64_t trials = 300) {
  SearchLimits limits;
  limits.trials = trials;
  return find_partition(problem, Objective::iteration, limits, name_of);
}

TEST(Partition, IsTheSameEachTime) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 30; ++round) {
    const PartitionProblem problem = random_problem(random, 40);
    const Partition one = partition_of(problem);
    const Partition other = partition_of(problem);
    ASSERT_EQ(one.balanced.layout, other.balanced.layout);
    ASSERT_EQ(one.tried, other.tried);
    ASSERT_EQ(one.end, other.end);
  }
}

CostsFile resnet() {
  return read_pipedream_graph(testing::source_file("examples/partition/resnet50_graph.txt")).costs;
}

TEST(Partition, EndsWhenTimeRunsOut) {
  const PartitionProblem problem = problem_of(generate({"1f1b", 4, 8}), resnet());
  const std::int64_t even_ns = truth_of(problem, problem.even).makespan_ns;
  std::int64_t tried = 0;
  int refused = 0;
  for (int looks = 0; looks < 2'000; looks += 1 + looks / 4) {
    SCOPED_TRACE(looks);
    int looked = 0;
    const Budget budget([&] { return looked++ >= looks; });
    SearchLimits limits;
    limits.budget = &budget;
    try {
      const Partition partition = find_partition(problem, Objective::iteration, limits, name_of);
      EXPECT_EQ(partition.end, SearchEnd::time);
      EXPECT_EQ(looked, looks + 1);
      EXPECT_GE(partition.tried, std::max<std::int64_t>(tried, 1));
      EXPECT_LE(partition.balanced.metrics.makespan_ns, even_ns);
      tried = partition.tried;
      expect_split(problem, partition.balanced);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(tried, 0) << error.what();
      EXPECT_EQ(error.exit_status(), 1);
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(tried, 100);
}

// With few stages all layouts can be tried, and the search has to come near the best.
TEST(Partition, OfAProfileIsNearTheBest) {
  for (const char* family : {"1f1b", "gpipe", "zb-h1"}) {
    for (const std::int64_t rate : {0LL, 10'000'000'000LL, 1'000'000'000LL}) {
      SCOPED_TRACE(fmt::format("{} {}", family, rate));
      CostsFile file = resnet();
      if (rate > 0) file.costs.p2p.bytes_per_second = rate;
      const PartitionProblem problem = problem_of(generate({family, 3, 6}), file);
      const Partition searched = find_partition(problem, Objective::iteration, {}, name_of);
      const Partition best = partition_of(problem, 15'225);  // 175 choose 2
      ASSERT_EQ(best.end, SearchEnd::all_tried);
      ASSERT_EQ(best.tried, 15'225);
      EXPECT_LE(searched.tried, 2000 + 2);
      EXPECT_NE(searched.end, SearchEnd::all_tried);
      EXPECT_LT(static_cast<double>(searched.balanced.metrics.makespan_ns),
                1.01 * static_cast<double>(best.balanced.metrics.makespan_ns));
      EXPECT_LT(best.balanced.metrics.makespan_ns, best.even.metrics.makespan_ns);
    }
  }
}

// The same with 4 stages, where all 877,975 layouts were simulated once.
TEST(Partition, OfAProfileOnFourStagesIsNearTheBest) {
  struct Known {
    const char* family;
    int microbatches;
    std::int64_t rate;
    double best_ns;
  };
  for (const Known& known : {Known{"1f1b", 16, 0, 2'114'366'000},
                             {"1f1b", 16, 10'000'000'000, 2'774'882'060},
                             {"1f1b", 16, 1'000'000'000, 5'078'541'032},
                             {"gpipe", 8, 0, 1'245'626'000},
                             {"gpipe", 8, 10'000'000'000, 1'422'509'696},
                             {"gpipe", 8, 1'000'000'000, 2'665'324'252}}) {
    CostsFile file = resnet();
    if (known.rate > 0) file.costs.p2p.bytes_per_second = known.rate;
    const PartitionProblem problem =
        problem_of(generate({known.family, 4, known.microbatches}), file);
    const Partition searched = find_partition(problem, Objective::iteration, {}, name_of);
    const auto found_ns = static_cast<double>(searched.balanced.metrics.makespan_ns);
    EXPECT_GE(found_ns, known.best_ns) << known.family << known.rate;
    EXPECT_LT(found_ns, 1.01 * known.best_ns) << known.family << known.rate;
  }
}

TEST(Partition, LeavesASlowLayerAlone) {
  CostsFile file;
  for (int l = 0; l < 12; ++l) {
    StageCosts& layer = file.layers.emplace_back();
    layer.forward_ns = l == 5 ? 7000 : 1000;
    layer.split_backward(2 * layer.forward_ns);
  }
  const Partition partition = partition_of(problem_of(generate({"gpipe", 3, 8}), file));
  EXPECT_EQ(partition.balanced.layout, (std::vector<int>{5, 1, 6}));
  EXPECT_EQ(partition.balanced.bottleneck_ns, 21'000);
  EXPECT_EQ(partition.bottleneck_at_least_ns, 21'000);
  // GPipe: one microbatch through all stages and seven more on the slowest, there and back.
  EXPECT_EQ(partition.balanced.metrics.makespan_ns, 3000 * (5 + 7 + 6) + 7 * 21'000);
}

TEST(Partition, NeedsALayerForEachStage) {
  CostsFile file;
  file.layers.assign(3, usual_stage_costs());
  PartitionProblem problem = problem_of(generate({"1f1b", 3, 4}), file);
  EXPECT_EQ(partition_of(problem).balanced.layout, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(partition_of(problem).tried, 1);
}

TEST(SearchEnd, HasAName) {
  for (const auto& [end, name] : {std::pair(SearchEnd::all_tried, "all_tried"),
                                  {SearchEnd::settled, "settled"},
                                  {SearchEnd::trials, "trials"},
                                  {SearchEnd::time, "time"},
                                  {SearchEnd::not_searched, "not_searched"}}) {
    EXPECT_EQ(search_end_name(end), name);
  }
}

}  // namespace
}  // namespace pipesim
