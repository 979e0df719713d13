#include "sim/plan/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "sim/engine/collectives.h"
#include "sim/plan/bounds.h"
#include "sim/plan/for_all.h"
#include "sim/request/request.h"
#include "traces/base/error.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

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

// In actions: the costs of a rank, with its links to all others, take as long as many of them.
double work_of(const Family& family, const ScheduleRequest& request) {
  constexpr double actions_a_rank = 100;
  return actions_of(family, request) + actions_a_rank * request.ranks;
}

PipelineShape shape_of(const ScheduleProfile& profile) {
  return {profile.shape.placement, profile.splits_backward, {}};
}

std::int64_t least_memory_of(const ScheduleProfile& profile, const Costs& costs) {
  std::vector<std::int64_t> states;
  for (const StateBytes& rank : costs.states(profile.shape.placement)) {
    states.push_back(rank.total());
  }
  return least_memory(profile, costs, states);
}

// `ends`: as least_time() takes them.
Bound bound_of(const CostModel& model, const ScheduleProfile& profile, int microbatches,
               std::span<const std::int64_t> ends = {}) {
  const Costs costs = model.costs(shape_of(profile));
  return {least_time(profile, microbatches, model.training(), costs, ends),
          least_memory_of(profile, costs)};
}

// Those used last, which threads share.
class SharedSchedules {
 public:
  // Refuses what would not fit into this machine's memory.
  std::shared_ptr<const ScheduleChoice> of(const PlanSpace& space, const PlanPoint& point) {
    const ScheduleRequest request = space.schedule(point);
    const Key key{point.schedule.family, request.ranks, point.schedule.chunks,
                  request.microbatches};
    {
      const std::lock_guard lock(guard_);
      const auto found = std::ranges::find(used_, key, &Entry::first);
      if (found != used_.end()) {
        std::rotate(used_.begin(), found, found + 1);
        return used_.front().second;
      }
    }
    constexpr double large = 1e6;
    constexpr BytesNeeded evaluation_needs{80, 24, 860, 1700};
    if (actions_of(*point.schedule.family, request) > large) {
      check_size(*point.schedule.family, request, evaluation_needs);
    }
    auto schedule = std::make_shared<const ScheduleChoice>(choose_schedule(request));
    const std::lock_guard lock(guard_);
    used_.emplace(used_.begin(), key, schedule);
    constexpr std::size_t most = 16;
    constexpr std::int64_t max_actions = std::int64_t{1} << 22;
    std::int64_t actions = 0;
    for (const Entry& entry : used_) actions += entry.second->schedule.actions.size();
    while (used_.size() > most || (actions > max_actions && !used_.empty())) {
      actions -= used_.back().second->schedule.actions.size();
      used_.pop_back();
    }
    return schedule;
  }

 private:
  using Key = std::tuple<const Family*, int, int, int>;
  using Entry = std::pair<Key, std::shared_ptr<const ScheduleChoice>>;

  std::mutex guard_;
  std::vector<Entry> used_;  // the last first
};

// Nothing where what replicas exchange has more parts than the limits allow.
std::optional<PlanOutcome> evaluate(const PlanSpace& space, const PlanPoint& point,
                                    std::int64_t index, const ScheduleChoice& schedule,
                                    const PlanLimits& limits) {
  PredictionRequest request;
  request.schedule = schedule;
  request.costs.costs = space.training(point);
  PreparedPrediction prepared = prepare(std::move(request));
  const std::int64_t parts = count_parts(prepared.choice.schedule, prepared.costs);
  if (prepared.choice.schedule.actions.size() + parts > limits.max_actions) return std::nullopt;
  constexpr std::int64_t many = 1'000'000;
  constexpr double bytes_a_part = 100;
  if (parts > many) {
    check_memory(plural(parts, "part") + " of what replicas exchange",
                 static_cast<double>(parts) * bytes_a_part);
  }
  prepared.options.budget = limits.budget;
  const Prediction prediction = prepared.predict();
  return PlanOutcome{index, prediction.metrics.makespan_ns, prediction.peak_memory_bytes()};
}

// Points of a cell that have their schedule in common, or one of them.
struct Open {
  std::int64_t index = 0;   // of the first, or of the point
  std::int64_t points = 0;  // that break no rule; 0: one point by itself
  Bound least;
  bool is_tight = false;  // bounded by where its schedule's ranks end
};
// The smaller the better. What has at least a key is no better than what has it.
using Key = std::pair<std::int64_t, std::int64_t>;

