#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "sim/compare/attribution.h"
#include "sim/compare/comparison.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// Replays cost time: of many differences only the largest are told apart, and of orders in
// which they are made so many are tried, that replays visit this many operations together.
constexpr std::size_t max_visits = 20'000'000;
constexpr std::size_t max_pairs = 64;
constexpr std::size_t max_causes = 50;

// What both runs have, as predicted or, difference by difference, as measured; the last one
// is the order.
class Replays final : public Changes {
 public:
  Replays(const Operations& operations, const CommonOrders& common, const Values& predicted,
          const std::vector<Difference>& differences)
      : common_(common), differences_(differences), mixture_(predicted), replay_(operations) {}

  std::size_t count() const override { return differences_.size() + 1; }
  void make(std::size_t change) override { put(change, 1); }
  void undo(std::size_t change) override { put(change, -1); }
  std::int64_t value() override { return replay_.makespan_ns(common_.orders[order_], mixture_); }

 private:
  void put(std::size_t change, std::int64_t sign) {
    if (change == differences_.size()) {
      order_ = sign > 0 ? measured_side : predicted_side;
      return;
    }
    for (const auto& part : differences_[change].parts) {
      (mixture_.*value_of(part.term))[part.operation] += sign * part.more_ns;
    }
  }

  const CommonOrders& common_;
  const std::vector<Difference>& differences_;
  Values mixture_;
  Side order_ = predicted_side;
  Replay replay_;
};

// What only one run has, by rank, stage and kind; without it, it takes no time and follows
// without a gap.
class Extras final : public Changes {
 public:
  Extras(const Operations& operations, const Order& order, const Values& values,
         const std::vector<Difference>& extras)
      : order_(order), values_(values), extras_(extras), mixture_(values), replay_(operations) {
    for (std::size_t i = 0; i < extras.size(); ++i) undo(i);
  }

  std::size_t count() const override { return extras_.size(); }
  void make(std::size_t change) override { put(change, true); }
  void undo(std::size_t change) override { put(change, false); }
  std::int64_t value() override { return replay_.makespan_ns(order_, mixture_); }

 private:
  void put(std::size_t change, bool is_there) {
    for (const auto& part : extras_[change].parts) {
      mixture_.duration[part.operation] = is_there ? values_.duration[part.operation] : 0;
      mixture_.gap[part.operation] = is_there ? values_.gap[part.operation] : 0;
      mixture_.exchange[part.operation] = is_there ? values_.exchange[part.operation] : 0;
    }
  }

  const Order& order_;
  const Values& values_;
  const std::vector<Difference>& extras_;
  Values mixture_;
  Replay replay_;
};

class Ranking {
 public:
  Ranking(const Replayed& replayed, std::vector<Difference> differences, Comparison& comparison)
      : comparison_(comparison),
        operations_(comparison.operations),
        common_(replayed.common),
        all_(replayed.orders),
        values_(replayed.values),
        differences_(std::move(differences)) {}

  void run() {
    comparison_.noise.ranks.resize(operations_.lists[measured_side].size());
    add_differences();
    for (const Side side : both_sides) add_extras(side);
    add_clocks();
    // Those first that explain the difference: what makes the run longer where it
    // is, else what makes it shorter.
    const std::int64_t sign = comparison_.gap.total_ns() < 0 ? -1 : 1;
    std::ranges::stable_sort(causes_, [&](const RootCause& a, const RootCause& b) {
      return std::pair(sign * a.effect_ns, std::abs(a.alone_ns)) >
             std::pair(sign * b.effect_ns, std::abs(b.alone_ns));
    });
    if (causes_.size() > max_causes) causes_.resize(max_causes);
    comparison_.root_causes = std::move(causes_);
  }

 private:
  // In how many pairs of orders so many changes can be tried.
  std::size_t pairs_for(std::size_t changes) const {
    const std::size_t visits = 2 * std::max<std::size_t>(1, changes * operations_.size());
    return std::clamp<std::size_t>(max_visits / visits, 1, max_pairs);
  }

  void keep_largest(std::vector<Difference>& differences) const {
    std::ranges::stable_sort(differences, std::greater(), &Difference::size_ns);
    const std::size_t affordable =
        std::max<std::size_t>(8, max_visits / (4 * std::max<std::size_t>(1, operations_.size())));
    if (differences.size() <= affordable) return;
    // The rest is one, and no cause.
    Difference rest;
    rest.is_noise = true;
    for (auto at = differences.begin() + static_cast<std::ptrdiff_t>(affordable);
         at != differences.end(); ++at) {
      rest.parts.insert(rest.parts.end(), at->parts.begin(), at->parts.end());
    }
    differences.resize(affordable);
    differences.push_back(std::move(rest));
  }

