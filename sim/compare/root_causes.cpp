#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "sim/compare/comparison.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Values of one class that belong together: they are replaced together.
struct Group {
  Term term{};
  std::int32_t rank = -1;
  std::int32_t stage = -1;  // -1: all of the rank
  Kind kind = Kind::IDLE;
  std::vector<OperationId> operations;
  std::int64_t difference_ns = 0;  // of all values together, by size
};

// Replays cost time: of many groups only those with the largest differences are
// tried, so many that the replays visit this many operations together.
constexpr std::size_t most_visits = 10'000'000;
constexpr std::size_t most_causes = 50;

class Ranking {
 public:
  Ranking(const Comparison& comparison, const std::array<Order, 2>& orders,
          const std::array<Values, 2>& values)
      : comparison_(comparison),
        operations_(comparison.operations),
        orders_(orders),
        values_(values),
        scratch_(values),
        player_(operations_) {}

  std::vector<RootCause> run() {
    collect();
    for (const Group& group : largest_groups()) try_group(group);
    add_order();
    add_clocks();
    std::ranges::stable_sort(causes_, [](const RootCause& a, const RootCause& b) {
      return std::pair(std::abs(a.effect_ns), std::abs(a.alone_ns)) >
             std::pair(std::abs(b.effect_ns), std::abs(b.alone_ns));
    });
    if (causes_.size() > most_causes) causes_.resize(most_causes);
    return std::move(causes_);
  }

 private:
  // Which of an operation's values a term is about.
  static std::vector<std::int64_t> Values::*value_of(Term term) {
    return term == Term::wait || term == Term::launch ? &Values::gap : &Values::duration;
  }

  std::int64_t difference(Term term, OperationId id) const {
    const auto value = value_of(term);
    return (values_[measured_side].*value)[id] - (values_[predicted_side].*value)[id];
  }

  void put(Term term, std::int32_t rank, std::int32_t stage, Kind kind, OperationId id) {
    const std::int64_t own = difference(term, id);
    if (own == 0) return;
    Group& group = groups_[{term, rank, stage, kind}];
    group.term = term;
    group.rank = rank;
    group.stage = stage;
    group.kind = kind;
    group.operations.push_back(id);
    group.difference_ns += std::abs(own);
  }

