#include "sim/partition/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "sim/partition/cut_costs.h"
#include "sim/partition/peak_states.h"
#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// What a layout is worth; less is better.
struct Score {
  std::int64_t excess_bytes = 0;   // of the rank that lacks most
  std::int64_t bottleneck_ns = 0;  // where that is the objective, else 0
  std::int64_t makespan_ns = 0;
  std::int64_t peak_bytes = 0;

  auto operator<=>(const Score&) const = default;
};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// C(n, k), or `most` where it is more; n and `most` below 2^31.
std::int64_t choices(std::int64_t n, std::int64_t k, std::int64_t most) {
  k = std::min(k, n - k);
  std::int64_t count = 1;
  for (std::int64_t i = 1; i <= k; ++i) {
    count = count * (n - k + i) / i;
    if (count >= most) return most;
  }
  return count;
}

Split split_of(const PartitionProblem& problem, const CutCosts& cut_costs,
               const std::vector<int>& layout, const Budget* budget) {
  Split split;
  split.layout = layout;
  split.costs = problem.costs(layout);
  SimulationOptions options;
  options.transfers = problem.transfers;
  options.budget = budget;
  split.metrics = simulate(problem.schedule, split.costs, options);
  const std::vector<StateBytes> states = split.costs.states(problem.schedule.placement);
  for (std::size_t r = 0; r < states.size(); ++r) {
    split.memory.push_back(
        {states[r], split.metrics.ranks[r].peak_memory, split.costs.reserved_bytes});
  }
  split.bottleneck_ns = cut_costs.cost_of(cuts_of(layout)).ns;
  return split;
}

class PartitionSearch {
 public:
  PartitionSearch(const PartitionProblem& problem, const CutCosts& cut_costs, Objective objective,
                  const SearchLimits& limits)
      : problem_(problem), cut_costs_(cut_costs), objective_(objective), limits_(limits) {}

  // Simulates it beside the trials; nothing where the time is over.
  std::optional<Split> start(const std::vector<int>& layout) {
    std::optional<Split> split = split_in_time(layout);
    if (split && !scores_.contains(layout)) {
      starts_.push_back(layout);
      note(layout, *split);
    }
    return split;
  }

  void run() {
    most_ = tried_ + limits_.trials;
    const auto layers = static_cast<std::int64_t>(problem_.layers.size());
    const auto stages = static_cast<std::int64_t>(problem_.even.size());
    const std::int64_t all = choices(layers - 1, stages - 1, limits_.trials + 1);
    if (all <= limits_.trials) {
      std::vector<int> layout(problem_.even.size(), 1);
      try_all(layout, 0, static_cast<int>(layers - stages));
      if (end_ == SearchEnd::not_searched) end_ = SearchEnd::all_tried;
      return;
    }
    std::ranges::stable_sort(starts_, {}, [&](const auto& layout) { return scores_.at(layout); });
    for (const std::vector<int>& layout : starts_) descend(layout);
    // From elsewhere, where that is not much worse, until it has been of no use for a while.
    std::mt19937_64 random(1);
    constexpr int patience = 300;
    for (int useless = 0; useless < patience && end_ == SearchEnd::not_searched; ++useless) {
      const Score before = best_score_;
      const std::vector<int> layout = kicked_best(random);
      const Score* score = try_one(layout);
      if (score == nullptr || !is_near(*score, before)) continue;
      descend(layout);
      if (best_score_ < before) useless = 0;
    }
    if (end_ == SearchEnd::not_searched) end_ = SearchEnd::settled;
  }

  const Split& best() const { return best_split_; }
  const Score& best_score() const { return best_score_; }
  std::int64_t tried() const { return tried_; }
  SearchEnd end() const { return end_; }

 private:
  // The score, simulated where the layout is new; null where the search has ended.
  const Score* try_one(const std::vector<int>& layout) {
    if (const auto known = scores_.find(layout); known != scores_.end()) return &known->second;
    if (end_ != SearchEnd::not_searched) return nullptr;
    if (tried_ >= most_) {
      end_ = SearchEnd::trials;
      return nullptr;
    }
    const std::optional<Split> split = split_in_time(layout);
    return split ? note(layout, *split) : nullptr;
  }

  bool is_over() {
    if (limits_.budget == nullptr || !limits_.budget->is_over()) return false;
    end_ = SearchEnd::time;
    return true;
  }

