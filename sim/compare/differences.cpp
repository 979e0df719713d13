#include "sim/compare/differences.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/compare/quantiles.h"

namespace pipesim {
namespace {

using ValueField = std::vector<std::int64_t> Values::*;

std::int64_t median(std::vector<std::int64_t> values) {
  return quantiles_of(std::move(values)).p50;
}

// From the value below which a tenth lies to that below which nine tenths do.
std::int64_t spread(std::vector<std::int64_t> values) {
  if (values.size() < min_iterations) return 0;
  const Quantiles all = quantiles_of(std::move(values));
  return all.p90 - all.p10;
}

// The operations of a difference, before it is known what of it is noise.
struct DifferenceGroup {
  Difference difference;
  std::vector<OperationId> operations;
};

class Sorter {
 public:
  Sorter(const Operations& operations, const std::array<Values, 2>& values, const History& history,
         bool exact)
      : operations_(operations), values_(values), history_(history), exact_(exact) {
    for (const Side side : both_sides) usual_[side] = usual_of(side);
  }

  std::vector<Difference> run() {
    collect();
    if (operations_.of_inputs()) find_common();
    for (auto& [key, group] : groups_) sort(group);
    for (auto& [rank, noise] : noise_) {
      if (!noise.parts.empty()) found_.push_back(std::move(noise));
    }
    return std::move(found_);
  }

 private:
  bool varies(Side side) const { return history_[side].size() >= min_iterations; }

  Values usual_of(Side side) const {
    Values usual = history_[side].front();
    if (!varies(side)) return usual;
    std::vector<std::int64_t> all(history_[side].size());
    for (const ValueField field : {&Values::duration, &Values::gap, &Values::exchange}) {
      for (OperationId id = 0; id < operations_.size(); ++id) {
        for (std::size_t k = 0; k < all.size(); ++k) all[k] = (history_[side][k].*field)[id];
        (usual.*field)[id] = median(all);
      }
    }
    return usual;
  }

  std::int64_t usual(Side side, Term term, OperationId id) const {
    return (usual_[side].*value_of(term))[id];
  }
  std::int64_t usually_more(Term term, OperationId id) const {
    return usual(measured_side, term, id) - usual(predicted_side, term, id);
  }
  std::int64_t now_more(Term term, OperationId id) const {
    const ValueField field = value_of(term);
    return (values_[measured_side].*field)[id] - (values_[predicted_side].*field)[id];
  }

  void put(Term term, std::int32_t rank, std::int32_t stage, Kind kind, OperationId id,
           std::int32_t backward_stage = -1) {
    DifferenceGroup& group = groups_[{term, rank, stage, kind, backward_stage}];
    Difference& own = group.difference;
    own.term = term;
    own.rank = rank;
    own.stage = stage;
    own.kind = kind;
    own.backward_stage = backward_stage;
    group.operations.push_back(id);
  }

  // Named by stage and kind where the way has no other transfers.
  void put_transfer(Term term, OperationId id) {
    const Occurrence& own = operations_.sides[measured_side][id];
    const Action& action = operations_.actions[id];
    DifferenceGroup& group = groups_[{term, own.rank, own.to_rank, Kind::IDLE, -1}];
    Difference& difference = group.difference;
    const bool is_first = group.operations.empty();
    const bool is_same =
        is_first || (difference.stage == action.stage && difference.kind == action.kind);
    difference.term = term;
    difference.rank = own.rank;
    difference.to_rank = own.to_rank;
    difference.stage = is_same ? action.stage : -1;
    difference.kind = is_same ? action.kind : Kind::IDLE;
    group.operations.push_back(id);
  }

