#include "sim/planner/search.h"

#include <algorithm>
#include <atomic>
#include <limits>
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
  return {least_time(profile, microbatches, costs), least_memory(profile, costs)};
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

class Search {
 public:
  Search(const PlanSpace& space, const PlanSearch& how)
      : space_(space), axes_(space.axes()), how_(how) {}

  PlanResult run() {
    open_cells();
    while (!queue_.empty() && queue_.top().least.time_ns < threshold()) {
      if (how_.progress && !how_.progress(best_.empty() ? nullptr : best_.data(), evaluated_)) {
        is_over_ = true;
        break;
      }
      step();
    }
    for (; !queue_.empty(); queue_.pop()) {
      const std::int64_t points = std::max<std::int64_t>(1, queue_.top().points);
      const bool is_dominated = queue_.top().least.time_ns >= threshold();
      (is_dominated ? result_.counts.dominated : result_.counts.not_reached) += points;
    }
    result_.counts.evaluated = evaluated_;
    result_.best = best_;
    std::ranges::sort(result_.evaluated, {}, &PlanOutcome::index);
    return std::move(result_);
  }

 private:
  // Of a cell: what it breaks, or what its schedules' layouts do.
  struct Cell {
    std::optional<PlanRule> rule;
    std::array<std::int64_t, plan_rule_count> impossible{};
    std::int64_t too_large = 0;
    std::vector<Open> open;
  };

  void open_cells() {
    const std::int64_t size = axes_.cell_size();
    const auto count = static_cast<std::size_t>(size == 0 ? 0 : axes_.size() / size);
    std::vector<Cell> cells(count);
    for_all(count, how_.threads,
            [&](std::size_t i) { cells[i] = open_cell(static_cast<std::int64_t>(i) * size); });
    for (const Cell& cell : cells) {
      if (cell.rule) impossible(*cell.rule) += size;
      for (int rule = 0; rule < plan_rule_count; ++rule) {
        impossible(static_cast<PlanRule>(rule)) += cell.impossible[static_cast<std::size_t>(rule)];
      }
      result_.counts.too_large += cell.too_large;
      for (const Open& one : cell.open) queue_.push(one);
    }
  }

  Cell open_cell(std::int64_t first) {
    Cell cell;
    PlanPoint point = axes_.at(first);
    cell.rule = space_.broken_rule_of_cell(point);
    if (cell.rule) return cell;
    // Of replicas' choices the one that keeps least stands for all, and takes no step.
    std::int64_t points = 0;
    PlanReplicas leanest;
    std::int64_t least_states = never;
    for (const PlanReplicas& replicas : axes_.replicas) {
      if (const auto rule = space_.broken_rule(point, replicas)) {
        cell.impossible[static_cast<std::size_t>(*rule)] += std::ssize(axes_.schedules);
        continue;
      }
      ++points;
      point.replicas = replicas;
      const std::int64_t states = states_of(point);
      if (states >= least_states) continue;
      least_states = states;
      leanest = replicas;
    }
    if (points == 0) return cell;
    point.replicas = leanest;
    const CostModel model = space_.training(point).with_ranks(point.stages);
    const int microbatches = space_.microbatches(point);
    for (std::size_t s = 0; s < axes_.schedules.size(); ++s) {
      point.schedule = axes_.schedules[s];
      if (const auto rule = space_.broken_rule(point, point.schedule)) {
        cell.impossible[static_cast<std::size_t>(*rule)] += points;
        continue;
      }
      const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
      Costs costs = model.costs(shape_of(profile));
      const std::int64_t memory = least_memory(profile, costs);
      if (memory > how_.memory_cap_bytes) {
        cell.too_large += points;
        continue;
      }
      forget_replicas(costs);
      const std::int64_t index = first + static_cast<std::int64_t>(s) * std::ssize(axes_.replicas);
      cell.open.push_back({index, points, {least_time(profile, microbatches, costs), memory}});
    }
    return cell;
  }