  void collect() {
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const Occurrence& measured = operations_.sides[measured_side][id];
      if (!measured.exists()) continue;
      const auto& [stage, microbatch, kind, joined] = operations_.actions[id];
      if (operations_.transfers(id)) {
        if (!operations_.matched(id)) continue;
        put(Term::transfer, measured.rank, stage, kind, id);
        put(Term::wait, measured.rank, stage, kind, id);
      } else if (operations_.matched(id)) {
        put(Term::compute, measured.rank, stage, kind, id);
        put(Term::launch, measured.rank, -1, Kind::IDLE, id);
      } else {
        put(Term::unmodelled, measured.rank, stage, kind, id);
      }
    }
  }

  std::vector<Group> largest_groups() {
    std::vector<Group> sorted;
    for (auto& [key, group] : groups_) sorted.push_back(std::move(group));
    std::ranges::stable_sort(sorted, std::greater(), &Group::difference_ns);
    const std::size_t affordable =
        std::max<std::size_t>(8, most_visits / (2 * std::max<std::size_t>(1, operations_.size())));
    if (sorted.size() > affordable) sorted.resize(affordable);
    return sorted;
  }

  // What a side's makespan becomes when the group's values are the other's.
  std::int64_t change_when_replaced(Side side, const Group& group) {
    const Side other = side == predicted_side ? measured_side : predicted_side;
    const auto value = value_of(group.term);
    auto& replaced = scratch_[side].*value;
    for (const OperationId id : group.operations) replaced[id] = (values_[other].*value)[id];
    const std::int64_t makespan = player_.makespan_ns(orders_[side], scratch_[side]);
    for (const OperationId id : group.operations) replaced[id] = (values_[side].*value)[id];
    return makespan - comparison_.sides[side].played.makespan_ns;
  }

  void try_group(const Group& group) {
    RootCause cause;
    cause.term = group.term;
    cause.rank = group.rank;
    if (group.stage >= 0) {
      cause.stage = group.stage;
      cause.kind = group.kind;
      cause.microbatch = outstanding_microbatch(group);
    }
    cause.effect_ns = -change_when_replaced(measured_side, group);
    // What a prediction does not have can't be put into it.
    if (group.term != Term::unmodelled) {
      cause.alone_ns = change_when_replaced(predicted_side, group);
    }
    if (cause.effect_ns == 0 && cause.alone_ns == 0) return;
    cause.why = describe(group, cause);
    causes_.push_back(std::move(cause));
  }

  // The one that makes out nine tenths of the group's difference.
  std::optional<std::int32_t> outstanding_microbatch(const Group& group) const {
    for (const OperationId id : group.operations) {
      if (std::abs(difference(group.term, id)) * 10 < group.difference_ns * 9) continue;
      const std::int32_t microbatch = operations_.actions[id].microbatch;
      if (microbatch != no_microbatch) return microbatch;
    }
    return std::nullopt;
  }

  // The median of the group's values on a side, or the outstanding one.
  std::int64_t typical(Side side, const Group& group,
                       const std::optional<std::int32_t>& microbatch) const {
    std::vector<std::int64_t> own;
    for (const OperationId id : group.operations) {
      if (microbatch && operations_.actions[id].microbatch != *microbatch) continue;
      own.push_back((values_[side].*value_of(group.term))[id]);
    }
    return quantiles_of(std::move(own)).p50;
  }

  std::string describe(const Group& group, const RootCause& cause) const {
    const std::string took = format_time(typical(measured_side, group, cause.microbatch));
    const std::string planned = format_time(typical(predicted_side, group, cause.microbatch));
    const std::string action =
        cause.stage && cause.microbatch
            ? to_text(make_action(*cause.stage, group.kind, *cause.microbatch))
            : fmt::format("{} of stage {}", kind_name(group.kind), group.stage);
    switch (group.term) {
      case Term::unmodelled:
        return fmt::format("{} on rank {}: {}, not in the prediction", action, group.rank, took);
      case Term::transfer:
        return fmt::format("{} from rank {} travels {} instead of {}", action, group.rank, took,
                           planned);
      case Term::wait:
        return fmt::format("{} from rank {} begins {} after its result instead of {}", action,
                           group.rank, took, planned);
      case Term::launch:
        return fmt::format("rank {} starts {} after it could instead of {}", group.rank, took,
                           planned);
      default:
        return fmt::format("{} on rank {}: {} instead of {}", action, group.rank, took, planned);
    }
  }

  void add_order() {
    if (comparison_.swapped.empty()) return;
    const auto& occurrences = operations_.sides[measured_side];
    const OperationId first = *std::ranges::min_element(
        comparison_.swapped, {}, [&](OperationId id) { return occurrences[id].start_ns; });
    const Action& action = operations_.actions[first];
    RootCause cause;
    cause.term = Term::order;
    cause.rank = occurrences[first].rank;
    cause.stage = action.stage;
    cause.kind = action.kind;
    if (action.microbatch != no_microbatch) cause.microbatch = action.microbatch;
    cause.effect_ns = cause.alone_ns = comparison_.gap[Term::order];
    cause.why = fmt::format(
        "{} out of order, {} on rank {} first",
        comparison_.swapped.size() == 1
            ? "one action is"
            : fmt::format("{} are",
                          plural(static_cast<std::int64_t>(comparison_.swapped.size()), "action")),
        to_text(action), cause.rank);
    causes_.push_back(std::move(cause));
  }

  // A clock's effect is what the makespan would be were it alone put right.
  void add_clocks() {
    const auto& clocks = comparison_.clocks;
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      if (clocks[rank].ahead_ns == 0) continue;
      RootCause cause;
      cause.term = Term::clock;
      cause.rank = static_cast<std::int32_t>(rank);
      cause.effect_ns =
          comparison_.sides[measured_side].makespan_ns - recorded_makespan_without(rank);
      cause.why = fmt::format("the clock of rank {} is {} {} the others", rank,
                              format_time(std::abs(clocks[rank].ahead_ns)),
                              clocks[rank].ahead_ns > 0 ? "ahead of" : "behind");
      causes_.push_back(std::move(cause));
    }
  }

  std::int64_t recorded_makespan_without(std::size_t right) const {
    std::optional<std::int64_t> first;
    std::optional<std::int64_t> last;
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const Occurrence& own = operations_.sides[measured_side][id];
      if (!own.exists() || operations_.transfers(id)) continue;
      const auto rank = static_cast<std::size_t>(own.rank);
      const std::int64_t ahead = rank == right ? 0 : comparison_.clocks[rank].ahead_ns;
      first = std::min(first.value_or(own.start_ns + ahead), own.start_ns + ahead);
      last = std::max(last.value_or(own.end_ns + ahead), own.end_ns + ahead);
    }
    return last.value_or(0) - first.value_or(0);
  }

  const Comparison& comparison_;
  const Operations& operations_;
  const std::array<Order, 2>& orders_;
  const std::array<Values, 2>& values_;
  std::array<Values, 2> scratch_;  // the same, but while a group is replaced
  Player player_;
  std::map<std::tuple<Term, std::int32_t, std::int32_t, Kind>, Group> groups_;
  std::vector<RootCause> causes_;
};

}  // namespace

std::vector<RootCause> find_root_causes(const Comparison& comparison,
                                        const std::array<Order, 2>& orders,
                                        const std::array<Values, 2>& values) {
  return Ranking(comparison, orders, values).run();
}

}  // namespace pipesim