Key key_of(PlanAim aim, std::int64_t time_ns, std::int64_t memory_bytes) {
  return aim == PlanAim::time ? Key(time_ns, memory_bytes) : Key(memory_bytes, time_ns);
}

Key key_of(PlanAim aim, const PlanOutcome& outcome) {
  return key_of(aim, outcome.time_ns, outcome.memory_bytes);
}

struct WorseFirst {
  PlanAim aim;

  Key key(const Open& one) const { return key_of(aim, one.least.time_ns, one.least.memory_bytes); }
  bool operator()(const Open& a, const Open& b) const {
    return std::pair(key(a), a.index) > std::pair(key(b), b.index);
  }
};

std::int64_t at_least_one(std::int64_t points) { return std::max<std::int64_t>(1, points); }

}  // namespace

class LayoutPlanner::Impl {
 public:
  Impl(const PlanSpace& space, const PlanLimits& limits)
      : space_(space), axes_(space.axes()), limits_(limits) {
    open_cells();
  }

  PlanResult best(const PlanSearch& how) {
    PlanResult result;
    result.counts.impossible = impossible_;
    result.counts.dominated = repeated_;
    result.counts.not_reached = not_opened_;
    const WorseFirst order{how.aim};
    Queue queue(order);
    const auto open = [&](const Open& one) {
      if (one.least.memory_bytes > how.memory_cap_bytes) {
        result.counts.too_large += at_least_one(one.points);
      } else {
        queue.push(one);
      }
    };
    for (const Open& one : schedules_) open(one);
    // Of what splits work alike only the best counts.
    std::map<std::int64_t, Key> best_of_split;
    const auto may_be_among_the_best = [&](const Open& one) {
      const Key key = order.key(one);
      return key.first < how.below &&
             (result.best.size() < how.top || key < key_of(how.aim, result.best.back()));
    };
    while (!queue.empty() && may_be_among_the_best(queue.top())) {
      if (how.progress) {
        how.progress(result.best.empty() ? nullptr : result.best.data(), result.counts.evaluated);
      }
      if (limits_.are_over()) break;
      // As many at once whatever the threads.
      constexpr std::size_t batch_size = 64;
      std::vector<Open> batch;
      while (batch.size() < batch_size && !queue.empty() && may_be_among_the_best(queue.top())) {
        const auto own = best_of_split.find(axes_.split_of(queue.top().index));
        if (own != best_of_split.end() && order.key(queue.top()) >= own->second) {
          result.counts.dominated += at_least_one(queue.top().points);
        } else if (is_beyond_limits(axes_.at(queue.top().index))) {
          result.counts.not_reached += at_least_one(queue.top().points);
        } else {
          batch.push_back(queue.top());
        }
        queue.pop();
      }
      look_into(batch);
      for (const Open& one : batch) {
        if (!is_known(one)) {
          result.counts.not_reached += at_least_one(one.points);
        } else if (one.points > 0) {
          for (const Open& point : points_.at(one.index)) open(point);
        } else if (!one.is_tight) {
          queue.push({one.index, 0, tight_.at(one.index), true});
        } else {
          const PlanOutcome& outcome = outcomes_.at(one.index);
          add(outcome, how, result);
          if (outcome.memory_bytes > how.memory_cap_bytes) continue;
          const Key key = key_of(how.aim, outcome);
          const auto [own, is_new] = best_of_split.emplace(axes_.split_of(one.index), key);
          if (!is_new) own->second = std::min(own->second, key);
        }
      }
    }
    for (; !queue.empty(); queue.pop()) {
      const bool is_dominated = !may_be_among_the_best(queue.top());
      (is_dominated ? result.counts.dominated : result.counts.not_reached) +=
          at_least_one(queue.top().points);
    }
    std::ranges::sort(result.evaluated, {}, &PlanOutcome::index);
    return result;
  }

 private:
  using Queue = std::priority_queue<Open, std::vector<Open>, WorseFirst>;

  // What a cell's points break, or what is left of them.
  struct Cell {
    std::array<std::int64_t, plan_rule_count> impossible{};
    std::int64_t repeated = 0;
    std::int64_t not_opened = 0;
    std::vector<Open> schedules;

