// The best layouts of a space, with proof for all others.
//
// Cells' schedules are bounded first, then examined in the order of their lower bounds on time:
// layouts of one that may still be among the best are bounded individually, and those that may
// still be are evaluated exactly. Work is divided into batches whose content, and so the result,
// does not depend on the number of threads. A LayoutPlanner keeps its findings for the next
// question; one thread calls it, several work for it, and its space must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "sim/plan/space.h"
#include "traces/base/budget.h"

namespace pipesim {

// As `pipesim` predicts it.
struct PlanOutcome {
  std::int64_t index = 0;  // of the point
  std::int64_t time_ns = 0;
  std::int64_t memory_bytes = 0;  // of the fullest rank
};

// How each point of a space ended; the counts sum up to its size.
struct PlanCounts {
  std::array<std::int64_t, plan_rule_count> impossible{};  // by the first rule broken
  std::int64_t too_large = 0;    // needs at least more memory than there is
  std::int64_t dominated = 0;    // at least no better than the last of the best, or than one that
                                 // splits work alike, or the same as another
  std::int64_t evaluated = 0;    // exactly
  std::int64_t not_reached = 0;  // the time was over, or would not have done

  PlanCounts& operator+=(const PlanCounts& other);
  std::int64_t all_impossible() const;
  std::int64_t sum() const;
};

struct PlanResult {
  // The best that fit, as many as asked for, of each split of work the best alone: tensor
  // parallelism, stages, micro-batch and schedule.
  std::vector<PlanOutcome> best;
  std::vector<PlanOutcome> evaluated;  // all, by index
  PlanCounts counts;
};

// What to minimize; ties go to the other one.
enum class PlanAim : std::uint8_t { time, memory };

struct PlanSearch {
  std::int64_t memory_cap_bytes = 0;
  std::size_t top = 10;
  PlanAim aim = PlanAim::time;
  // Only those faster than that, or that hold less, are looked for.
  std::int64_t below = std::numeric_limits<std::int64_t>::max();
  // Told, between batches, of the best so far and how many were evaluated.
  std::function<void(const PlanOutcome* best, std::int64_t evaluated)> progress;
};

// What may be spent on questions. A search ends with what it has found when the time is over.
struct PlanLimits {
  int threads = 1;
  const Budget* budget = nullptr;  // null: it takes as long as it takes; outlives the search
  // Of a schedule: layouts whose schedules have more are not evaluated.
  std::int64_t max_actions = std::numeric_limits<std::int64_t>::max();

  bool are_over() const { return budget != nullptr && budget->is_over(); }
  // Whether to evaluate what is there, if anything, instead of looking for more.
  bool is_to_evaluate(bool has_some) const;
  // Does it unless the time is over before its end; whether it did.
  bool allow(const std::function<void()>& work) const;
};

class LayoutPlanner {
 public:
  // Bounds the schedules of all cells.
  LayoutPlanner(const PlanSpace& space, const PlanLimits& limits);
  ~LayoutPlanner();

  PlanResult best(const PlanSearch& how);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The end of a single point: the rule it breaks, or its bounds, and its outcome.
struct PlanCertificate {
  std::optional<PlanRule> rule;
  std::int64_t least_time_ns = 0;
  std::int64_t least_memory_bytes = 0;
  // Where no rule is broken, the least memory fits, and the limits allow its evaluation.
  std::optional<PlanOutcome> outcome;
};

// Certifies points one after the other; keeps schedules for the next. Of one thread; its space
// outlives it.
class PointCertifier {
 public:
  explicit PointCertifier(const PlanSpace& space, const PlanLimits& limits = {});
  ~PointCertifier();

  PlanCertificate certify(const PlanPoint& point, std::int64_t cap_bytes = any_memory);

  static constexpr std::int64_t any_memory = std::numeric_limits<std::int64_t>::max();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pipesim