  void add_differences() {
    keep_largest(differences_);
    Replays replays(operations_, common_, values_[predicted_side], differences_);
    const std::vector<SampledShare> shares = sampled_shares(replays, pairs_for(replays.count()));
    const std::int64_t planned = replays.value();
    for (std::size_t i = 0; i < differences_.size(); ++i) {
      const Difference& difference = differences_[i];
      if (difference.is_noise) {
        // What is too small to be told apart is no cause, and no noise either.
        if (difference.rank < 0) continue;
        comparison_.noise.effect_ns += shares[i].share_ns;
        comparison_.noise.ranks[static_cast<std::size_t>(difference.rank)] = shares[i].share_ns;
        continue;
      }
      replays.make(i);
      const std::int64_t alone_ns = replays.value() - planned;
      replays.undo(i);
      add(difference, shares[i], alone_ns);
    }
    add_order(shares.back());
    add_repetition();
  }

  // That iterations follow each other, where the prediction is of one alone. What the measured
  // one has beside is the iteration before's.
  void add_repetition() {
    const auto& beside = comparison_.gap.beside_repetition_ns;
    comparison_.noise.effect_ns += beside[measured_side];
    if (operations_.follows[predicted_side]) {
      comparison_.noise.effect_ns += beside[predicted_side];
    } else if (beside[predicted_side] != 0) {
      RootCause cause;
      cause.term = Term::launch;
      cause.effect_ns = cause.alone_ns = beside[predicted_side];
      cause.why = fmt::format("ranks run on into the next iteration; the {} has only one",
                              side_noun(comparison_, predicted_side));
      causes_.push_back(std::move(cause));
    }
  }

  void add_extras(Side side) {
    std::map<std::tuple<std::int32_t, std::int32_t, Kind>, Difference> groups;
    for (OperationId id = 0; id < operations_.size(); ++id) {
      const Occurrence& own = operations_.sides[side][id];
      if (!own.exists() || operations_.matched(id) || operations_.transfers(id)) continue;
      const Action& action = operations_.actions[id];
      Difference& group = groups[{own.rank, action.stage, action.kind}];
      group.term = Term::unmodelled;
      group.rank = own.rank;
      group.stage = action.stage;
      group.kind = action.kind;
      group.parts.push_back({id, Term::unmodelled, values_[side].duration[id]});
    }
    if (groups.empty()) return;
    std::vector<Difference> extras;
    for (auto& [key, group] : groups) {
      std::vector<std::int64_t> took;
      for (const auto& part : group.parts) took.push_back(part.more_ns);
      group.usual_ns[side] = quantiles_of(std::move(took)).p50;
      extras.push_back(std::move(group));
    }
    keep_largest(extras);
    Extras replays(operations_, all_[side], values_[side], extras);
    const std::vector<SampledShare> shares = sampled_shares(replays, pairs_for(extras.size()));
    const std::int64_t none = replays.value();
    for (std::size_t i = 0; i < extras.size(); ++i) {
      if (extras[i].is_noise) continue;
      replays.make(i);
      const std::int64_t alone_ns = replays.value() - none;
      replays.undo(i);
      const std::int64_t sign = side == measured_side ? 1 : -1;
      add(extras[i], {sign * shares[i].share_ns, shares[i].error_ns}, sign * alone_ns);
    }
  }

  void add(const Difference& difference, const SampledShare& share, std::int64_t alone_ns) {
    if (share.share_ns == 0 && alone_ns == 0) return;
    RootCause cause;
    cause.term = difference.term;
    cause.rank = difference.rank;
    if (difference.to_rank >= 0) cause.to_rank = difference.to_rank;
    cause.microbatch = difference.microbatch;
    if (operations_.of_inputs()) {
      if (difference.term != Term::launch) cause.kind = difference.kind;
    } else if (difference.stage >= 0) {
      cause.stage = difference.stage;
      cause.kind = difference.kind;
      if (difference.backward_stage >= 0) cause.backward_stage = difference.backward_stage;
    }
    cause.effect_ns = share.share_ns;
    cause.error_ns = share.error_ns;
    cause.alone_ns = alone_ns;
    cause.why = describe(difference);
    for (const auto& part : difference.parts) cause.operations.push_back(part.operation);
    causes_.push_back(std::move(cause));
  }