    std::int64_t& broken(PlanRule rule) { return impossible[static_cast<std::size_t>(rule)]; }
  };

  // What schedules that place and split stages alike have in common.
  struct CellCosts {
    Placement placement;
    bool splits_backward;
    Costs costs;
    std::vector<std::int64_t> states;
  };
  static bool has_shape(const CellCosts& costs, const ScheduleProfile& profile) {
    return costs.splits_backward == profile.splits_backward &&
           costs.placement == profile.shape.placement;
  }

  void open_cells() {
    const std::int64_t size = axes_.cell_size();
    const std::int64_t count = axes_.size() / std::max<std::int64_t>(1, size);
    // From all over the space, so that the first are a sample of it.
    std::int64_t step = count * 5 / 8 + 1;
    while (std::gcd(step, count) != 1) ++step;
    constexpr std::int64_t cells_at_once = 256;
    for (std::int64_t begin = 0; begin < count; begin += cells_at_once) {
      const std::int64_t left = count - begin;
      if (limits_.is_to_evaluate(!schedules_.empty())) {
        not_opened_ += left * size;
        return;
      }
      std::vector<Cell> cells(static_cast<std::size_t>(std::min(cells_at_once, left)));
      for_all(cells.size(), limits_.threads, [&](std::size_t i) {
        const std::int64_t first = (begin + static_cast<std::int64_t>(i)) * step % count * size;
        if (limits_.allow([&] { cells[i] = open_cell(first); })) return;
        cells[i] = {};
        cells[i].not_opened = size;
      });
      for (const Cell& cell : cells) {
        for (std::size_t rule = 0; rule < impossible_.size(); ++rule) {
          impossible_[rule] += cell.impossible[rule];
        }
        repeated_ += cell.repeated;
        not_opened_ += cell.not_opened;
        schedules_.insert(schedules_.end(), cell.schedules.begin(), cell.schedules.end());
      }
    }
  }

