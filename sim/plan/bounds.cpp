#include "sim/plan/bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "sim/cost/estimate/replicas.h"
#include "sim/engine/topological_evaluation.h"
#include "sim/schedule/shard.h"

namespace pipesim {
namespace {

// Of absurd costs a lower bound still: at most what many may be summed of, and more than any device
// has or anybody waits for.
std::int64_t capped_product(std::int64_t count, std::int64_t each) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() >> 12;
  return count > 0 && each > most / count ? most : count * each;
}

std::vector<HeldInstant> fullest_instants(std::span<const Action> list,
                                          const std::vector<int>& stages) {
  constexpr int weights[] = {0, 1, 2};  // of a residue, a chunk's activations being 2
  HeldInstant held{std::vector<int>(stages.size()), std::vector<int>(stages.size()), -1};
  std::vector<HeldInstant> fullest(std::size(weights), held);
  int most[std::size(weights)] = {};
  int chunks = 0;
  int residues = 0;
  for (const Action& action : list) {
    if (!is_compute(action.kind)) continue;
    const auto own =
        static_cast<std::size_t>(std::ranges::find(stages, action.stage) - stages.begin());
    if (action.kind == Kind::F) {
      ++held.chunks[own];
      ++chunks;
      continue;
    }
    held.backward_stage = action.kind == Kind::W ? -1 : action.stage;
    for (std::size_t w = 0; w < std::size(weights); ++w) {
      const int holds = 2 * chunks + weights[w] * residues;
      if (holds <= most[w]) continue;
      most[w] = holds;
      fullest[w] = held;
    }
    if (action.kind == Kind::W) {
      // Of a W without an I, which is a B's other half elsewhere, nothing was left.
      if (held.residues[own] > 0) {
        --held.residues[own];
        --residues;
      }
      continue;
    }
    --held.chunks[own];
    --chunks;
    if (action.kind == Kind::I) {
      ++held.residues[own];
      ++residues;
    }
  }
  return fullest;
}

ScheduleProfile profile_of(const Family& family, const ScheduleRequest& request) {
  ScheduleProfile profile;
  profile.shape = resolve_shape(family, request);
  const Schedule schedule = generate(family, profile.shape);
  profile.splits_backward = std::ranges::any_of(
      schedule.actions.all(), [](const Action& action) { return action.kind == Kind::I; });
  profile.has_cells = std::ranges::any_of(schedule.actions.all(), &Action::joined);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    profile.ranks.push_back(
        fullest_instants(schedule.actions[rank], schedule.placement.stages_of(rank)));
  }
  profile.windows.resize(static_cast<std::size_t>(schedule.stages()));
  const ReplicaSharding windows{ReplicaSharding::Reduce::never, ReplicaSharding::Gather::window};
  const Schedule gathered = shard(schedule, windows);
  for (const Action& action : gathered.actions.all()) {
    if (action.kind == Kind::UNSHARD) ++profile.windows[static_cast<std::size_t>(action.stage)];
  }
  return profile;
}

// Whether some rank does all forwards before any backward; what it holds grows with all of them.
bool holds_all(const ScheduleProfile& profile) {
  const std::vector<int>& first = profile.ranks.front().front().chunks;
  const int each = profile.shape.microbatches / profile.shape.placement.copies();
  return std::accumulate(first.begin(), first.end(), 0) ==
         each * static_cast<int>(std::ssize(first));
}

// The profile of what holds all of its microbatches, with others.
ScheduleProfile with_all_of(ScheduleProfile profile, const Family& family,
                            const ScheduleRequest& request) {
  const int before = profile.shape.microbatches / profile.shape.placement.copies();
  profile.shape = resolve_shape(family, request);
  const int all = profile.shape.microbatches / profile.shape.placement.copies();
  for (std::vector<HeldInstant>& rank : profile.ranks) {
    for (HeldInstant& instant : rank) {
      for (int& chunk : instant.chunks) chunk += all - before;
    }
  }
  return profile;
}

// The alone-time of what a stage sends to a neighbour, which more traffic can only lengthen.
std::int64_t hop_ns(const Placement& placement, const Costs& costs, int from_stage, int to_stage,
                    int copy, std::int64_t bytes) {
  const int from = placement.rank_of(from_stage, copy);
  const int to = placement.rank_of(to_stage, copy);
  if (from == to) return 0;
  const Link& link = costs.link(from, to);
  return link.latency_ns + costs.occupied_ns(link, bytes);
}

class LeastTime {
 public:
  LeastTime(const ScheduleProfile& profile, int microbatches, const Training& training,
            const Costs& costs, std::span<const std::int64_t> ends)
      : profile_(profile),
        placement_(profile.shape.placement),
        splits_(profile.splits_backward),
        training_(training),
        microbatches_(microbatches),
        costs_(costs),
        ends_(ends),
        ranks_(static_cast<std::size_t>(placement_.ranks())) {}

