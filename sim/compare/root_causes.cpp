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
struct CauseGroup {
  Term term{};
  std::int32_t rank = -1;
  std::int32_t stage = -1;  // -1: all of the rank
  Kind kind = Kind::IDLE;
  std::int32_t backward_stage = -1;  // of overlapped cells, whose forward is named above
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
    for (const CauseGroup& group : largest_groups()) try_group(group);
    add_order();
    add_clocks();
    // Those first that explain the difference: what makes the run longer where it
    // is, else what makes it shorter.
    const std::int64_t sign = comparison_.gap.total_ns() < 0 ? -1 : 1;
    std::ranges::stable_sort(causes_, [&](const RootCause& a, const RootCause& b) {
      return std::pair(sign * a.effect_ns, std::abs(a.alone_ns)) >
             std::pair(sign * b.effect_ns, std::abs(b.alone_ns));
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

  void put(Term term, std::int32_t rank, std::int32_t stage, Kind kind, OperationId id,
           std::int32_t backward_stage = -1) {
    const std::int64_t own = difference(term, id);
    if (own == 0) return;
    CauseGroup& group = groups_[{term, rank, stage, kind, backward_stage}];
    group.backward_stage = backward_stage;
    group.term = term;
    group.rank = rank;
    group.stage = stage;
    group.kind = kind;
    group.operations.push_back(id);
    group.difference_ns += std::abs(own);
  }

  void collect() {
    std::map<OperationId, OperationId> forward_of;  // of the backward of a cell
    for (const auto& [forward, backward] : operations_.backward_of) forward_of[backward] = forward;
    std::map<Kind, std::pair<std::int32_t, std::int32_t>> groups_seen;  // first rank and stage
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const bool matched = operations_.matched(id);
      const Occurrence& measured = operations_.sides[measured_side][id];
      const Occurrence& own = measured.exists() ? measured : operations_.sides[predicted_side][id];
      const std::int32_t stage = operations_.actions[id].stage;
      const Kind kind = operations_.actions[id].kind;
      if (operations_.transfers(id)) {
        if (!matched) continue;
        put(Term::transfer, own.rank, stage, kind, id);
        put(Term::wait, own.rank, stage, kind, id);
      } else if (!matched) {
        put(Term::unmodelled, own.rank, stage, kind, id);
      } else {
        const auto cell = forward_of.find(id);
        if (operations_.communicates(id)) {
          // What its group takes is one cause.
          const auto [first, is_new] = groups_seen.try_emplace(kind, own.rank, stage);
          put(Term::transfer, first->second.first, first->second.second, kind, id);
        } else if (cell == forward_of.end()) {
          put(Term::compute, own.rank, stage, kind, id);
        } else {
          put(Term::compute, own.rank, operations_.actions[cell->second].stage, Kind::F, id, stage);
        }
        put(Term::launch, own.rank, -1, Kind::IDLE, id);
      }
    }
  }

  std::vector<CauseGroup> largest_groups() {
    std::vector<CauseGroup> sorted;
    for (auto& [key, group] : groups_) sorted.push_back(std::move(group));
    std::ranges::stable_sort(sorted, std::greater(), &CauseGroup::difference_ns);
    const std::size_t affordable =
        std::max<std::size_t>(8, most_visits / (2 * std::max<std::size_t>(1, operations_.size())));
    if (sorted.size() > affordable) sorted.resize(affordable);
    return sorted;
  }

  // What a side's makespan becomes when the group's values are the other's; what
  // the other does not have takes no time there, and follows without a gap.
  std::int64_t change_when_replaced(Side side, const CauseGroup& group) {
    const Side other = side == predicted_side ? measured_side : predicted_side;
    const auto value = value_of(group.term);
    const auto take_from = [&](const Values& from) {
      for (const OperationId id : group.operations) {
        (scratch_[side].*value)[id] = (from.*value)[id];
        if (group.term == Term::unmodelled) scratch_[side].gap[id] = from.gap[id];
      }
    };
    take_from(values_[other]);
    const std::int64_t makespan = player_.makespan_ns(orders_[side], scratch_[side]);
    take_from(values_[side]);
    return makespan - comparison_.sides[side].played.makespan_ns;
  }

  void try_group(const CauseGroup& group) {
    RootCause cause;
    cause.term = group.term;
    cause.rank = group.rank;
    if (group.stage >= 0) {
      cause.stage = group.stage;
      cause.kind = group.kind;
      if (group.backward_stage >= 0) cause.backward_stage = group.backward_stage;
      cause.microbatch = outstanding_microbatch(group);
    }
    cause.effect_ns = -change_when_replaced(measured_side, group);
    cause.alone_ns = change_when_replaced(predicted_side, group);
    if (cause.effect_ns == 0 && cause.alone_ns == 0) return;
    cause.why = describe(group, cause);
    cause.operations = group.operations;
    causes_.push_back(std::move(cause));
  }

  // The one that makes out nine tenths of the group's difference.
  std::optional<std::int32_t> outstanding_microbatch(const CauseGroup& group) const {
    for (const OperationId id : group.operations) {
      if (std::abs(difference(group.term, id)) * 10 < group.difference_ns * 9) continue;
      const std::int32_t microbatch = operations_.actions[id].microbatch;
      if (microbatch != no_microbatch) return microbatch;
    }
    return std::nullopt;
  }

  // The median of the group's values on a side, or the outstanding one.
  std::int64_t typical(Side side, const CauseGroup& group,
                       const std::optional<std::int32_t>& microbatch) const {
    std::vector<std::int64_t> own;
    for (const OperationId id : group.operations) {
      if (microbatch && operations_.actions[id].microbatch != *microbatch) continue;
      own.push_back((values_[side].*value_of(group.term))[id]);
    }
    return quantiles_of(std::move(own)).p50;
  }

  std::string describe(const CauseGroup& group, const RootCause& cause) const {
    const std::string took = format_time(typical(measured_side, group, cause.microbatch));
    const std::string planned = format_time(typical(predicted_side, group, cause.microbatch));
    const std::string action = name_of(group, cause);
    switch (group.term) {
      case Term::unmodelled:
        return operations_.sides[measured_side][group.operations.front()].exists()
                   ? fmt::format("{} on rank {}: {}, not in the prediction", action, group.rank,
                                 took)
                   : fmt::format("{} on rank {}: {}, only in the prediction", action, group.rank,
                                 planned);
      case Term::transfer:
        if (is_blocking_collective(group.kind)) {
          return fmt::format("{} takes {} instead of {}", kind_name(group.kind), took, planned);
        }
        return fmt::format("{} from rank {} travels {} instead of {}", action, group.rank, took,
                           planned);
      case Term::wait:
        return fmt::format("{} from rank {} begins {} its result instead of {}", action, group.rank,
                           after(measured_side, group, cause), after(predicted_side, group, cause));
      case Term::launch:
        return fmt::format("rank {} starts {} it could instead of {}", group.rank,
                           after(measured_side, group, cause), after(predicted_side, group, cause));
      default:
        return fmt::format("{} on rank {}: {} instead of {}", action, group.rank, took, planned);
    }
  }

  static std::string name_of(const CauseGroup& group, const RootCause& cause) {
    if (group.backward_stage >= 0) {
      return fmt::format("F of stage {} in one cell with a backward of stage {}", group.stage,
                         group.backward_stage);
    }
    if (cause.stage && cause.microbatch) {
      return to_text(make_action(*cause.stage, group.kind, *cause.microbatch));
    }
    return fmt::format("{} of stage {}", kind_name(group.kind), group.stage);
  }

  // "3 us after", or before.
  std::string after(Side side, const CauseGroup& group, const RootCause& cause) const {
    const std::int64_t gap = typical(side, group, cause.microbatch);
    return format_time(std::abs(gap)) + (gap < 0 ? " before" : " after");
  }

  // The effect of an order is its term's: an order is not replaced by itself.
  void add_order() {
    const auto& swapped = comparison_.swapped;
    const std::int64_t term = comparison_.gap[Term::order];
    if (swapped.empty() && term == 0) return;
    RootCause cause;
    cause.term = Term::order;
    cause.effect_ns = cause.alone_ns = term;
    cause.operations = swapped;
    if (swapped.empty()) {
      cause.why = "transfers follow each other in another order on their streams";
      causes_.push_back(std::move(cause));
      return;
    }
    const auto& occurrences = operations_.sides[measured_side];
    const OperationId first = *std::ranges::min_element(
        swapped, {}, [&](OperationId id) { return occurrences[id].start_ns; });
    const Action& action = operations_.actions[first];
    cause.rank = occurrences[first].rank;
    if (swapped.size() == 1) {
      cause.stage = action.stage;
      cause.kind = action.kind;
      if (action.microbatch != no_microbatch) cause.microbatch = action.microbatch;
      cause.why = fmt::format("{} on rank {} is out of order", to_text(action), cause.rank);
    } else {
      cause.why = fmt::format("{} actions are out of order, {} on rank {} first", swapped.size(),
                              to_text(action), cause.rank);
    }
    causes_.push_back(std::move(cause));
  }

  // What a rank's work took up by its own clock.
  struct Reach {
    std::int64_t first_ns, last_ns;
  };

  // A clock's effect is what the makespan would be were it alone put right.
  void add_clocks() {
    const auto& clocks = comparison_.clocks;
    std::vector<std::optional<Reach>> reach(clocks.size());
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const Occurrence& own = operations_.sides[measured_side][id];
      if (!own.exists() || operations_.transfers(id)) continue;
      auto& all = reach[static_cast<std::size_t>(own.rank)];
      if (!all) all = Reach{own.start_ns, own.end_ns};
      all->first_ns = std::min(all->first_ns, own.start_ns);
      all->last_ns = std::max(all->last_ns, own.end_ns);
    }
    // Of all ranks as recorded; and of those before and behind a place.
    const auto recorded = [&](std::size_t rank) {
      auto all = reach[rank];
      if (all) *all = {all->first_ns + clocks[rank].ahead_ns, all->last_ns + clocks[rank].ahead_ns};
      return all;
    };
    std::vector<std::optional<Reach>> before(clocks.size() + 1), behind(clocks.size() + 1);
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      before[rank + 1] = both(before[rank], recorded(rank));
    }
    for (std::size_t rank = clocks.size(); rank-- > 0;) {
      behind[rank] = both(behind[rank + 1], recorded(rank));
    }
    for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
      if (clocks[rank].ahead_ns == 0) continue;
      auto righted = both(both(before[rank], reach[rank]), behind[rank + 1]);
      if (righted && operations_.follows[measured_side]) righted->first_ns = 0;
      RootCause cause;
      cause.term = Term::clock;
      cause.rank = static_cast<std::int32_t>(rank);
      cause.effect_ns = comparison_.sides[measured_side].makespan_ns -
                        (righted ? righted->last_ns - righted->first_ns : 0);
      cause.operations = operations_.lists[measured_side][rank];
      cause.why = fmt::format("the clock of rank {} is {} {} the others", rank,
                              format_time(std::abs(clocks[rank].ahead_ns)),
                              clocks[rank].ahead_ns > 0 ? "ahead of" : "behind");
      causes_.push_back(std::move(cause));
    }
  }

  static std::optional<Reach> both(const std::optional<Reach>& a, const std::optional<Reach>& b) {
    if (!a || !b) return a ? a : b;
    return Reach{std::min(a->first_ns, b->first_ns), std::max(a->last_ns, b->last_ns)};
  }

  const Comparison& comparison_;
  const Operations& operations_;
  const std::array<Order, 2>& orders_;
  const std::array<Values, 2>& values_;
  std::array<Values, 2> scratch_;  // the same, but while a group is replaced
  Player player_;
  std::map<std::tuple<Term, std::int32_t, std::int32_t, Kind, std::int32_t>, CauseGroup> groups_;
  std::vector<RootCause> causes_;
};

}  // namespace

std::vector<RootCause> find_root_causes(const Comparison& comparison,
                                        const std::array<Order, 2>& orders,
                                        const std::array<Values, 2>& values) {
  return Ranking(comparison, orders, values).run();
}

}  // namespace pipesim