  void collect() {
    std::map<OperationId, OperationId> forward_of;  // of the backward of a cell
    for (const auto& [forward, backward] : operations_.backward_of) forward_of[backward] = forward;
    std::map<Kind, std::pair<std::int32_t, std::int32_t>> first_of;  // rank and stage of groups
    for (OperationId id = 0; id < operations_.size(); ++id) {
      if (!operations_.matched(id)) continue;
      const std::int32_t rank = operations_.sides[measured_side][id].rank;
      const auto& [kind, stage] =
          std::pair(operations_.actions[id].kind, operations_.actions[id].stage);
      if (operations_.transfers(id)) {
        put_transfer(Term::transfer, id);
        put_transfer(Term::wait, id);
        continue;
      }
      const auto cell = forward_of.find(id);
      if (is_of_input(kind) || kind == Kind::IDLE) {
        // The host's calls of one kind belong together.
        const int called =
            is_host_call(operations_.actions[id]) ? operations_.actions[id].number : -1;
        put(operations_.communicates(id) ? Term::transfer : Term::compute, rank, stage, kind, id,
            called);
      } else if (operations_.communicates(id)) {
        // What its group takes is one cause.
        const auto [first, is_new] = first_of.try_emplace(kind, rank, stage);
        put(Term::transfer, first->second.first, first->second.second, kind, id);
      } else if (cell == forward_of.end()) {
        put(Term::compute, rank, stage, kind, id);
      } else {
        put(Term::compute, rank, operations_.actions[cell->second].stage, Kind::F, id, stage);
      }
      put(Term::launch, rank, -1, Kind::IDLE, id);
      for (const Side side : {measured_side, predicted_side}) {
        const Occurrence& own = operations_.sides[side][id];
        if (!own.awaits_collective()) continue;
        put(Term::exchange, rank, own.collective.stage, own.collective.kind, id);
        break;
      }
    }
  }

  // Ranks of an input pipeline do the same: what one kind of action takes more on all of them is
  // one difference, and what single ranks have beside it is theirs.
  void find_common() {
    std::map<std::tuple<Term, Kind, std::int32_t>, std::vector<DifferenceGroup*>> of_kinds;
    for (auto& [key, group] : groups_) {
      const Difference& own = group.difference;
      if (own.term != Term::launch) {
        of_kinds[{own.term, own.kind, own.backward_stage}].push_back(&group);
      }
    }
    common_.assign(operations_.size(), 0);
    for (const auto& entry : of_kinds) {
      const std::vector<DifferenceGroup*>& groups = entry.second;
      const auto [term, kind, called] = entry.first;
      if (groups.size() < 2) continue;
      std::vector<std::int64_t> medians;
      DifferenceGroup all;
      for (const DifferenceGroup* group : groups) {
        std::vector<std::int64_t> more;
        for (const OperationId id : group->operations) more.push_back(usually_more(term, id));
        medians.push_back(median(std::move(more)));
        all.operations.insert(all.operations.end(), group->operations.begin(),
                              group->operations.end());
      }
      const std::int64_t common = middle_of(std::move(medians));
      if (common == 0) continue;
      all.difference.term = term;
      all.difference.kind = kind;
      all.difference.backward_stage = called;
      left_.assign(all.operations.size(), 0);
      std::vector<std::size_t> places(all.operations.size());
      std::iota(places.begin(), places.end(), std::size_t{0});
      settle(all.difference, all, places, std::vector<std::int64_t>(places.size(), common));
      for (const OperationId id : all.operations) common_[id] = common;
    }
  }
  // The median; of an even number, the one nearer to 0, and 0 where they have different signs.
  static std::int64_t middle_of(std::vector<std::int64_t> values) {
    std::ranges::sort(values);
    const std::int64_t lower = values[(values.size() - 1) / 2], upper = values[values.size() / 2];
    if ((lower < 0) != (upper < 0)) return 0;
    return std::abs(lower) < std::abs(upper) ? lower : upper;
  }
  // What is left of it is a rank's own.
  std::int64_t common(Term term, OperationId id) const {
    return common_.empty() || term == Term::launch ? 0 : common_[id];
  }