  std::string describe(const Difference& own) const {
    const std::string took = format_time(own.usual_ns[measured_side]);
    const std::string planned = format_time(own.usual_ns[predicted_side]);
    const std::string action = name_of(own);
    const std::int64_t more_ns = own.usual_ns[measured_side] - own.usual_ns[predicted_side];
    // Three digits may hide the difference.
    const std::string both = took != planned
                                 ? fmt::format("{} instead of {}", took, planned)
                                 : fmt::format("{} {} than {}", format_time(std::abs(more_ns)),
                                               more_ns < 0 ? "less" : "more", planned);
    switch (own.term) {
      case Term::unmodelled:
        return operations_.sides[measured_side][own.parts.front().operation].exists()
                   ? fmt::format("{} on rank {}: {}, not in the {}", action, own.rank, took,
                                 side_noun(comparison_, predicted_side))
                   : fmt::format("{} on rank {}: {}, only in the {}", action, own.rank, planned,
                                 side_noun(comparison_, predicted_side));
      case Term::transfer:
        if (is_blocking_collective(own.kind)) {
          return fmt::format("{} takes {}", kind_name(own.kind), both);
        }
        if (operations_.of_inputs()) return on_rank(own, action) + both;
        return fmt::format("{} from rank {} to {} travels {}", action, own.rank, own.to_rank, both);
      case Term::wait:
        return fmt::format("{} from rank {} to {} begins {} its result instead of {}", action,
                           own.rank, own.to_rank, after(measured_side, own),
                           after(predicted_side, own));
      case Term::exchange:
        return fmt::format("rank {} waits {} for {} instead of {}{}", own.rank, took, name_of(own),
                           planned, overlap_lost(own));
      case Term::launch: {
        const std::string could =
            after(measured_side, own) + " it could" +
            (own.usual_ns[predicted_side] == 0 ? "" : " instead of " + after(predicted_side, own));
        if (!own.microbatch) return fmt::format("rank {} starts {}", own.rank, could);
        const Action& late = operations_.actions[own.parts.front().operation];
        return fmt::format("rank {} starts {} {}", own.rank, operation_name(late), could);
      }
      default: return on_rank(own, action) + both;
    }
  }

  // Where little of an exchange goes on beside compute that should.
  std::string overlap_lost(const Difference& own) const {
    for (const CollectiveRow& row : comparison_.collectives.rows) {
      if (row.rank != own.rank || row.stage != own.stage || row.kind != own.kind) continue;
      const std::int64_t planned = row.times[predicted_side].hidden_ns;
      const std::int64_t had = row.times[measured_side].hidden_ns;
      if (2 * had >= planned) break;
      return fmt::format("; {} of it overlaps compute, not {}",
                         had > 0 ? format_time(had) : "nothing", format_time(planned));
    }
    return {};
  }

  static std::string on_rank(const Difference& own, const std::string& action) {
    if (own.rank < 0) return action + ": ";
    return fmt::format("{} on rank {}: ", action, own.rank);
  }

  std::string name_of(const Difference& own) const {
    if (operations_.of_inputs()) {
      const Action& first = operations_.actions[own.parts.front().operation];
      if (own.microbatch) return operation_name(first);
      return is_host_call(first) ? fmt::format("calling {}", kind_name(input_kinds[first.number]))
                                 : std::string(kind_name(own.kind));
    }
    if (own.backward_stage >= 0) {
      return fmt::format("{}F in one cell with a backward of stage {}", own.stage,
                         own.backward_stage);
    }
    if (own.stage >= 0 && own.microbatch) {
      return to_text(make_action(own.stage, own.kind, *own.microbatch));
    }
    if (own.to_rank >= 0 && own.stage < 0) return "what goes";
    return fmt::format("{}{}", own.stage, kind_name(own.kind));  // of all microbatches
  }

  // "3 us after", or before.
  static std::string after(Side side, const Difference& own) {
    const std::int64_t gap = own.usual_ns[side];
    return format_time(std::abs(gap)) + (gap < 0 ? " before" : " after");
  }

  void add_order(const SampledShare& share) {
    const auto& swapped = comparison_.swapped;
    if (swapped.empty() && share.share_ns == 0) return;
    RootCause cause;
    cause.term = Term::order;
    cause.effect_ns = cause.alone_ns = share.share_ns;
    cause.error_ns = share.error_ns;
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
    if (clocks.empty()) return;
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

  Comparison& comparison_;
  const Operations& operations_;
  const CommonOrders& common_;
  const std::array<Order, 2>& all_;
  const std::array<Values, 2>& values_;
  std::vector<Difference> differences_;
  std::vector<RootCause> causes_;
};

}  // namespace

void find_root_causes(const Replayed& replayed, std::vector<Difference> differences,
                      Comparison& comparison) {
  Ranking(replayed, std::move(differences), comparison).run();
}

}  // namespace pipesim
