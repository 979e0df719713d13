#include "sim/advice/remedies.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/cost/estimate/replicas.h"
#include "sim/schedule/shard.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

struct Change {
  std::string what;
  std::function<void(Training&)> apply;
};

// By kind, the mildest first.
std::vector<std::vector<Change>> changes_of(const Training& now, const Model& model) {
  std::vector<std::vector<Change>> kinds;
  const bool has_attention = !model.is_listed() && model.architecture != Architecture::mlp;
  if (has_attention && now.attention == Attention::unfused) {
    kinds.push_back({{"fused attention", [](Training& t) { t.attention = Attention::fused; }}});
  }
  auto& recomputation = kinds.emplace_back();
  if (has_attention && !now.recompute.full) {
    if (!now.recompute.attention) {
      recomputation.push_back(
          {"selective recomputation", [](Training& t) { t.recompute.attention = true; }});
    }
    // Fused attention keeps next to nothing that its core would make again.
    Recompute more = now.recompute;
    more.norms = more.activation = true;
    if (now.attention == Attention::unfused) more.attention = true;
    if (more != now.recompute) {
      recomputation.push_back({"recomputation of " + recompute_words(more),
                               [more](Training& t) { t.recompute = more; }});
    }
  }
  if (!model.is_listed() && now.recompute != Recompute{.full = true}) {
    recomputation.push_back(
        {"full recomputation", [](Training& t) { t.recompute = {.full = true}; }});
  }
  if (now.tensor_parallel > 1 && !now.sequence_parallel) {
    kinds.push_back({{"sequence parallelism", [](Training& t) { t.sequence_parallel = true; }}});
  }
  auto& sharding = kinds.emplace_back();
  for (int zero = now.zero + 1; now.data_parallel > 1 && zero <= 3; ++zero) {
    sharding.push_back({"ZeRO " + std::to_string(zero), [zero](Training& t) { t.zero = zero; }});
  }
  return kinds;
}

// The schedule without what its training added; what it lists itself stays.
Schedule as_given(const Schedule& schedule, const Training& training) {
  Schedule plain = without_replicas(schedule);
  const Schedule completed = with_replicas(plain, training);
  const bool is_added = std::ranges::equal(completed.actions.all(), schedule.actions.all());
  return is_added ? std::move(plain) : schedule;
}

class Trials {
 public:
  Trials(const CostModel& model, const PipelineShape& shape, const Schedule& schedule,
         const Transfers& transfers, std::int64_t memory_bytes)
      : model_(model),
        shape_(shape),
        schedule_(as_given(schedule, model.training())),
        memory_bytes_(memory_bytes) {
    options_.transfers = transfers;
  }

  std::vector<Remedy> run() {
    std::vector<Single> singles;
    for (const std::vector<Change>& kind : changes_of(model_.training(), model_.model())) {
      std::optional<Single> best;
      for (const Change& change : kind) {
        Training training = model_.training();
        change.apply(training);
        const auto remedy = attempt(training, change.what);
        if (!remedy) continue;
        // Stages that gather all of their weights need more memory than those that keep them.
        if (!best || remedy->peak_memory_bytes < best->remedy.peak_memory_bytes) {
          best = {change, *remedy};
        }
        if (fits(best->remedy)) break;
      }
      if (best) singles.push_back(*best);
    }
    std::ranges::stable_sort(singles, {}, [&](const Single& one) {
      const Remedy& remedy = one.remedy;
      return std::tuple(!fits(remedy),
                        fits(remedy) ? remedy.makespan_ns : remedy.peak_memory_bytes);
    });
    std::vector<Remedy> remedies;
    for (const Single& one : singles) remedies.push_back(one.remedy);
    if (!singles.empty() && !fits(remedies.front())) {
      if (const auto joint = join(singles)) remedies.insert(remedies.begin(), *joint);
    }
    return remedies;
  }

 private:
  struct Single {
    Change change;
    Remedy remedy;
  };

  // Nothing where the training can't be, as where tokens don't divide.
  std::optional<Remedy> attempt(const Training& training, const std::string& what) const {
    try {
      const CostModel model(model_.model(), model_.cluster(), training);
      const Schedule schedule = with_replicas(schedule_, training);
      const Costs costs = model.costs(shape_);
      costs.check(schedule.placement, schedule.microbatches, what);
      const Prediction prediction = predict(schedule, costs, nullptr, {}, options_);
      return Remedy{what, prediction.metrics.makespan_ns, prediction.peak_memory_bytes()};
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool fits(const Remedy& remedy) const { return remedy.peak_memory_bytes <= memory_bytes_; }

  // One after the other on top of each other, until it fits.
  std::optional<Remedy> join(const std::vector<Single>& singles) const {
    Training training = model_.training();
    std::string what;
    for (const Single& one : singles) {
      one.change.apply(training);
      what += (what.empty() ? "" : " and ") + one.change.what;
      const auto remedy = attempt(training, what);
      if (remedy && fits(*remedy)) return remedy;
    }
    return std::nullopt;
  }

  const CostModel& model_;
  const PipelineShape& shape_;
  Schedule schedule_;
  std::int64_t memory_bytes_;
  SimulationOptions options_;
};

}  // namespace

std::vector<Remedy> try_remedies(const CostModel& model, const PipelineShape& shape,
                                 const Schedule& schedule, const Transfers& transfers,
                                 std::int64_t memory_bytes) {
  return Trials(model, shape, schedule, transfers, memory_bytes).run();
}

}  // namespace pipesim