  void sort(DifferenceGroup& group) {
    Difference& own = group.difference;
    const Term term = own.term;
    std::vector<std::int64_t> more;  // than predicted, by operation
    left_.clear();                   // of what the compared iterations differ by
    for (const OperationId id : group.operations) {
      more.push_back(usually_more(term, id) - common(term, id));
      left_.push_back(now_more(term, id) - common(term, id));
    }
    const std::int64_t usual = median(more);
    if (const auto outstanding = find_outstanding(group, more, usual)) {
      Difference one = own;
      const Action& action = operations_.actions[group.operations[*outstanding]];
      one.microbatch = action.microbatch;
      if (own.stage < 0) {
        one.stage = action.stage;
        one.kind = action.kind;
      }
      settle(std::move(one), group, {*outstanding}, {more[*outstanding] - usual});
      more[*outstanding] = usual;
    }
    // One iteration does not tell what is usual of each; all operations together do.
    const bool is_known = exact_ || varies(measured_side) || more.size() < min_iterations;
    if (!is_known) std::ranges::fill(more, usual);
    std::vector<std::size_t> all(more.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    settle(std::move(own), group, all, more);
    for (const std::size_t i : all) {
      if (left_[i] == 0) continue;
      const OperationId id = group.operations[i];
      noise_of(operations_.sides[measured_side][id].rank).parts.push_back({id, term, left_[i]});
    }
  }

  // The operation that makes out at least half of what a group's have beside what is common to
  // them, and ten times what the others do.
  std::optional<std::size_t> find_outstanding(const DifferenceGroup& group,
                                              const std::vector<std::int64_t>& more,
                                              std::int64_t common) const {
    if (more.size() < min_iterations) return std::nullopt;
    std::vector<std::int64_t> beside;
    for (const std::int64_t ns : more) beside.push_back(std::abs(ns - common));
    const auto largest = std::ranges::max_element(beside);
    const std::int64_t sum = std::accumulate(beside.begin(), beside.end(), std::int64_t{0});
    if (*largest == 0 || *largest < sum - *largest || *largest < 10 * median(beside)) {
      return std::nullopt;
    }
    const auto at = static_cast<std::size_t>(largest - beside.begin());
    if (operations_.actions[group.operations[at]].microbatch == no_microbatch) return std::nullopt;
    return at;
  }

  // Keeps a difference, by so much at those places of its group, unless both runs vary by as
  // much.
  void settle(Difference difference, const DifferenceGroup& group,
              const std::vector<std::size_t>& places, const std::vector<std::int64_t>& more) {
    const ValueField field = value_of(difference.term);
    std::int64_t varies_by = 0;
    for (const Side side : both_sides) {
      std::vector<std::int64_t> sums;
      for (const Values& iteration : history_[side]) {
        std::int64_t& sum = sums.emplace_back();
        for (const std::size_t i : places) sum += (iteration.*field)[group.operations[i]];
      }
      varies_by += spread(std::move(sums));
      std::vector<std::int64_t> all;
      for (const std::size_t i : places) {
        all.push_back(usual(side, difference.term, group.operations[i]));
      }
      difference.usual_ns[side] = median(std::move(all));
    }
    // A rank's own is told beside what all ranks take more.
    if (difference.rank >= 0) {
      const OperationId first = group.operations[places.front()];
      difference.usual_ns[predicted_side] += common(difference.term, first);
    }
    const std::int64_t sum = std::accumulate(more.begin(), more.end(), std::int64_t{0});
    if (varies_by > 0 && std::abs(sum) <= varies_by) return;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (more[i] == 0) continue;
      difference.parts.push_back({group.operations[places[i]], difference.term, more[i]});
      left_[places[i]] -= more[i];
    }
    if (!difference.parts.empty()) found_.push_back(std::move(difference));
  }

  Difference& noise_of(std::int32_t rank) {
    Difference& noise = noise_[rank];
    noise.is_noise = true;
    noise.term = Term::compute;
    noise.rank = rank;
    return noise;
  }

  const Operations& operations_;
  const std::array<Values, 2>& values_;
  const History& history_;
  bool exact_;
  std::array<Values, 2> usual_;
  std::map<std::tuple<Term, std::int32_t, std::int32_t, Kind, std::int32_t>, DifferenceGroup>
      groups_;
  std::map<std::int32_t, Difference> noise_;  // by rank
  std::vector<std::int64_t> common_;          // to all ranks, by operation, of its duration
  std::vector<std::int64_t> left_;            // of the group that is sorted, by place
  std::vector<Difference> found_;
};

}  // namespace

std::int64_t Difference::size_ns() const {
  std::int64_t size = 0;
  for (const Part& part : parts) size += std::abs(part.more_ns);
  return size;
}

std::vector<Difference> differences_between(const Operations& operations,
                                            const std::array<Values, 2>& values,
                                            const History& history, bool exact) {
  return Sorter(operations, values, history, exact).run();
}

}  // namespace pipesim
