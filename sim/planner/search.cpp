#include "sim/planner/search.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <queue>
#include <thread>
#include <tuple>
#include <utility>

#include "sim/planner/bounds.h"
#include "sim/request/request.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// Does all of 0 .. count - 1, in any order. The first error of the lowest number is thrown.
void for_all(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::size_t failed_at = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < std::min<int>(threads, static_cast<int>(count)); ++t)
    others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

struct Bound {
  std::int64_t time_ns = 0;
  std::int64_t memory_bytes = 0;
};

// Profiles that threads share.
class SharedProfiles {
 public:
  const ScheduleProfile& of(const Family& family, const ScheduleRequest& request) {
    const std::lock_guard lock(guard_);
    return profiles_.of(family, request);
  }

 private:
  std::mutex guard_;
  ScheduleProfiles profiles_;
};

PipelineShape shape_of(const ScheduleProfile& profile) {
  return {profile.shape.placement, profile.splits_backward, {}};
}

Bound bound_of(const CostModel& model, const ScheduleProfile& profile, int microbatches) {
  const Costs costs = model.costs(shape_of(profile));
  std::vector<std::int64_t> states;
  for (const StateBytes& rank : costs.states(profile.shape.placement)) {
    states.push_back(rank.total());
  }
  return {least_time(profile, microbatches, model.training(), costs),
          least_memory(profile, costs, states)};
}

PlanOutcome evaluate(const PlanSpace& space, const PlanPoint& point, std::int64_t index) {
  PredictionRequest request;
  request.schedule = choose_schedule(space.schedule(point));
  request.costs.costs = space.training(point);
  const Prediction prediction = prepare(std::move(request)).predict();
  return {index, prediction.metrics.makespan_ns, prediction.peak_memory_bytes()};
}

// Points of a cell that have their schedule in common, or one of them.
struct Open {
  std::int64_t index = 0;   // of the first, or of the point
  std::int64_t points = 0;  // that break no rule; 0: one point by itself
  Bound least;
};
struct LaterFirst {
  bool operator()(const Open& a, const Open& b) const {
    return std::pair(a.least.time_ns, a.index) > std::pair(b.least.time_ns, b.index);
  }
};

std::int64_t at_least_one(std::int64_t points) { return std::max<std::int64_t>(1, points); }

}  // namespace

class LayoutPlanner::Impl {
 public:
  Impl(const PlanSpace& space, int threads)
      : space_(space), axes_(space.axes()), threads_(threads) {
    open_cells();
  }

  PlanResult best(const PlanSearch& how) {
    PlanResult result;
    result.counts.impossible = impossible_;
    Queue queue;
    const auto open = [&](const Open& one) {
      if (one.least.memory_bytes > how.memory_cap_bytes) {
        result.counts.too_large += at_least_one(one.points);
      } else {
        queue.push(one);
      }
    };
    for (const Open& one : schedules_) open(one);
    // Of what splits work alike only the fastest counts.
    std::map<std::int64_t, std::int64_t> best_of_split;
    const auto threshold = [&] {
      return result.best.size() < how.top ? never : result.best.back().time_ns;
    };
    while (!queue.empty() && queue.top().least.time_ns < threshold()) {
      if (how.progress && !how.progress(result.best.empty() ? nullptr : result.best.data(),
                                        result.counts.evaluated)) {
        break;
      }
      // As many at once whatever the threads.
      constexpr std::size_t batch_size = 64;
      std::vector<Open> batch;
      while (batch.size() < batch_size && !queue.empty() &&
             queue.top().least.time_ns < threshold()) {
        const auto own = best_of_split.find(axes_.split_of(queue.top().index));
        if (own != best_of_split.end() && queue.top().least.time_ns >= own->second) {
          result.counts.dominated += at_least_one(queue.top().points);
        } else {
          batch.push_back(queue.top());
        }
        queue.pop();
      }
      look_into(batch);
      for (const Open& one : batch) {
        if (one.points == 0) {
          const PlanOutcome& outcome = outcomes_.at(one.index);
          add(outcome, how, result);
          if (outcome.memory_bytes > how.memory_cap_bytes) continue;
          const auto [own, is_new] =
              best_of_split.emplace(axes_.split_of(one.index), outcome.time_ns);
          if (!is_new) own->second = std::min(own->second, outcome.time_ns);
        } else {
          for (const Open& point : points_.at(one.index)) open(point);
        }
      }
    }
    for (; !queue.empty(); queue.pop()) {
      const bool is_dominated = queue.top().least.time_ns >= threshold();
      (is_dominated ? result.counts.dominated : result.counts.not_reached) +=
          at_least_one(queue.top().points);
    }
    std::ranges::sort(result.evaluated, {}, &PlanOutcome::index);
    return result;
  }