  std::int64_t find() {
    for (int copy = 0; copy < placement_.copies(); ++copy) go_through_copy(copy);
    const std::int64_t tied_ns = costs_.group_ns(Kind::REDUCE_TIED, placement_);
    // Each rank has its work to do; the chain that ends last ends on one of the first stages'.
    std::int64_t chain = 0;
    std::int64_t ready = 0;
    std::int64_t stepped = 0;
    std::int64_t longest_step = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      const std::int64_t end = through_ns(r) + rank.last_part + reduction_ns(r);
      const std::int64_t before_chain =
          splits_ ? rank.head + rank.work_without_weights : rank.head + rank.work;
      chain = std::max(chain, before_chain + rank.tail);
      ready = std::max(ready, end);
      stepped = std::max(stepped, end + step_ns(r));
      longest_step = std::max(longest_step, step_ns(r));
    }
    std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
    std::int64_t first_step = std::numeric_limits<std::int64_t>::max();
    for (int copy = 0; copy < placement_.copies(); ++copy) {
      const auto r = static_cast<std::size_t>(placement_.rank_of(0, copy));
      const StageCosts& stage = costs_.of(0, copy, placement_);
      const std::int64_t weight = splits_ ? stage.duration_ns(Kind::W) : 0;
      // What a chain ends with there: a backward and what is reduced of it.
      const std::int64_t behind = ranks_[r].last_part + reduction_ns(r) + tied_ns;
      first_end = std::min(first_end, weight + behind);
      first_step = std::min(first_step, weight + behind + step_ns(r));
      ready = std::max(ready, through_ns(r) + behind);
      stepped = std::max(stepped, through_ns(r) + behind + step_ns(r));
    }
    // What a rank exchanges goes through its link one after the other.
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ready = std::max(ready, ranks_[r].exchange);
      stepped = std::max(stepped, ranks_[r].exchange + step_ns(r));
    }
    // Norms wait for all ranks, steps for the norm.
    if (costs_.gradient_norm) {
      return std::max(ready, chain + first_end) + costs_.group_ns(Kind::GRAD_NORM, placement_) +
             longest_step;
    }
    return std::max(stepped, chain + first_step);
  }

 private:
  struct Rank {
    std::int64_t head = std::numeric_limits<std::int64_t>::max();  // before its first action
    std::int64_t tail = std::numeric_limits<std::int64_t>::max();  // behind its last B or I
    std::int64_t work = 0;
    std::int64_t work_without_weights = 0;
    std::int64_t exchange = 0;  // with its replicas
    // Of the last backward that makes gradients a part is reduced behind it, where such parts are.
    std::int64_t last_part = std::numeric_limits<std::int64_t>::max();
  };

  // With its microbatches.
  std::int64_t through_ns(std::size_t r) const {
    const std::int64_t end = ranks_[r].head + ranks_[r].work;
    return ends_.empty() ? end : std::max(end, ends_[r]);
  }
  std::int64_t reduction_ns(std::size_t r) const {
    return costs_.reduce_gradients_ns.empty() ? 0 : costs_.reduce_gradients_ns[r];
  }
  std::int64_t step_ns(std::size_t r) const {
    return costs_.optimizer_ns.empty() ? 0 : costs_.optimizer_ns[r];
  }

  // The first action of a rank is a forward, whose input has come through all stages before; its
  // last backward, weight gradients aside, is of the first of its stages, or another one would
  // follow on the same rank, and its gradient goes through all stages before.
  void go_through_copy(int copy) {
    const std::int64_t count = microbatches_ / placement_.copies();
    std::int64_t head = 0;
    std::int64_t tail = 0;
    for (int s = 0; s < placement_.stages(); ++s) {
      const StageCosts& stage = costs_.of(s, copy, placement_);
      Rank& rank = ranks_[static_cast<std::size_t>(placement_.rank_of(s, copy))];
      const std::int64_t forward = stage.duration_ns(Kind::F);
      const std::int64_t backward = stage.duration_ns(splits_ ? Kind::I : Kind::B);
      rank.head = std::min(rank.head, head);
      rank.tail = std::min(rank.tail, tail);
      // A cell of a forward and a backward of any of the rank's stages may hide so much.
      const std::int64_t hidden =
          capped_product(count, hidden_ns(stage, placement_.rank_of(s, copy)));
      rank.work += capped_product(count, forward + stage.duration_ns(Kind::B)) - hidden;
      rank.work_without_weights += capped_product(count, forward + backward) - hidden;
      rank.exchange += exchange_ns(s, copy, count);
      rank.last_part = std::min(rank.last_part, last_part_ns(stage, placement_.rank_of(s, copy)));
      if (s + 1 == placement_.stages()) break;
      head += forward + hop_ns(placement_, costs_, s, s + 1, copy, stage.output_bytes);
      tail += backward + hop_ns(placement_, costs_, s + 1, s, copy, stage.output_bytes);
    }
  }

  std::int64_t hidden_ns(const StageCosts& stage, int rank) const {
    if (!stage.overlap_ns || !profile_.has_cells) return 0;
    std::int64_t longest = 0;
    for (const int other : placement_.stages_of(rank)) {
      longest =
          std::max(longest, costs_.stages[static_cast<std::size_t>(other)].duration_ns(Kind::B));
    }
    return std::max<std::int64_t>(0, stage.duration_ns(Kind::F) + longest - *stage.overlap_ns);
  }

  // Of a stage, for so many microbatches.
  std::int64_t exchange_ns(int index, int copy, std::int64_t count) const {
    const StageCosts& stage = costs_.of(index, copy, placement_);
    const Link link = costs_.collective_link(placement_.rank_of(index, copy));
    std::int64_t sum = 0;
    if (stage.unshard.exists()) {
      sum +=
          capped_product(gathers(index, count),
                         stage.unshard.latency_ns + costs_.occupied_ns(link, stage.unshard.bytes));
    }
    if (stage.reduce.exists()) {
      sum += capped_product(reduces_each_pass(training_) ? count : 1,
                            stage.reduce.latency_ns + costs_.occupied_ns(link, stage.reduce.bytes));
    }
    return sum;
  }

  // At least; stages with second copies may be gathered for either alone.
  std::int64_t gathers(int index, std::int64_t count) const {
    if (training_.zero < 3 || placement_.copies() > 1) return 1;
    switch (training_.gathers(placement_.stages())) {
      case Gather::pass: return 2 * count;  // for each forward and each backward
      case Gather::window: return profile_.windows[static_cast<std::size_t>(index)];
      default: return 1;
    }
  }

  std::int64_t last_part_ns(const StageCosts& stage, int rank) const {
    if (!stage.reduce.exists()) return 0;
    const std::int64_t bytes = stage.reduce.bytes_of(stage.reduce.parts - 1);
    return costs_.occupied_ns(costs_.collective_link(rank), bytes);
  }

  const ScheduleProfile& profile_;
  const Placement& placement_;
  bool splits_;
  const Training& training_;
  int microbatches_;
  const Costs& costs_;
  std::span<const std::int64_t> ends_;
  std::vector<Rank> ranks_;
};

}  // namespace