  std::optional<Split> split_in_time(const std::vector<int>& layout) {
    if (is_over()) return std::nullopt;
    try {
      return split_of(problem_, cut_costs_, layout, limits_.budget);
    } catch (const Error&) {
      if (!is_over()) throw;
      return std::nullopt;
    }
  }

  // Of a layout that is new.
  const Score* note(const std::vector<int>& layout, const Split& split) {
    const Score score = score_of(split);
    ++tried_;
    if (best_.empty() || score < best_score_) {
      best_ = layout;
      best_split_ = split;
      best_score_ = score;
    }
    if (limits_.progress) limits_.progress(tried_, best_score_.makespan_ns);
    return &scores_.emplace(layout, score).first->second;
  }

  Score score_of(const Split& split) const {
    Score score;
    if (objective_ == Objective::bottleneck) score.bottleneck_ns = split.bottleneck_ns;
    score.makespan_ns = split.metrics.makespan_ns;
    score.peak_bytes = split.peak_memory_bytes();
    if (problem_.memory_cap) {
      score.excess_bytes = std::max<std::int64_t>(0, score.peak_bytes - *problem_.memory_cap);
    }
    return score;
  }

  // Whether it is better, or takes no more than a tenth longer.
  static bool is_near(const Score& score, const Score& best) {
    if (score.excess_bytes != best.excess_bytes) return score < best;
    return score.makespan_ns <= best.makespan_ns + best.makespan_ns / 10;
  }

  // What is busiest is so for every microbatch.
  std::int64_t least_makespan_ns(const std::vector<int>& layout) const {
    return problem_.schedule.microbatches * cut_costs_.cost_of(cuts_of(layout)).ns;
  }

  // Every way to deal `spare` layers to the stages from `stage` on.
  void try_all(std::vector<int>& layout, std::size_t stage, int spare) {
    if (end_ != SearchEnd::not_searched) return;
    if (stage + 1 == layout.size()) {
      layout[stage] += spare;
      try_one(layout);
      layout[stage] -= spare;
      return;
    }
    for (int more = 0; more <= spare; ++more) {
      layout[stage] += more;
      try_all(layout, stage + 1, spare - more);
      layout[stage] -= more;
    }
  }

  // Takes what is better and lies near for as long as there is any.
  void descend(std::vector<int> layout) {
    const Score* score = try_one(layout);
    while (score != nullptr && improve(layout, *score)) score = try_one(layout);
  }

  // Moves layers between stages: to neighbours 1, 2, 4, ..., to others one, nearest first.
  // Takes what is better at once; false where nothing was, or the search has ended.
  bool improve(std::vector<int>& layout, const Score& score) {
    const auto stages = static_cast<int>(layout.size());
    const auto is_better = [&](int from, int to, int layers) {
      if (to < 0 || to >= stages || layout[at(from)] <= layers || is_over()) return false;
      std::vector<int> moved = layout;
      moved[at(from)] -= layers;
      moved[at(to)] += layers;
      if (score.excess_bytes == 0 && least_makespan_ns(moved) > score.makespan_ns) return false;
      const Score* other = try_one(moved);
      if (other == nullptr || !(*other < score)) return false;
      layout = std::move(moved);
      return true;
    };
    const int farthest = std::ranges::max(layout) - 1;
    for (int distance = 1; distance <= farthest; distance *= 2) {
      for (int from = 0; from < stages; ++from) {
        if (is_better(from, from - 1, distance) || is_better(from, from + 1, distance)) return true;
        if (end_ != SearchEnd::not_searched) return false;
      }
    }
    for (int gap = 2; gap < stages; ++gap) {
      for (int from = 0; from < stages; ++from) {
        if (is_better(from, from - gap, 1) || is_better(from, from + gap, 1)) return true;
        if (end_ != SearchEnd::not_searched) return false;
      }
    }
    return false;
  }