 private:
  using Queue = std::priority_queue<Open, std::vector<Open>, LaterFirst>;

  // What a cell's points break, or what is left of them.
  struct Cell {
    std::array<std::int64_t, plan_rule_count> impossible{};
    std::vector<Open> schedules;

    std::int64_t& broken(PlanRule rule) { return impossible[static_cast<std::size_t>(rule)]; }
  };

  void open_cells() {
    const std::int64_t size = axes_.cell_size();
    std::vector<Cell> cells(static_cast<std::size_t>(axes_.size() / size));
    for_all(cells.size(), threads_,
            [&](std::size_t i) { cells[i] = open_cell(static_cast<std::int64_t>(i) * size); });
    for (const Cell& cell : cells) {
      for (std::size_t rule = 0; rule < impossible_.size(); ++rule) {
        impossible_[rule] += cell.impossible[rule];
      }
      schedules_.insert(schedules_.end(), cell.schedules.begin(), cell.schedules.end());
    }
  }

  Cell open_cell(std::int64_t first) {
    Cell cell;
    PlanPoint point = axes_.at(first);
    if (const auto rule = space_.broken_rule_of_cell(point)) {
      cell.broken(*rule) = axes_.cell_size();
      return cell;
    }
    // Replicas that exchange and split nothing stand for all choices, but for what ranks keep.
    std::vector<Training> choices;
    for (const PlanReplicas& replicas : axes_.replicas) {
      if (const auto rule = space_.broken_rule(point, replicas)) {
        cell.broken(*rule) += std::ssize(axes_.schedules);
        continue;
      }
      point.replicas = replicas;
      choices.push_back(space_.training(point).with_ranks(point.stages).training());
    }
    if (choices.empty()) return cell;
    const std::int64_t points = std::ssize(choices);
    point.replicas = {};
    const CostModel model = space_.training(point).with_ranks(point.stages);
    for (std::size_t s = 0; s < axes_.schedules.size(); ++s) {
      point.schedule = axes_.schedules[s];
      if (const auto rule = space_.broken_rule(point, point.schedule)) {
        cell.broken(*rule) += points;
        continue;
      }
      const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
      Costs costs = model.costs(shape_of(profile));
      const std::int64_t memory = least_memory(
          profile, costs, least_states(costs.states(profile.shape.placement), choices));
      forget_replicas(costs);
      cell.schedules.push_back(
          {first + static_cast<std::int64_t>(s) * std::ssize(axes_.replicas),
           points,
           {least_time(profile, space_.microbatches(point), model.training(), costs), memory}});
    }
    return cell;
  }

  // What ranks keep by the choice that keeps least, of what they keep where nothing is split.
  static std::vector<std::int64_t> least_states(const std::vector<StateBytes>& whole,
                                                const std::vector<Training>& choices) {
    std::vector<std::int64_t> least;
    for (const StateBytes& rank : whole) {
      std::int64_t& own = least.emplace_back(never);
      for (const Training& choice : choices) {
        const auto part = [&](std::int64_t bytes, int zero) {
          return choice.zero >= zero ? bytes / choice.shards() : bytes;
        };
        own = std::min(own,
                       part(rank.weights, 3) + part(rank.gradients, 2) + part(rank.optimizer, 1));
      }
    }
    return least;
  }

  // What any choice of them takes at least.
  static void forget_replicas(Costs& costs) {
    costs.optimizer_ns.clear();
    costs.reduce_gradients_ns.clear();
    costs.tied_gradients.reset();
    costs.gradient_norm.reset();
    for (StageCosts& stage : costs.stages) stage.reduce = stage.unshard = {};
  }