  // Throws where the time is over.
  Cell open_cell(std::int64_t first) {
    Cell cell;
    PlanPoint point = axes_.at(first);
    if (const auto rule = space_.broken_rule_of_cell(point)) {
      cell.broken(*rule) = axes_.cell_size();
      return cell;
    }
    // Replicas that exchange and split nothing stand for all choices, but for what ranks keep.
    std::vector<Training> choices;
    std::int64_t repeats = 0;
    for (const PlanReplicas& replicas : axes_.replicas) {
      if (const auto rule = space_.broken_rule(point, replicas)) {
        cell.broken(*rule) += std::ssize(axes_.schedules);
        continue;
      }
      if (space_.repeats(point, replicas)) {
        ++repeats;
        continue;
      }
      point.replicas = replicas;
      choices.push_back(space_.training(point).training_with_ranks(point.stages));
    }
    if (choices.empty()) return cell;  // what repeats repeats one of them
    const std::int64_t points = std::ssize(choices);
    point.replicas = {};
    const CostModel model = space_.training(point).with_ranks(point.stages);
    std::vector<CellCosts> found;
    for (std::size_t s = 0; s < axes_.schedules.size(); ++s) {
      point.schedule = axes_.schedules[s];
      if (const auto rule = space_.broken_rule(point, point.schedule)) {
        cell.broken(*rule) += points + repeats;
        continue;
      }
      cell.repeated += repeats;
      if (space_.repeats(point) || space_.repeats(point, point.schedule)) {
        cell.repeated += points;
        continue;
      }
      if (limits_.budget != nullptr) limits_.budget->check();
      const ScheduleRequest request = space_.schedule(point);
      if (work_of(*point.schedule.family, ScheduleProfiles::few_of(request)) > max_actions()) {
        cell.not_opened += points;
        continue;
      }
      const ScheduleProfile& profile = profiles_.of(*point.schedule.family, request);
      auto own = std::ranges::find_if(
          found, [&](const CellCosts& one) { return has_shape(one, profile); });
      if (own == found.end()) {
        const Costs costs = model.costs(shape_of(profile));
        const auto states = costs.states(profile.shape.placement);
        own = found.insert(own, {profile.shape.placement, profile.splits_backward,
                                 without_replicas(costs), least_states(states, choices)});
      }
      cell.schedules.push_back(
          {first + static_cast<std::int64_t>(s) * std::ssize(axes_.replicas),
           points,
           {least_time(profile, space_.microbatches(point), model.training(), own->costs),
            least_memory(profile, own->costs, own->states)}});
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
          const int shards = std::max(choice.shards(), choice.expert_shards());
          return choice.zero >= zero ? bytes / shards : bytes;
        };
        own = std::min(own,
                       part(rank.weights, 3) + part(rank.gradients, 2) + part(rank.optimizer, 1));
      }
    }
    return least;
  }

  double max_actions() const { return static_cast<double>(limits_.max_actions); }
  bool is_beyond_limits(const PlanPoint& point) const {
    return work_of(*point.schedule.family, space_.schedule(point)) > max_actions();
  }

  bool is_known(const Open& one) const {
    if (one.points > 0) return points_.contains(one.index);
    return one.is_tight ? outcomes_.contains(one.index) : tight_.contains(one.index);
  }

  // Finds, as long as there is time, what is not known yet: the points of those that stand for
  // several, the tight bounds of points, and the outcomes of those that have them.
  void look_into(const std::vector<Open>& batch) {
    std::vector<std::int64_t> schedules;  // whose ends are needed
    std::vector<Open> unknown;
    for (const Open& one : batch) {
      if (is_known(one)) continue;
      unknown.push_back(one);
      if (one.points == 0 && !one.is_tight) schedules.push_back(schedule_of(one.index));
    }
    std::ranges::sort(schedules);
    schedules.erase(std::unique(schedules.begin(), schedules.end()), schedules.end());
    std::erase_if(schedules, [this](std::int64_t first) { return ends_.contains(first); });
    std::vector<std::vector<std::int64_t>> ends(schedules.size());
    for_all(schedules.size(), limits_.threads,
            [&](std::size_t i) { limits_.allow([&] { ends[i] = ends_of(schedules[i]); }); });
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      if (!ends[i].empty()) ends_[schedules[i]] = std::move(ends[i]);
    }

    struct Found {
      bool is_done = false;
      std::vector<Open> points;
      Bound tight;
      std::optional<PlanOutcome> outcome;
    };
    std::vector<Found> found(unknown.size());
    for_all(unknown.size(), limits_.threads, [&](std::size_t i) {
      const Open& one = unknown[i];
      found[i].is_done = limits_.allow([&] {
        if (one.points > 0) {
          found[i].points = points_of(one.index);
        } else if (!one.is_tight) {
          found[i].tight = bound(axes_.at(one.index), ends_.at(schedule_of(one.index)));
        } else {
          const PlanPoint point = axes_.at(one.index);
          found[i].outcome =
              evaluate(space_, point, one.index, *shared_schedules_.of(space_, point), limits_);
        }
      });
    });
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const Open& one = unknown[i];
      if (!found[i].is_done) continue;
      if (one.points > 0) {
        points_[one.index] = std::move(found[i].points);
      } else if (!one.is_tight) {
        tight_[one.index] = found[i].tight;
      } else {
        if (found[i].outcome) outcomes_[one.index] = *found[i].outcome;
      }
    }
  }

  // The first of the points that differ in what replicas do alone.
  std::int64_t schedule_of(std::int64_t index) const {
    return index - index % std::ssize(axes_.replicas);
  }

  std::vector<std::int64_t> ends_of(std::int64_t first) {
    PlanPoint point = axes_.at(first);
    point.replicas = {};
    const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
    const CostModel model = space_.training(point).with_ranks(point.stages);
    return least_ends(shared_schedules_.of(space_, point)->schedule,
                      model.costs(shape_of(profile)));
  }

  std::vector<Open> points_of(std::int64_t first) {
    std::vector<Open> points;
    PlanPoint point = axes_.at(first);
    for (std::size_t r = 0; r < axes_.replicas.size(); ++r) {
      point.replicas = axes_.replicas[r];
      if (space_.broken_rule(point, point.replicas)) continue;
      if (space_.repeats(point, point.replicas)) continue;
      points.push_back({first + static_cast<std::int64_t>(r), 0, bound(point)});
    }
    return points;
  }

  Bound bound(const PlanPoint& point, std::span<const std::int64_t> ends = {}) {
    const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
    const CostModel model = space_.training(point).with_ranks(point.stages);
    return bound_of(model, profile, space_.microbatches(point), ends);
  }

  void add(const PlanOutcome& outcome, const PlanSearch& how, PlanResult& result) const {
    if (outcome.memory_bytes > how.memory_cap_bytes) {
      ++result.counts.too_large;
      return;
    }
    ++result.counts.evaluated;
    result.evaluated.push_back(outcome);
    if (key_of(how.aim, outcome).first >= how.below) return;
    const auto order = [&](const PlanOutcome& a, const PlanOutcome& b) {
      return std::pair(key_of(how.aim, a), a.index) < std::pair(key_of(how.aim, b), b.index);
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
  PlanLimits limits_;
  SharedProfiles profiles_;
  SharedSchedules shared_schedules_;
  std::array<std::int64_t, plan_rule_count> impossible_{};
  std::int64_t repeated_ = 0;  // of choices that others stand for
  std::int64_t not_opened_ = 0;
  std::vector<Open> schedules_;
  std::map<std::int64_t, std::vector<Open>> points_;  // of what stands for several, by its index
  std::map<std::int64_t, std::vector<std::int64_t>> ends_;  // by schedule_of()
  std::map<std::int64_t, Bound> tight_;
  std::map<std::int64_t, PlanOutcome> outcomes_;
};

bool PlanLimits::is_to_evaluate(bool has_some) const {
  return budget != nullptr && (has_some ? budget->is_half_over() : budget->is_over());
}

bool PlanLimits::allow(const std::function<void()>& work) const {
  if (are_over()) return false;
  try {
    work();
  } catch (const Error&) {
    if (!are_over()) throw;
    return false;
  }
  return true;
}

LayoutPlanner::LayoutPlanner(const PlanSpace& space, const PlanLimits& limits)
    : impl_(std::make_unique<Impl>(space, limits)) {}
LayoutPlanner::~LayoutPlanner() = default;

PlanResult LayoutPlanner::best(const PlanSearch& how) { return impl_->best(how); }

PlanCounts& PlanCounts::operator+=(const PlanCounts& other) {
  for (std::size_t rule = 0; rule < impossible.size(); ++rule) {
    impossible[rule] += other.impossible[rule];
  }
  too_large += other.too_large;
  dominated += other.dominated;
  evaluated += other.evaluated;
  not_reached += other.not_reached;
  return *this;
}

std::int64_t PlanCounts::all_impossible() const {
  return std::accumulate(impossible.begin(), impossible.end(), std::int64_t{0});
}

std::int64_t PlanCounts::sum() const {
  return all_impossible() + too_large + dominated + evaluated + not_reached;
}

class PointCertifier::Impl {
 public:
  Impl(const PlanSpace& space, const PlanLimits& limits) : space_(space), limits_(limits) {}

  PlanCertificate certify(const PlanPoint& point, std::int64_t cap_bytes) {
    PlanCertificate certificate;
    certificate.rule = space_.broken_rule(point);
    if (certificate.rule) return certificate;
    limits_.allow([&] { evaluate_point(point, cap_bytes, certificate); });
    return certificate;
  }

 private:
  void evaluate_point(const PlanPoint& point, std::int64_t cap_bytes,
                      PlanCertificate& certificate) {
    const double work = work_of(*point.schedule.family, space_.schedule(point));
    if (work > static_cast<double>(limits_.max_actions)) return;
    const ScheduleProfile& profile = profiles_.of(*point.schedule.family, space_.schedule(point));
    const CostModel model = space_.training(point).with_ranks(point.stages);
    const Costs costs = model.costs(shape_of(profile));
    certificate.least_memory_bytes = least_memory_of(profile, costs);
    if (certificate.least_memory_bytes > cap_bytes) return;
    const auto schedule = schedules_.of(space_, point);
    certificate.least_time_ns = least_time(profile, space_.microbatches(point), model.training(),
                                           costs, least_ends(schedule->schedule, costs));
    certificate.outcome = evaluate(space_, point, 0, *schedule, limits_);
  }

  const PlanSpace& space_;
  PlanLimits limits_;
  ScheduleProfiles profiles_;
  SharedSchedules schedules_;
};

PointCertifier::PointCertifier(const PlanSpace& space, const PlanLimits& limits)
    : impl_(std::make_unique<Impl>(space, limits)) {}
PointCertifier::~PointCertifier() = default;

PlanCertificate PointCertifier::certify(const PlanPoint& point, std::int64_t cap_bytes) {
  return impl_->certify(point, cap_bytes);
}

}  // namespace pipesim