  // Bytes that a rank keeps of each parameter, times all that could be shards.
  std::int64_t states_of(const PlanPoint& point) const {
    const Training training = space_.training(point).with_ranks(point.stages).training();
    const std::int64_t all = space_.question().devices;
    const auto part = [&](std::int64_t bytes, bool is_split) {
      return bytes * all / (is_split ? training.shards() : 1);
    };
    const std::int64_t value = bytes_of(training.precision);
    return part(value, training.zero >= 3) + part(training.gradient_bytes, training.zero >= 2) +
           part(value == 4 ? 8 : 12, training.zero >= 1);
  }

  // What any choice of them takes at least.
  static void forget_replicas(Costs& costs) {
    costs.optimizer_ns.clear();
    costs.reduce_gradients_ns.clear();
    costs.tied_gradients.reset();
    costs.gradient_norm.reset();
    for (StageCosts& stage : costs.stages) stage.reduce = {};
  }

  std::int64_t threshold() const { return best_.size() < how_.top ? never : best_.back().time_ns; }

  // What a batch's item came to.
  struct Found {
    std::vector<Open> points;
    std::int64_t too_large = 0;
    std::optional<PlanOutcome> outcome;
  };

  void step() {
    constexpr std::size_t batch_size = 64;
    std::vector<Open> batch;
    while (batch.size() < batch_size && !queue_.empty() &&
           queue_.top().least.time_ns < threshold()) {
      batch.push_back(queue_.top());
      queue_.pop();
    }
    std::vector<Found> found(batch.size());
    for_all(batch.size(), how_.threads, [&](std::size_t i) { found[i] = look_into(batch[i]); });
    for (Found& one : found) {
      for (const Open& point : one.points) queue_.push(point);
      result_.counts.too_large += one.too_large;
      if (one.outcome) add(*one.outcome);
    }
  }

  Found look_into(const Open& open) {
    Found found;
    PlanPoint point = axes_.at(open.index);
    if (open.points == 0) {
      found.outcome = evaluate(space_, point, open.index);
      return found;
    }
    const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
    for (std::size_t r = 0; r < axes_.replicas.size(); ++r) {
      point.replicas = axes_.replicas[r];
      if (space_.broken_rule(point, point.replicas)) continue;
      const CostModel model = space_.training(point).with_ranks(point.stages);
      const Bound least = bound_of(model, profile, space_.microbatches(point));
      if (least.memory_bytes > how_.memory_cap_bytes) {
        ++found.too_large;
      } else {
        found.points.push_back({open.index + static_cast<std::int64_t>(r), 0, least});
      }
    }
    return found;
  }

  void add(const PlanOutcome& outcome) {
    if (outcome.memory_bytes > how_.memory_cap_bytes) {
      ++result_.counts.too_large;
      return;
    }
    ++evaluated_;
    result_.evaluated.push_back(outcome);
    const auto order = [](const PlanOutcome& a, const PlanOutcome& b) {
      return std::tuple(a.time_ns, a.memory_bytes, a.index) <
             std::tuple(b.time_ns, b.memory_bytes, b.index);
    };
    best_.insert(std::ranges::upper_bound(best_, outcome, order), outcome);
    if (best_.size() > how_.top) best_.pop_back();
  }

  std::int64_t& impossible(PlanRule rule) {
    return result_.counts.impossible[static_cast<std::size_t>(rule)];
  }

  const PlanSpace& space_;
  const PlanAxes& axes_;
  const PlanSearch& how_;
  SharedProfiles profiles_;
  std::priority_queue<Open, std::vector<Open>, LaterFirst> queue_;
  std::vector<PlanOutcome> best_;
  std::int64_t evaluated_ = 0;
  bool is_over_ = false;
  PlanResult result_;
};

}  // namespace

std::int64_t PlanCounts::all_impossible() const {
  return std::accumulate(impossible.begin(), impossible.end(), std::int64_t{0});
}

std::int64_t PlanCounts::sum() const {
  return all_impossible() + too_large + dominated + evaluated + not_reached;
}

PlanResult search(const PlanSpace& space, const PlanSearch& how) {
  return Search(space, how).run();
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
