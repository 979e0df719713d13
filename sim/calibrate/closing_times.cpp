#include "sim/calibrate/closing_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "sim/calibrate/exchange_times.h"
#include "sim/calibrate/samples.h"
#include "sim/calibrate/split_sums.h"
#include "sim/cost/estimate/direct_exchange.h"

namespace pipesim {
namespace {

// The closing actions of each rank, iteration by iteration.
struct Closing {
  explicit Closing(int ranks)
      : reduction(static_cast<std::size_t>(ranks)), optimizer(static_cast<std::size_t>(ranks)) {}

  std::vector<Samples> reduction, optimizer;                            // by rank
  std::int64_t makespan_ns = std::numeric_limits<std::int64_t>::max();  // the least
};

// What a run's optimizer steps include besides stepping all states.
struct StepExtras {
  bool waits_apart = false;             // collectives have their own times
  int shards = 1;                       // each steps a part
  std::vector<std::int64_t> gather_ns;  // by rank

  std::int64_t whole_ns(std::size_t rank, std::int64_t took_ns) const {
    const std::int64_t gathered = gather_ns.empty() ? 0 : gather_ns[rank];
    return std::max<std::int64_t>(0, took_ns - gathered) * shards;
  }
};

StepExtras extras_of(const RecordedRun& run, bool by_layer,
                     const std::optional<ReplicaCosts>& replicas,
                     const std::vector<StageCosts>& entries) {
  StepExtras extras;
  if (!replicas || run.about.replicas == 1) return extras;
  extras.waits_apart = true;
  extras.shards = shards_of(run.about, 1);
  const Training training = replicas_of(run.about);
  if (training.zero == 3 || training.shards() == 1) return extras;
  // As in a prediction with an optimizer that takes no time.
  Costs costs;
  costs.replicas = replicas;
  for (const auto& [first, last] : entries_of_stages(run.about, by_layer)) {
    StageCosts& stage = costs.stages.emplace_back();
    for (std::size_t i = first; i < last; ++i) {
      const std::vector<std::int64_t>& own = entries[i].parameters;
      stage.parameters.insert(stage.parameters.end(), own.begin(), own.end());
    }
  }
  add_exchanges(training, placement_of(run), costs);
  extras.gather_ns = std::move(costs.optimizer_ns);
  return extras;
}

void observe_closing(const RecordedRun& run, const RecordedIteration& iteration,
                     const StepExtras& extras, Closing& all) {
  struct Rank {
    std::int64_t reduction_ns = 0, optimizer_ns = 0;  // taken together
    std::int64_t reduction_start_ns = 0, optimizer_start_ns = 0;
    bool reduces = false, steps = false;
  };
  std::map<std::int32_t, Rank> ranks;  // with closing actions
  bool computes = false;
  bool waits_by_action = false;  // blocking collectives are recorded, without waiting
  std::int64_t computed_ns = iteration.start_ns;  // by all ranks
  std::int64_t reduced_ns = computed_ns;
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
    const Span& span = run.spans[i];
    if (is_compute(span.action.kind)) {
      computes = true;
      computed_ns = std::max(computed_ns, span.end_ns);
    }
    if (is_collective(span.action)) {
      if (extras.waits_apart) reduced_ns = std::max(reduced_ns, span.end_ns);
      continue;
    }
    if (is_blocking_collective(span.action.kind)) {
      waits_by_action = true;
    } else if (span.action.kind == Kind::REDUCE_GRAD) {
      Rank& rank = ranks[span.rank];
      if (!std::exchange(rank.reduces, true)) rank.reduction_start_ns = span.start_ns;
      rank.reduction_ns += span.end_ns - span.start_ns;
      reduced_ns = std::max(reduced_ns, span.end_ns);
    } else if (span.action.kind == Kind::OPTIMIZER) {
      Rank& rank = ranks[span.rank];
      if (!std::exchange(rank.steps, true)) rank.optimizer_start_ns = span.start_ns;
      rank.optimizer_ns += span.end_ns - span.start_ns;
    }
  }
  reduced_ns = std::max(reduced_ns, computed_ns);
  // If no compute action was kept, it is not known what a rank waited for.
  const auto since = [&](std::int64_t start_ns, std::int64_t from_ns) {
    return computes && !waits_by_action ? std::max<std::int64_t>(0, start_ns - from_ns) : 0;
  };
  for (const auto& [number, rank] : ranks) {
    const auto r = static_cast<std::size_t>(number);
    if (rank.reduces) {
      all.reduction[r].add(rank.reduction_ns + since(rank.reduction_start_ns, computed_ns));
    }
    if (rank.steps) {
      all.optimizer[r].add(
          extras.whole_ns(r, rank.optimizer_ns + since(rank.optimizer_start_ns, reduced_ns)));
    }
  }
  all.makespan_ns = std::min(all.makespan_ns, iteration.makespan_ns);
}

// One number for all ranks if they differ by no more than an iteration's own noise, or, measured,
// by 0.5 % of it; else one per rank.
void set_closing(const std::vector<Samples>& ranks, std::int64_t tolerance_ns,
                 std::optional<std::int64_t>& every, std::vector<std::int64_t>& by_rank) {
  if (std::ranges::all_of(ranks, &Samples::empty)) return;
  double sum = 0;
  for (const Samples& samples : ranks) {
    by_rank.push_back(samples.typical_ns());
    sum += samples.typical();
    tolerance_ns = std::max(tolerance_ns, samples.quantile(0.9) - samples.quantile(0.1));
  }
  const auto [least, most] = std::ranges::minmax(by_rank);
  if (most - least > tolerance_ns) return;
  every = std::llround(sum / static_cast<double>(ranks.size()));
  by_rank.clear();
}

// Distributes each rank's time over its layers, by their size.
void deal_to_layers(const std::vector<Samples>& ranks, const RunDescription& about,
                    const Dealer& dealer, std::vector<PartsSum>& sums) {
  const Dealer::Sums own = dealer.sums_of(about);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].empty()) sums.push_back(own.of_rank(rank, ranks[rank].typical()));
  }
}

