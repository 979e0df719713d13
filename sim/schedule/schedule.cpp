#include "sim/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/schedule/closing.h"
#include "traces/action_key.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

using Seen = std::uint8_t;  // one bit per kind, F..RECV_B

constexpr Seen bit(Kind kind) { return static_cast<Seen>(1U << static_cast<unsigned>(kind)); }
constexpr unsigned backward_bits = bit(Kind::I) | bit(Kind::B);

// One pass over the lists with a bit for each (stage, microbatch, kind) done.
class Checker {
 public:
  explicit Checker(const Schedule& schedule)
      : schedule_(schedule), transfers_(schedule.has_transfers()) {}

  std::optional<ScheduleFault> run() {
    if (auto fault = find_short_stage()) return fault;
    seen_.resize(static_cast<std::size_t>(schedule_.stages()) *
                 static_cast<std::size_t>(schedule_.microbatches));
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto list = schedule_.actions[rank];
      for (std::size_t i = 0; i < list.size(); ++i) {
        std::string rule = rule_broken_by(rank, list[i]);
        if (rule.empty() && i > 0 && list[i - 1].joined)
          rule = pair_broken_by(list[i - 1], list[i]);
        if (!rule.empty()) return ScheduleFault{rank, i, std::move(rule)};
        if (takes_microbatch(list[i].kind)) seen(list[i]) |= bit(list[i].kind);
      }
      if (!list.empty() && list.back().joined) {
        return ScheduleFault{rank, list.size() - 1, "a joined cell has nothing after it"};
      }
    }
    if (auto fault = find_missing()) return fault;
    if (auto fault = find_wrong_end()) return fault;
    return find_wrong_dependency();
  }

 private:
  std::size_t slot(const Action& action) const {
    return static_cast<std::size_t>(action.stage) *
               static_cast<std::size_t>(schedule_.microbatches) +
           static_cast<std::size_t>(action.microbatch);
  }
  Seen& seen(const Action& action) { return seen_[slot(action)]; }

  // A stage with fewer forwards than microbatches. Comes first: it bounds
  // stages x microbatches, the size of `seen_`, by the number of actions.
  std::optional<ScheduleFault> find_short_stage() const {
    std::vector<std::int64_t> forwards(static_cast<std::size_t>(schedule_.stages()));
    for (const Action& action : schedule_.actions.all()) {
      if (action.kind == Kind::F) ++forwards[static_cast<std::size_t>(action.stage)];
    }
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const std::int64_t count = forwards[static_cast<std::size_t>(stage)];
      if (count >= schedule_.microbatches) continue;
      const int rank = schedule_.placement.rank_of(stage);
      return ScheduleFault{
          rank, schedule_.actions[rank].size(),
          fmt::format("stage {} has {} of {} forwards; every stage needs one per microbatch", stage,
                      count, schedule_.microbatches)};
    }
    return std::nullopt;
  }

  std::string rule_broken_by(int rank, const Action& action) {
    const Kind kind = action.kind;
    if (kind == Kind::IDLE) return {};
    const std::string text = to_text(action);
    if (std::string rule = misplaced(rank, action); !rule.empty()) return rule;
    if (!takes_microbatch(kind)) return {};
    const Seen done = seen(action);
    if ((done & bit(kind)) != 0) return fmt::format("{} is done twice", text);
    const auto before = [&](Kind needed) {
      return fmt::format("{} needs {} before it", text,
                         to_text(make_action(action.stage, needed, action.microbatch)));
    };
    switch (kind) {
      case Kind::F:
        if (transfers_ && crosses(action, -1) && (done & bit(Kind::RECV_F)) == 0) {
          return before(Kind::RECV_F);
        }
        return {};
      case Kind::I:
      case Kind::B:
        if ((done & backward_bits) != 0) {
          return fmt::format("{} repeats a backward: B already holds I and W", text);
        }
        if ((done & bit(Kind::F)) == 0) return before(Kind::F);
        if (transfers_ && crosses(action, 1) && (done & bit(Kind::RECV_B)) == 0) {
          return before(Kind::RECV_B);
        }
        return {};
      case Kind::W:
        if ((done & bit(Kind::B)) != 0) {
          return fmt::format("{} repeats a weight gradient: B already holds I and W", text);
        }
        return (done & bit(Kind::I)) == 0 ? before(Kind::I) : std::string();
      case Kind::SEND_F:
        if (!crosses(action, 1)) return needless(text, action.stage, 1);
        return (done & bit(Kind::F)) == 0 ? before(Kind::F) : std::string();
      case Kind::SEND_B:
        if (!crosses(action, -1)) return needless(text, action.stage, -1);
        return (done & backward_bits) == 0 ? before(Kind::B) : std::string();
      case Kind::RECV_F:
        return crosses(action, -1) ? std::string() : needless(text, action.stage, -1);
      default: return crosses(action, 1) ? std::string() : needless(text, action.stage, 1);
    }
  }

  std::string misplaced(int rank, const Action& action) const {
    const Placement& placement = schedule_.placement;
    const bool by_copy = placement.copies() > 1 && takes_microbatch(action.kind);
    const int home = by_copy ? placement.rank_of(action) : placement.rank_of(action.stage);
    if (by_copy ? home == rank : placement.has(rank, action.stage)) return {};
    return fmt::format("{} is on rank {}, but stage {} lives on rank {}{}", to_text(action), rank,
                       action.stage, home, by_copy ? " for this microbatch" : "");
  }

  std::string pair_broken_by(const Action& first, const Action& second) const {
    if (is_transfer(first.kind) && is_transfer(second.kind)) return {};
    if (first.kind != Kind::F || !is_backward(second.kind)) {
      return fmt::format("{} and {} cannot share a cell: OVERLAP_F_B joins an F with an I or B",
                         to_text(first), to_text(second));
    }
    if (first.stage == second.stage && first.microbatch == second.microbatch) {
      return fmt::format("{} needs {} and so cannot overlap it", to_text(second), to_text(first));
    }
    return {};
  }

  // Whether the neighbour in that direction exists and is on another rank.
  bool crosses(const Action& action, int direction) const {
    const int neighbour = action.stage + direction;
    if (neighbour < 0 || neighbour >= schedule_.stages()) return false;
    const int copy = schedule_.placement.copy_of(action.microbatch);
    return schedule_.placement.rank_of(neighbour, copy) !=
           schedule_.placement.rank_of(action.stage, copy);
  }

  std::string needless(const std::string& text, int stage, int direction) const {
    const int neighbour = stage + direction;
    if (neighbour < 0 || neighbour >= schedule_.stages()) {
      return fmt::format("{} has no other end: there is no stage {}", text, neighbour);
    }
    return fmt::format("{} has its other end on its own rank: no transfer is needed", text);
  }

  std::optional<ScheduleFault> find_missing() {
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
        const Action forward = make_action(stage, Kind::F, microbatch);
        unsigned needed = bit(Kind::F);
        if (transfers_ && crosses(forward, 1)) needed |= bit(Kind::SEND_F) | bit(Kind::RECV_B);
        if (transfers_ && crosses(forward, -1)) needed |= bit(Kind::RECV_F) | bit(Kind::SEND_B);
        const unsigned done = seen(forward);
        const unsigned backward =
            (done & bit(Kind::I)) != 0 ? bit(Kind::I) | bit(Kind::W) : bit(Kind::B);
        const unsigned missing = (needed | backward) & ~done;
        if (missing == 0) continue;
        int kind = 0;
        while ((missing & bit(static_cast<Kind>(kind))) == 0) ++kind;
        const int rank = schedule_.placement.rank_of(forward);
        return ScheduleFault{
            rank, schedule_.actions[rank].size(),
            fmt::format("{} is missing",
                        to_text(make_action(stage, static_cast<Kind>(kind), microbatch)))};
      }
    }
    return std::nullopt;
  }

  // An action that comes too late for its stage's last reduction or its rank's end, or is missing
  // before the next iteration.
  std::optional<ScheduleFault> find_wrong_end() const {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      if (auto fault = find_wrong_end(rank, schedule_.actions[rank])) return fault;
    }
    for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
      if (auto fault = find_incomplete_group(kind)) return fault;
    }
    return std::nullopt;
  }

  std::optional<ScheduleFault> find_wrong_end(int rank, std::span<const Action> list) const {
    const auto fault = [&](std::size_t index, std::string_view rule) {
      return ScheduleFault{rank, index, fmt::format("{} {}", to_text(list[index]), rule)};
    };
    std::map<std::int32_t, std::size_t> reduced;   // by stage, its last index
    std::map<std::int32_t, std::size_t> gathered;  // likewise, not released yet
    std::optional<std::size_t> ending;             // the index of the last closing action
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Kind kind = list[i].kind;
      const bool ends = ends_iteration(kind);
      if (ending && ends && kind == list[*ending].kind) {
        return fault(i, "is its rank's second; there is one per iteration");
      }
      const bool is_late = ends ? ending && kind < list[*ending].kind
                                : ending && kind != Kind::RESHARD && kind != Kind::IDLE;
      if (is_late) {
        const bool makes_gradients = kind == Kind::B || kind == Kind::W;
        return fault(i, makes_gradients
                            ? fmt::format("makes gradients after {}, which needs them",
                                          to_text(list[*ending]))
                            : fmt::format("comes after {}, which ends its rank's iteration",
                                          to_text(list[*ending])));
      }
      if (kind == Kind::REDUCE_TIED && list[i].stage != 0 &&
          list[i].stage + 1 != schedule_.stages()) {
        return fault(i, "shares no matrix: only the first and the last stage do");
      }
      if (ends) ending = i;
      if (kind == Kind::REDUCE_GRAD) reduced[list[i].stage] = i;
      if (kind == Kind::UNSHARD) gathered[list[i].stage] = i;
      if (kind == Kind::RESHARD) gathered.erase(list[i].stage);
    }
    for (std::size_t i = 0; i < list.size() && !reduced.empty(); ++i) {
      if (list[i].kind != Kind::B && list[i].kind != Kind::W) continue;
      const auto last = reduced.find(list[i].stage);
      if (last == reduced.end() || last->second > i) continue;
      return fault(i, fmt::format("makes gradients after the last {}, which are then never reduced",
                                  to_text(list[last->second])));
    }
    if (gathered.empty()) return std::nullopt;
    const auto& [stage, index] = *gathered.begin();
    return fault(index, fmt::format("is never released; put {} after its last use",
                                    to_text(make_action(stage, Kind::RESHARD))));
  }

  // A blocking collective that a rank of its group never reaches.
  std::optional<ScheduleFault> find_incomplete_group(Kind kind) const {
    std::vector<int> missing;
    std::optional<ScheduleFault> found;
    for (const int rank : group_of(kind, schedule_.placement)) {
      const auto list = schedule_.actions[rank];
      const auto own = std::ranges::find(list, kind, &Action::kind);
      if (own == list.end()) {
        missing.push_back(rank);
      } else if (!found) {
        found = {rank, static_cast<std::size_t>(own - list.begin()), to_text(*own)};
      }
    }
    if (!found || missing.empty()) return std::nullopt;
    found->rule +=
        fmt::format(" waits for rank {}, which has no {}", missing.front(), kind_name(kind));
    return found;
  }

  std::optional<ScheduleFault> find_wrong_dependency() const {
    if (schedule_.dependencies.empty()) return std::nullopt;
    std::map<ActionKey, ActionKey> partners;  // within a cell, in both directions
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto list = schedule_.actions[rank];
      for (std::size_t i = 1; i < list.size(); ++i) {
        if (!list[i - 1].joined || !is_compute(list[i].kind)) continue;
        partners[ActionKey(list[i])] = ActionKey(list[i - 1]);
        partners[ActionKey(list[i - 1])] = ActionKey(list[i]);
      }
    }
    std::map<ActionKey, std::set<ActionKey>> awaited;
    for (std::size_t i = 0; i < schedule_.dependencies.size(); ++i) {
      const Dependency& dependency = schedule_.dependencies[i];
      std::set<ActionKey>& known = awaited[ActionKey(dependency.action)];
      std::string rule = rule_broken_by(dependency, known);
      const auto partner = partners.find(ActionKey(dependency.action));
      const ActionKey other(dependency.awaited);
      if (rule.empty() && partner != partners.end() && partner->second == other) {
        rule = fmt::format("{} waits for {}, with which it shares a cell",
                           to_text(dependency.action), to_text(dependency.awaited));
      }
      if (!rule.empty()) return ScheduleFault{0, 0, std::move(rule), i};
      known.insert(other);
    }
    return std::nullopt;
  }

  // The rule that a dependency breaks, together with those of the same action.
  std::string rule_broken_by(const Dependency& dependency, const std::set<ActionKey>& known) const {
    const auto& [action, awaited] = dependency;
    for (const Action& one : {action, awaited}) {
      if (std::string rule = absence_of(one); !rule.empty()) return rule;
    }
    const std::string text = to_text(action);
    if (is_receive(action.kind)) {
      Action needs = compute_at(action);
      if (!exists(needs)) needs.kind = Kind::I;
      return fmt::format("{} waits for nothing but its SEND; let {} wait", text, to_text(needs));
    }
    if (action == awaited) return fmt::format("{} waits for itself", text);
    if (known.contains(ActionKey(awaited))) {
      return fmt::format("{} waits for {} twice", text, to_text(awaited));
    }
    if (known.size() == Dependency::max_awaited) {
      return fmt::format("{} waits for more than {} actions", text, Dependency::max_awaited);
    }
    return {};
  }

  // What is wrong with an end of a dependency; empty if nothing.
  std::string absence_of(const Action& action) const {
    if (!takes_microbatch(action.kind)) {
      return fmt::format("{} has no microbatch; F, I, W, B and SEND may wait, for these or a RECV",
                         to_text(action));
    }
    return exists(action) ? std::string()
                          : fmt::format("{} is not in the schedule", to_text(action));
  }

  // For an action with a microbatch.
  bool exists(const Action& action) const {
    return action.stage < schedule_.stages() && action.microbatch < schedule_.microbatches &&
           (seen_[slot(action)] & bit(action.kind)) != 0;
  }

  const Schedule& schedule_;
  bool transfers_;
  std::vector<Seen> seen_;
};

}  // namespace

bool Schedule::has_transfers() const {
  return std::ranges::any_of(actions.all(), [](const Action& a) { return is_transfer(a.kind); });
}

std::vector<int> group_of(Kind blocking_collective, const Placement& placement) {
  if (blocking_collective == Kind::GRAD_NORM) {
    std::vector<int> all(static_cast<std::size_t>(placement.ranks()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const auto [first, last] =
      std::minmax({placement.rank_of(0), placement.rank_of(placement.stages() - 1)});
  if (first == last) return {first};
  return {first, last};
}

std::optional<ScheduleFault> find_fault(const Schedule& schedule) {
  return Checker(schedule).run();
}

}  // namespace pipesim
