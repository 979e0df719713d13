#include "tests/random_schedule.h"

#include <algorithm>
#include <vector>

namespace pipesim::testing {

namespace {

// One execution at random, for a schedule that has its placement.
void write_down(Schedule& schedule, std::mt19937_64& random) {
  schedule.name = "random";
  const int ranks = schedule.placement.ranks();
  const int stages = schedule.stages();
  const int microbatches = schedule.microbatches;
  // done[s][mb]: 0 nothing, 1 F, 2 I (W is owed), 3 all.
  std::vector<std::vector<int>> done(static_cast<std::size_t>(stages),
                                     std::vector<int>(static_cast<std::size_t>(microbatches)));
  const auto state = [&](int s, int mb) -> int& {
    return done[static_cast<std::size_t>(s)][static_cast<std::size_t>(mb)];
  };
  std::vector<std::vector<Action>> lists(static_cast<std::size_t>(ranks));
  const bool overlap = pick(random, 0, 3) == 0;
  for (;;) {
    std::vector<Action> possible;
    for (int s = 0; s < stages; ++s) {
      for (int mb = 0; mb < microbatches; ++mb) {
        const int now = state(s, mb);
        if (now == 0 && (s == 0 || state(s - 1, mb) > 0)) {
          possible.push_back(make_action(s, Kind::F, mb));
        } else if (now == 1 && (s + 1 == stages || state(s + 1, mb) > 1)) {
          possible.push_back(make_action(s, pick(random, 0, 1) == 0 ? Kind::I : Kind::B, mb));
        } else if (now == 2) {
          possible.push_back(make_action(s, Kind::W, mb));
        }
      }
    }
    if (possible.empty()) break;
    const auto choose = [&](const std::vector<Action>& from) {
      return from[static_cast<std::size_t>(
          pick(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
    };
    Action action = choose(possible);
    const int rank = schedule.placement.rank_of(action);
    auto& list = lists[static_cast<std::size_t>(rank)];
    const auto apply = [&](const Action& a) {
      list.push_back(a);
      state(a.stage, a.microbatch) = a.kind == Kind::F ? 1 : (a.kind == Kind::I ? 2 : 3);
    };
    // A backward possible now, on the same rank, may share the forward's cell.
    std::vector<Action> partners;
    for (const Action& other : possible) {
      if (is_backward(other.kind) && schedule.placement.rank_of(other) == rank) {
        partners.push_back(other);
      }
    }
    const bool join =
        overlap && action.kind == Kind::F && !partners.empty() && pick(random, 0, 1) == 0;
    action.joined = join;
    apply(action);
    if (join) apply(choose(partners));
    if (pick(random, 0, 9) == 0) list.push_back({});
  }
  for (const auto& list : lists) schedule.actions.add_rank(list);
}

}  // namespace

Schedule random_schedule(std::mt19937_64& random) {
  const int ranks = static_cast<int>(pick(random, 1, 5));
  const int stages = static_cast<int>(pick(random, ranks, 8));
  const int microbatches = static_cast<int>(pick(random, 1, 6));
  std::vector<int> rank_of_stage;
  for (int s = 0; s < stages; ++s) {
    rank_of_stage.push_back(s < ranks ? s : static_cast<int>(pick(random, 0, ranks - 1)));
  }
  for (std::size_t i = rank_of_stage.size(); i > 1; --i) {
    std::swap(
        rank_of_stage[i - 1],
        rank_of_stage[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(i) - 1))]);
  }
  Schedule schedule;
  schedule.microbatches = microbatches;
  schedule.placement = Placement(rank_of_stage);
  write_down(schedule, random);
  return schedule;
}

Schedule random_schedule_with_copies(std::mt19937_64& random) {
  const int pairs = static_cast<int>(pick(random, 1, 2));
  const int stages = static_cast<int>(pick(random, 2 * pairs, 6));
  std::vector<int> first;
  std::vector<int> second;
  for (int s = 0; s < stages; ++s) {
    const int pair = s < pairs ? s : static_cast<int>(pick(random, 0, pairs - 1));
    const int one = static_cast<int>(pick(random, 0, 1));
    first.push_back(2 * pair + one);
    second.push_back(2 * pair + 1 - one);
  }
  Schedule schedule;
  schedule.microbatches = 2 * static_cast<int>(pick(random, 1, 3));
  schedule.placement = Placement(first, second, schedule.microbatches);
  write_down(schedule, random);
  return schedule;
}

void shuffle(Schedule& program, std::mt19937_64& random) {
  constexpr int swaps = 8;  // tried in each list
  for (int r = 0; r < program.ranks(); ++r) {
    const auto list = program.actions[r];
    for (int i = 0; i < swaps && list.size() > 1; ++i) {
      const auto k =
          static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(list.size()) - 2));
      if (list[k].joined || list[k + 1].joined || (k > 0 && list[k - 1].joined)) continue;
      std::swap(list[k], list[k + 1]);
      if (find_fault(program)) std::swap(list[k], list[k + 1]);
    }
  }
}