  // Finds the points of those that stand for several, and the outcomes of the others.
  void look_into(const std::vector<Open>& batch) {
    struct Found {
      std::vector<Open> points;
      PlanOutcome outcome;
    };
    std::vector<Found> found(batch.size());
    const auto is_known = [&](const Open& one) {
      return one.points == 0 ? outcomes_.contains(one.index) : points_.contains(one.index);
    };
    for_all(batch.size(), threads_, [&](std::size_t i) {
      const Open& one = batch[i];
      if (is_known(one)) return;
      if (one.points == 0) {
        found[i].outcome = evaluate(space_, axes_.at(one.index), one.index);
      } else {
        found[i].points = points_of(one.index);
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (is_known(batch[i])) continue;
      if (batch[i].points == 0) {
        outcomes_[batch[i].index] = found[i].outcome;
      } else {
        points_[batch[i].index] = std::move(found[i].points);
      }
    }
  }

  std::vector<Open> points_of(std::int64_t first) {
    std::vector<Open> points;
    PlanPoint point = axes_.at(first);
    const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
    for (std::size_t r = 0; r < axes_.replicas.size(); ++r) {
      point.replicas = axes_.replicas[r];
      if (space_.broken_rule(point, point.replicas)) continue;
      const CostModel model = space_.training(point).with_ranks(point.stages);
      points.push_back({first + static_cast<std::int64_t>(r), 0,
                        bound_of(model, profile, space_.microbatches(point))});
    }
    return points;
  }

  void add(const PlanOutcome& outcome, const PlanSearch& how, PlanResult& result) const {
    if (outcome.memory_bytes > how.memory_cap_bytes) {
      ++result.counts.too_large;
      return;
    }
    ++result.counts.evaluated;
    result.evaluated.push_back(outcome);
    const auto order = [](const PlanOutcome& a, const PlanOutcome& b) {
      return std::tuple(a.time_ns, a.memory_bytes, a.index) <
             std::tuple(b.time_ns, b.memory_bytes, b.index);
    };
    const auto alike =
        std::ranges::find(result.best, axes_.split_of(outcome.index),
                          [&](const PlanOutcome& one) { return axes_.split_of(one.index); });
    if (alike != result.best.end()) {
      if (!order(outcome, *alike)) return;
      result.best.erase(alike);
    }
    result.best.insert(std::ranges::upper_bound(result.best, outcome, order), outcome);
    if (result.best.size() > how.top) result.best.pop_back();
  }

  const PlanSpace& space_;
  const PlanAxes& axes_;
  int threads_;
  SharedProfiles profiles_;
  std::array<std::int64_t, plan_rule_count> impossible_{};
  std::vector<Open> schedules_;
  std::map<std::int64_t, std::vector<Open>> points_;  // of what stands for several, by its index
  std::map<std::int64_t, PlanOutcome> outcomes_;
};

LayoutPlanner::LayoutPlanner(const PlanSpace& space, int threads)
    : impl_(std::make_unique<Impl>(space, threads)) {}
LayoutPlanner::~LayoutPlanner() = default;

PlanResult LayoutPlanner::best(const PlanSearch& how) { return impl_->best(how); }

std::int64_t PlanCounts::all_impossible() const {
  return std::accumulate(impossible.begin(), impossible.end(), std::int64_t{0});
}

std::int64_t PlanCounts::sum() const {
  return all_impossible() + too_large + dominated + evaluated + not_reached;
}

PlanCertificate certify(const PlanSpace& space, const PlanPoint& point) {
  PlanCertificate certificate;
  certificate.rule = space.broken_rule(point);
  if (certificate.rule) return certificate;
  ScheduleProfiles profiles;
  const ScheduleProfile& profile = profiles.of(*point.schedule.family, space.schedule(point));
  const CostModel model = space.training(point).with_ranks(point.stages);
  const Bound least = bound_of(model, profile, space.microbatches(point));
  certificate.least_time_ns = least.time_ns;
  certificate.least_memory_bytes = least.memory_bytes;
  certificate.outcome = evaluate(space, point, 0);
  return certificate;
}

}  // namespace pipesim