const ScheduleProfile& ScheduleProfiles::of(const Family& family, const ScheduleRequest& request) {
  const int chunks = request.chunks.value_or(family.default_chunks);
  const auto find = [&](const ScheduleRequest& one, const auto& make) -> const ScheduleProfile& {
    const std::tuple key{&family, one.ranks, chunks, one.microbatches};
    auto found = profiles_.find(key);
    if (found == profiles_.end()) found = profiles_.emplace(key, make()).first;
    return found->second;
  };
  const ScheduleRequest few = few_of(request);
  const ScheduleProfile& profile = find(few, [&] { return profile_of(family, few); });
  if (few.microbatches == request.microbatches || !holds_all(profile)) return profile;
  return find(request, [&] { return with_all_of(profile, family, request); });
}

ScheduleRequest ScheduleProfiles::few_of(ScheduleRequest request) {
  // Every family is in its steady state after as many as this, and takes so many.
  constexpr std::int64_t fills = 4;
  request.microbatches =
      static_cast<int>(std::min<std::int64_t>(request.microbatches, fills * request.ranks));
  return request;
}

Costs without_replicas(Costs costs) {
  costs.optimizer_ns.clear();
  costs.reduce_gradients_ns.clear();
  costs.tied_gradients.reset();
  costs.gradient_norm.reset();
  for (StageCosts& stage : costs.stages) stage.reduce = stage.unshard = {};
  return costs;
}

// Ranks keep to their lists whatever happens, and no transfer is over sooner than alone: by
// induction along the lists and messages nothing starts or ends sooner than here.
std::vector<std::int64_t> least_ends(const Schedule& schedule, const Costs& costs) {
  const Costs alone = without_replicas(costs);
  const SimulationOptions once;
  const Metrics metrics = evaluate_alone(schedule, prepare(schedule, alone, once));
  std::vector<std::int64_t> ends;
  for (const RankMetrics& rank : metrics.ranks) ends.push_back(rank.last_end_ns);
  return ends;
}

std::int64_t least_time(const ScheduleProfile& profile, int microbatches, const Training& training,
                        const Costs& costs, std::span<const std::int64_t> ends) {
  return LeastTime(profile, microbatches, training, costs, ends).find();
}

std::int64_t least_memory(const ScheduleProfile& profile, const Costs& costs,
                          const std::vector<std::int64_t>& states) {
  const Placement& placement = profile.shape.placement;
  std::int64_t most = 0;
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const std::vector<int>& stages = placement.stages_of(rank);
    for (const HeldInstant& instant : profile.ranks[static_cast<std::size_t>(rank)]) {
      std::int64_t bytes = states[static_cast<std::size_t>(rank)];
      // It computes with whole weights.
      if (instant.backward_stage >= 0) {
        const StageCosts& stage = costs.stages[static_cast<std::size_t>(instant.backward_stage)];
        bytes += stage.workspace_bytes + (stage.unshard.exists() ? stage.unsharded_bytes : 0);
      }
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const StageCosts& stage = costs.stages[static_cast<std::size_t>(stages[i])];
        bytes += capped_product(instant.chunks[i], stage.activation_bytes) +
                 capped_product(instant.residues[i], stage.weight_residue_bytes);
      }
      most = std::max(most, bytes);
    }
  }
  return most;
}

}  // namespace pipesim