// For a blocking collective in the runs; a single rank exchanges nothing.
std::optional<GroupCosts> group_costs(std::span<const RecordedRun* const> runs, Kind kind) {
  Samples samples;
  bool exists = false;
  for (const RecordedRun* run : runs) {
    const std::vector<int>& homes = run->about.rank_of_stage;
    const int ends = homes.empty() || homes.front() == homes.back() ? 1 : 2;
    const auto size = static_cast<std::size_t>(kind == Kind::REDUCE_TIED ? ends : run->ranks);
    for (const RecordedIteration& iteration : run->iterations) {
      std::vector<std::int64_t> times;
      for (const Span& span : run->spans_of(iteration)) {
        if (span.action.kind == kind) times.push_back(span.end_ns - span.start_ns);
      }
      if (times.size() != size) continue;  // a part is missing, or there is none
      exists = true;
      if (size == 1) continue;
      for (const std::int64_t time : times) samples.add(time);
    }
  }
  if (!exists) return std::nullopt;
  return GroupCosts{.latency_ns = samples.typical_ns()};
}

void observe(const RecordedRun& run, const StepExtras& extras, Closing& closing) {
  for (const RecordedIteration& iteration : run.iterations) {
    observe_closing(run, iteration, extras, closing);
  }
}

}  // namespace

void set_closing_times(std::span<const RecordedRun* const> runs, bool by_layer, CostsFile& costs,
                       std::vector<StageCosts>& layers) {
  const RecordedRun& first = *runs.front();
  costs.costs.tied_gradients = group_costs(runs, Kind::REDUCE_TIED);
  costs.costs.gradient_norm = group_costs(runs, Kind::GRAD_NORM);
  if (by_layer) {
    const Dealer dealer(first.about, true, layers);
    std::vector<PartsSum> reduction, optimizer;
    for (const RecordedRun* run : runs) {
      Closing closing(run->ranks);
      observe(*run, extras_of(*run, true, costs.costs.replicas, layers), closing);
      deal_to_layers(closing.reduction, run->about, dealer, reduction);
      deal_to_layers(closing.optimizer, run->about, dealer, optimizer);
    }
    dealer.deal(reduction, Dealer::By::parameters, &StageCosts::reduce_gradients_ns, layers);
    dealer.deal(optimizer, Dealer::By::parameters, &StageCosts::optimizer_ns, layers);
    return;
  }
  Closing closing(first.ranks);
  for (const RecordedRun* run : runs) {
    observe(*run, extras_of(*run, false, costs.costs.replicas, layers), closing);
  }
  const bool predicted = first.about.source == Source::predicted;
  const std::int64_t tolerance_ns = predicted ? 0 : closing.makespan_ns / 200;
  set_closing(closing.optimizer, tolerance_ns, costs.optimizer_ns, costs.costs.optimizer_ns);
  set_closing(closing.reduction, tolerance_ns, costs.reduce_gradients_ns,
              costs.costs.reduce_gradients_ns);
}

}  // namespace pipesim
