#include "sim/plan/remedies.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "traces/base/error.h"

namespace pipesim {
namespace {

struct Change {
  std::string what;
  Training training;
};

std::vector<Change> changes_of(const Training& now, const Model& model) {
  std::vector<Change> changes;
  const auto add = [&](std::string what, auto change) {
    Training training = now;
    change(training);
    changes.push_back({std::move(what), training});
  };
  const bool has_attention = !model.is_listed() && model.architecture != Architecture::mlp;
  if (has_attention && now.attention == Attention::unfused) {
    add("fused attention", [](Training& t) { t.attention = Attention::fused; });
  }
  if (has_attention && now.recompute == Recompute::none) {
    add("selective recomputation", [](Training& t) { t.recompute = Recompute::selective; });
  }
  if (!model.is_listed() && now.recompute != Recompute::full) {
    add("full recomputation", [](Training& t) { t.recompute = Recompute::full; });
  }
  if (now.tensor_parallel > 1 && !now.sequence_parallel) {
    add("sequence parallelism", [](Training& t) { t.sequence_parallel = true; });
  }
  for (int zero = now.zero + 1; now.data_parallel > 1 && zero <= 3; ++zero) {
    add("ZeRO " + std::to_string(zero), [&](Training& t) { t.zero = zero; });
  }
  return changes;
}

}  // namespace

std::vector<Remedy> try_remedies(const CostModel& model, const PipelineShape& shape,
                                 const Schedule& schedule, const Transfers& transfers,
                                 std::int64_t memory_bytes) {
  std::vector<Remedy> tried;
  SimulationOptions options;
  options.transfers = transfers;
  for (Change& change : changes_of(model.training(), model.model())) {
    try {
      const CostModel other(model.model(), model.cluster(), change.training);
      const Costs costs = other.costs(shape);
      costs.check(schedule.placement, schedule.microbatches, change.what);
      const Prediction prediction = predict(schedule, costs, nullptr, {}, options);
      tried.push_back(
          {std::move(change.what), prediction.metrics.makespan_ns, prediction.peak_memory_bytes()});
    } catch (const Error&) {  // not to be had here, as where tokens don't divide
    }
  }
  std::ranges::stable_sort(tried, {}, [&](const Remedy& remedy) {
    const bool fits = remedy.peak_memory_bytes <= memory_bytes;
    return std::tuple(!fits, fits ? remedy.makespan_ns : remedy.peak_memory_bytes);
  });
  return tried;
}

}  // namespace pipesim
