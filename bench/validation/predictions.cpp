#include "bench/validation/predictions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/cost/estimate/cost_model.h"
#include "sim/engine/prediction.h"
#include "sim/schedule/family.h"

namespace pipesim::validation {
namespace {

double layer_seconds(const CostModel& model, Quantity quantity) {
  constexpr int first_block = 1;
  const StageCosts& costs = model.layer(first_block).costs;
  const std::int64_t ns =
      quantity == Quantity::layer_forward ? costs.forward_ns : costs.backward_ns();
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

Predicted predict_row(const Row& row, const Cluster& cluster) {
  const CostModel model(row.model, cluster, row.training);
  if (row.quantity != Quantity::iteration) return {layer_seconds(model, row.quantity), 0, 0};
  const Family& schedule_family = family(row.virtual_stages > 1 ? "interleaved" : "1f1b");
  const Shape shape = resolve_shape(schedule_family, {.name = std::string(schedule_family.name),
                                                      .ranks = row.training.pipeline_parallel,
                                                      .microbatches = row.microbatches,
                                                      .chunks = row.virtual_stages});
  const Schedule schedule = generate(schedule_family, shape);
  const Costs costs = model.costs({schedule.placement, schedule_family.splits_backward, {}});
  const Prediction prediction = predict(schedule, costs, &schedule_family, shape);
  const std::int64_t makespan_ns = prediction.metrics.makespan_ns;
  return {static_cast<double>(makespan_ns) / 1e9, model.mfu(row.microbatches, makespan_ns),
          prediction.peak_memory_bytes()};
}

Clusters clusters_of(const std::vector<Row>& rows) {
  Clusters clusters;
  for (const Row& row : rows) {
    if (!clusters.contains(row.cluster)) clusters.emplace(row.cluster, find_cluster(row.cluster));
  }
  return clusters;
}

std::vector<Outcome> predict_rows(const std::vector<Row>& rows, const Clusters& clusters,
                                  const std::function<bool(const Row&)>& wanted) {
  std::vector<Outcome> outcomes;
  for (const Row& row : rows) {
    if (wanted(row)) {
      outcomes.push_back({&row, predict_row(row, clusters.find(row.cluster)->second)});
    }
  }
  return outcomes;
}

std::vector<Outcome> select(const std::vector<Outcome>& outcomes,
                            const std::function<bool(const Outcome&)>& wanted) {
  std::vector<Outcome> selected;
  std::copy_if(outcomes.begin(), outcomes.end(), std::back_inserter(selected), wanted);
  return selected;
}

ErrorSummary summarise(const std::vector<NamedError>& errors) {
  ErrorSummary summary;
  summary.rows = errors.size();
  std::vector<double> sizes;
  for (const NamedError& named : errors) {
    const double size = std::abs(named.error);
    sizes.push_back(size);
    if (size >= summary.worst) {
      summary.worst = size;
      summary.worst_name = named.name;
    }
  }
  if (sizes.empty()) return summary;
  std::sort(sizes.begin(), sizes.end());
  const double count = static_cast<double>(sizes.size());
  summary.signed_mean =
      std::accumulate(errors.begin(), errors.end(), 0.0,
                      [](double sum, const NamedError& named) { return sum + named.error; }) /
      count;
  summary.mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count;
  summary.median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
  return summary;
}

ErrorSummary summarise_peaks(const std::vector<Outcome>& outcomes) {
  std::vector<NamedError> errors;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.row->published_peak_bytes) continue;
    errors.push_back({outcome.row->name, outcome.peak_error()});
  }
  return summarise(errors);
}

ErrorSummary summarise(const std::vector<Outcome>& outcomes) {
  std::vector<NamedError> errors;
  errors.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes) errors.push_back({outcome.row->name, outcome.error()});
  return summarise(errors);
}

}  // namespace pipesim::validation