  // Of a few that are new, kicked from the best, that of the least bottleneck.
  std::vector<int> kicked_best(std::mt19937_64& random) const {
    constexpr int draws = 4;
    std::vector<int> result = best_;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<int> one = kicked(best_, random);
      if (scores_.contains(one)) continue;
      const std::int64_t ns = cut_costs_.cost_of(cuts_of(one)).ns;
      if (ns >= least) continue;
      least = ns;
      result = std::move(one);
    }
    return result;
  }

  // With a cut or two elsewhere: between their neighbours, or anywhere.
  static std::vector<int> kicked(const std::vector<int>& layout, std::mt19937_64& random) {
    Cuts cuts = cuts_of(layout);
    const auto below = [&](int most) {
      return static_cast<int>(random() % static_cast<std::uint64_t>(most));
    };
    const auto inner = static_cast<int>(layout.size()) - 1;
    for (int kicks = 1 + below(2); kicks > 0 && inner > 0; --kicks) {
      const int cut = 1 + below(inner);
      const bool is_near = below(2) == 0;
      const int least = is_near ? cuts[at(cut) - 1] + 1 : 1;
      const int end = is_near ? cuts[at(cut) + 1] : cuts.back();
      const int place = least + below(end - least);
      if (std::ranges::binary_search(cuts, place)) continue;
      cuts[at(cut)] = place;
      std::ranges::sort(cuts);
    }
    return layout_of(cuts);
  }

  const PartitionProblem& problem_;
  const CutCosts& cut_costs_;
  const Objective objective_;
  const SearchLimits& limits_;
  std::map<std::vector<int>, Score> scores_;
  std::vector<int> best_;
  Split best_split_;
  Score best_score_;
  std::int64_t tried_ = 0;
  std::int64_t most_ = 0;
  std::vector<std::vector<int>> starts_;
  SearchEnd end_ = SearchEnd::not_searched;
};

Error time_error() {
  return work_error("--budget: time ran out before a layout that fits was found; give more");
}

// What each rank needs in a simulation beside its layers' states and activations, such
// as buffers, or has needed in one before.
void raise_reserves(const CutCosts& cut_costs, const Split& split,
                    std::vector<std::int64_t>& reserves) {
  const Cuts cuts = cuts_of(split.layout);
  for (std::size_t r = 0; r < reserves.size(); ++r) {
    const std::int64_t known = cut_costs.memory_bytes(cuts, static_cast<int>(r));
    reserves[r] = std::max(reserves[r], split.memory[r].total() - known);
  }
}

// Why nothing fits: what `split`, which was simulated, lacks. `tried`: how many layouts
// were; absent where that speaks for all.
[[noreturn]] void throw_shortfall(const PartitionProblem& problem, const CutCosts& cut_costs,
                                  const Split& split, const std::optional<std::int64_t>& tried,
                                  const std::function<std::string(int)>& layer_name) {
  const auto fullest = std::ranges::max_element(split.memory, {}, &RankMemory::total);
  const auto rank = static_cast<int>(fullest - split.memory.begin());
  throw input_error(fmt::format(
      "{} into {} per rank: with {} rank {} lacks {}; its largest layer is {}. Give more memory, "
      "more stages or smaller microbatches",
      tried ? fmt::format("none of {} tried fits", plural(*tried, "layout")) : "no layout fits",
      format_bytes(*problem.memory_cap), fmt::join(split.layout, ","), rank,
      format_bytes(fullest->total() - *problem.memory_cap),
      layer_name(cut_costs.largest_layer(cuts_of(split.layout), rank))));
}

}  // namespace

std::int64_t Split::peak_memory_bytes() const {
  std::int64_t most = 0;
  for (const RankMemory& rank : memory) most = std::max(most, rank.total());
  return most;
}

std::string_view search_end_name(SearchEnd end) {
  switch (end) {
    case SearchEnd::all_tried: return "all_tried";
    case SearchEnd::settled: return "settled";
    case SearchEnd::trials: return "trials";
    case SearchEnd::time: return "time";
    case SearchEnd::not_searched: break;
  }
  return "not_searched";
}

BottleneckProblem bottleneck_problem(const PartitionProblem& problem, const Costs& costs_of_even) {
  BottleneckProblem result;
  const Placement& placement = problem.schedule.placement;
  result.placement = placement;
  for (const StageCosts& layer : problem.layers) {
    result.layer_ns.push_back(layer.forward_ns + layer.backward_ns());
    result.state_bytes.push_back(layer.weight_bytes + layer.gradient_bytes + layer.optimizer_bytes);
    result.activation_bytes.push_back(layer.activation_bytes);
    result.residue_bytes.push_back(layer.weight_residue_bytes);
  }
  for (const StageCosts& stage : costs_of_even.stages) {
    result.stage_ns.push_back(stage.messages_ns());
  }
  for (int s = 0; s + 1 < placement.stages(); ++s) {
    const int from = placement.rank_of(s);
    const int to = placement.rank_of(s + 1);
    const Link& there = costs_of_even.link(from, to);
    const Link& back = costs_of_even.link(to, from);
    auto& times = result.transfer_ns.emplace_back();
    for (const StageCosts& one : problem.layers) {
      times.push_back(std::max(costs_of_even.occupied_ns(there, one.output_bytes),
                               costs_of_even.occupied_ns(back, one.output_bytes)));
    }
  }
  result.moments = fullest_moments(problem.schedule);
  return result;
}