void add_dependencies(Schedule& program, std::mt19937_64& random) {
  const auto all = program.actions.all();
  const auto any = [&] {
    Action action =
        all[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(all.size()) - 1))];
    action.joined = false;
    return action;
  };
  for (std::int64_t left = pick(random, 1, 3); left > 0; --left) {
    program.dependencies.push_back({any(), any()});
    if (find_fault(program)) program.dependencies.pop_back();
  }
}

Costs costs_of(int stages, std::int64_t forward, std::int64_t backward, std::int64_t latency) {
  StageCosts stage;
  stage.forward_ns = forward;
  stage.split_backward(backward);
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), stage);
  costs.p2p.latency_ns = latency;
  return costs;
}

Costs random_costs(std::mt19937_64& random, const Schedule& schedule) {
  Costs costs;
  const std::int64_t coarse = pick(random, 0, 1) == 0 ? 5 : 1000;  // ties, or hardly any
  for (int s = 0; s < schedule.stages(); ++s) {
    StageCosts stage;
    stage.forward_ns = pick(random, 0, coarse);
    stage.backward_input_ns = pick(random, 0, coarse);
    stage.backward_weight_ns = pick(random, 0, coarse);
    if (pick(random, 0, 2) == 0) stage.overlap_ns = pick(random, 0, 2 * coarse);
    stage.activation_bytes = pick(random, 0, 100);
    stage.weight_residue_bytes = pick(random, 0, 120);
    stage.output_bytes = pick(random, 0, 50);
    stage.workspace_bytes = pick(random, 0, 1) * pick(random, 0, 80);
    costs.stages.push_back(stage);
  }
  costs.p2p.latency_ns = pick(random, 0, 2) * pick(random, 0, coarse);
  for (int from = 0; from < schedule.ranks(); ++from) {
    const int to = static_cast<int>(pick(random, 0, schedule.ranks() - 1));
    if (from != to && pick(random, 0, 3) == 0)
      costs.edges[{from, to}] = {pick(random, 0, coarse), {}};
  }
  const auto closing = [&](std::vector<std::int64_t>& values) {
    if (pick(random, 0, 3) != 0) return;
    for (int r = 0; r < schedule.ranks(); ++r) values.push_back(pick(random, 0, coarse));
  };
  closing(costs.optimizer_ns);
  closing(costs.reduce_gradients_ns);
  std::mt19937_64 own = random;  // what comes next does not depend on these
  for (auto* group : {&costs.tied_gradients, &costs.gradient_norm}) {
    if (pick(own, 0, 3) == 0) *group = GroupCosts{.latency_ns = pick(own, 0, coarse)};
  }
  // Second copies that take other times.
  if (schedule.placement.copies() > 1 && pick(own, 0, 1) == 0) {
    for (int s = 0; s < schedule.stages(); ++s) {
      StageCosts stage = costs.stages[static_cast<std::size_t>(s)];
      stage.forward_ns = pick(own, 0, coarse);
      stage.backward_input_ns = pick(own, 0, coarse);
      costs.stages.push_back(stage);
    }
  }
  return costs;
}

void add_messages(Costs& costs, std::mt19937_64 random) {
  const std::int64_t most = pick(random, 0, 1) == 0 ? 3 : 300;
  for (StageCosts& stage : costs.stages) {
    for (std::int64_t* ns : {&stage.forward_messages_ns, &stage.backward_messages_ns}) {
      *ns = pick(random, 0, 1) * pick(random, 0, most);
    }
  }
}

Costs without_bytes(Costs costs) {
  for (StageCosts& stage : costs.stages) stage.output_bytes = 0;
  return costs;
}

void take_time(Costs& costs) {
  for (StageCosts& stage : costs.stages) {
    for (std::int64_t* ns :
         {&stage.forward_ns, &stage.backward_input_ns, &stage.backward_weight_ns}) {
      ++*ns;
    }
    if (stage.overlap_ns) ++*stage.overlap_ns;
  }
  ++costs.p2p.latency_ns;
  for (auto& [edge, link] : costs.edges) ++link.latency_ns;
}

}  // namespace pipesim::testing
