#include "sim/input_pipeline/predict/choose_sharding.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

namespace pipesim {
namespace {

// Whole tables are tried on this many ranks: those that hold the least.
constexpr std::size_t max_places = 4;

class PlanSearch {
 public:
  PlanSearch(const RecommendationModel& model, int ranks, int ranks_per_node,
             const EvaluatePlan& evaluate)
      : model_(model), ranks_(ranks), ranks_per_node_(ranks_per_node), evaluate_(evaluate) {}

  PlanChoice run() {
    const std::vector<std::size_t> order = largest_first();
    PlanChoice best;
    for (const ShardingPlan& start : starts()) {
      const PlanValue value = value_of(start);
      if (best.plan.tables.empty() || value < best.value) best = {start, value, 0};
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::size_t table : order) changed = improve(best, table) || changed;
    }
    best.evaluated = static_cast<std::int64_t>(values_.size());
    return best;
  }

 private:
  std::vector<std::size_t> largest_first() const {
    std::vector<std::size_t> order(model_.tables.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::size_t table) { return model_.tables[table].bytes(); });
    return order;
  }

  bool takes_rows(std::size_t table, int parts) const { return model_.tables[table].rows >= parts; }

  std::vector<ShardingPlan> starts() const {
    std::vector<ShardingPlan> plans{default_sharding(model_, ranks_)};
    ShardingPlan by_rows = plans.front();
    for (std::size_t table = 0; table < by_rows.tables.size(); ++table) {
      if (ranks_ > 1 && takes_rows(table, ranks_)) {
        by_rows.tables[table] = {ShardingType::row_wise, {}};
      }
    }
    plans.push_back(std::move(by_rows));
    return plans;
  }

  // Bytes of all tables but one, by rank.
  std::vector<std::int64_t> held_without(const ShardingPlan& plan, std::size_t table) const {
    std::vector<std::int64_t> held(static_cast<std::size_t>(ranks_), 0);
    for (const TablePiece& piece : pieces_of(plan, model_, ranks_, ranks_per_node_)) {
      if (piece.table == static_cast<int>(table)) continue;
      held[static_cast<std::size_t>(piece.rank)] += piece.numbers() * 4;
    }
    return held;
  }

  std::vector<TableSharding> choices(const ShardingPlan& plan, std::size_t table) const {
    std::vector<TableSharding> all;
    const std::vector<std::int64_t> held = held_without(plan, table);
    std::vector<int> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::vector<int> emptiest = ranks;
    std::ranges::stable_sort(emptiest, {},
                             [&](int rank) { return held[static_cast<std::size_t>(rank)]; });
    if (emptiest.size() > max_places) emptiest.resize(max_places);
    for (const int rank : emptiest) all.push_back({ShardingType::table_wise, {rank}});
    if (ranks_ == 1) return all;
    const std::int64_t width = model_.tables[table].width;
    if (takes_rows(table, ranks_)) all.push_back({ShardingType::row_wise, {}});
    if (width % ranks_ == 0) all.push_back({ShardingType::column_wise, ranks});
    all.push_back({ShardingType::data_parallel, {}});
    if (ranks_ <= ranks_per_node_) return all;
    for (int first = 0; first < ranks_; first += ranks_per_node_) {
      const int count = ranks_of_node(first, ranks_, ranks_per_node_);
      if (takes_rows(table, count)) all.push_back({ShardingType::table_row_wise, {first}});
      if (width % count != 0) continue;
      all.push_back(
          {ShardingType::column_wise, {ranks.begin() + first, ranks.begin() + first + count}});
    }
    return all;
  }

  bool improve(PlanChoice& best, std::size_t table) {
    bool improved = false;
    for (const TableSharding& choice : choices(best.plan, table)) {
      if (choice == best.plan.tables[table]) continue;
      ShardingPlan plan = best.plan;
      plan.tables[table] = choice;
      const PlanValue value = value_of(plan);
      if (value >= best.value) continue;
      best = {std::move(plan), value, 0};
      improved = true;
    }
    return improved;
  }

  PlanValue value_of(const ShardingPlan& plan) {
    std::vector<std::pair<ShardingType, std::vector<int>>> key;
    for (const TableSharding& table : plan.tables) key.emplace_back(table.sharding, table.ranks);
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    return values_.emplace(std::move(key), evaluate_(plan)).first->second;
  }

  const RecommendationModel& model_;
  int ranks_;
  int ranks_per_node_;
  const EvaluatePlan& evaluate_;
  std::map<std::vector<std::pair<ShardingType, std::vector<int>>>, PlanValue> values_;
};

}  // namespace

PlanChoice choose_sharding(const RecommendationModel& model, int ranks, int ranks_per_node,
                           const EvaluatePlan& evaluate) {
  return PlanSearch(model, ranks, ranks_per_node, evaluate).run();
}

}  // namespace pipesim