Partition find_partition(const PartitionProblem& problem, Objective objective,
                         const SearchLimits& limits,
                         const std::function<std::string(int)>& layer_name) {
  if (problem.schedule.placement.copies() > 1) {
    throw input_error(fmt::format(
        "{}: each stage has two copies, for which the cost of a split is not known; take a "
        "schedule with one copy, and give its --layout",
        problem.schedule.name));
  }
  const auto layers = static_cast<std::int64_t>(problem.layers.size());
  const int stages = problem.schedule.stages();
  const std::string what =
      fmt::format("{} in {}", plural(layers, "layer"), plural(stages, "virtual stage"));
  constexpr std::int64_t max_places = std::int64_t{1} << 25;  // of cuts
  if (layers * stages > max_places) {
    throw input_error(
        fmt::format("{}: more than can be searched, {} layers times stages; merge layers", what,
                    format_count(max_places)));
  }
  constexpr double bytes_of_each = 28;  // the message behind it, twice, and a sweep's state
  check_memory(what, bytes_of_each * static_cast<double>(layers * stages));
  Partition result;
  const Costs costs_of_even = problem.costs(problem.even);
  BottleneckProblem bottleneck = bottleneck_problem(problem, costs_of_even);
  const BottleneckProblem unlimited = bottleneck;
  const CutCosts cut_costs(unlimited);
  const bool takes_bottleneck = objective == Objective::bottleneck;
  PartitionSearch search(problem, cut_costs, objective, limits);
  const std::optional<Split> even = search.start(problem.even);
  if (!even) throw time_error();
  result.even = *even;
  if (problem.given) result.given = search.start(*problem.given);

  // The least bottleneck, where need be with what simulations have needed beside.
  std::vector<std::int64_t> reserves(static_cast<std::size_t>(problem.schedule.ranks()),
                                     costs_of_even.reserved_bytes);
  bool is_least = false;  // of all that fit
  constexpr int max_rounds = 4;
  for (int round = 0; round < max_rounds; ++round) {
    bottleneck.memory_caps.clear();
    for (const std::int64_t reserve : reserves) {
      if (!problem.memory_cap) break;
      bottleneck.memory_caps.push_back(std::max<std::int64_t>(0, *problem.memory_cap - reserve));
    }
    const auto found = find_bottleneck(bottleneck, limits.effort, limits.budget);
    if (const auto* lacking = std::get_if<Shortfall>(&found)) {
      if (round == 0 && lacking->at_least_bytes > 0) {
        throw_shortfall(problem, cut_costs,
                        split_of(problem, cut_costs, lacking->layout, limits.budget), std::nullopt,
                        layer_name);
      }
      if (round == 0) {
        result.bottleneck_at_least_ns =
            std::get<Bottleneck>(find_bottleneck(unlimited, limits.effort, limits.budget))
                .at_least_ns;
      }
      search.start(lacking->layout);
      break;
    }
    const auto& least = std::get<Bottleneck>(found);
    if (round == 0) result.bottleneck_at_least_ns = least.at_least_ns;
    const std::optional<Split> split = search.start(least.layout);
    if (!split) break;
    if (!problem.memory_cap || split->peak_memory_bytes() <= *problem.memory_cap) {
      is_least = round == 0 && search.end() == SearchEnd::not_searched;
      break;
    }
    raise_reserves(cut_costs, *split, reserves);
  }

  if (!takes_bottleneck || !is_least) search.run();
  result.balanced = search.best();
  result.tried = search.tried();
  result.end = search.end();
  if (search.best_score().excess_bytes > 0) {
    if (result.end == SearchEnd::time) throw time_error();
    const bool is_all = result.end == SearchEnd::all_tried;
    throw_shortfall(problem, cut_costs, result.balanced,
                    is_all ? std::nullopt : std::optional(result.tried), layer_name);
  }
  return result;
}

}  // namespace pipesim
