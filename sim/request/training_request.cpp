#include "sim/request/training_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

// Keeps the counts of a layer within 64 bits.
void TrainingRequest::check() const {
  constexpr double max_tokens = 1 << 26;
  constexpr double max_values = 1e18;
  const auto batch = static_cast<double>(training.micro_batch_size);
  const auto length = static_cast<double>(training.sequence_length);
  double values = 0;
  if (model.is_listed()) {
    for (const ListedLayer& one : model.list) {
      values = std::max(values, batch * static_cast<double>(one.output_bytes));
    }
  } else {
    values = batch * length * length * static_cast<double>(model.heads);
  }
  if (batch * length <= max_tokens && values <= max_values) return;
  if (model.is_listed()) {
    throw input_error(
        fmt::format("--micro-batch-size {}: too many samples for one microbatch; use fewer",
                    training.micro_batch_size));
  }
  throw input_error(
      fmt::format("--micro-batch-size {} x --sequence-length {}: too many tokens for one "
                  "microbatch; use fewer or "
                  "shorter sequences",
                  training.micro_batch_size, training.sequence_length));
}

int TrainingRequest::replicas(int pipeline_ranks) const {
  const std::int64_t each =
      std::int64_t{pipeline_ranks} * training.tensor_parallel * training.context_parallel;
  const std::string product =
      fmt::format("{} x {} tensor-parallel{}", plural(pipeline_ranks, "pipeline rank"),
                  training.tensor_parallel,
                  training.context_parallel > 1
                      ? fmt::format(" x {} context-parallel", training.context_parallel)
                      : "");
  if (each > max_count || each * training.data_parallel > max_count) {
    throw input_error(fmt::format("{} x {} data-parallel are more than {} devices; use fewer",
                                  product, training.data_parallel, max_count));
  }
  if (!devices) return training.data_parallel;
  const std::int64_t given = *devices;
  if (has_replicas && each * training.data_parallel != given) {
    const std::int64_t needed = each * training.data_parallel;
    throw input_error(
        fmt::format("--devices {}: {} x {} data-parallel are {}; nearest valid: --devices {}{}",
                    given, product, training.data_parallel, needed, needed,
                    given % each == 0 ? fmt::format(", or --data-parallel {}", given / each) : ""));
  }
  if (given % each != 0) {
    std::vector<std::string> nearest;
    for (const std::int64_t replicas : {given / each, given / each + 1}) {
      if (replicas == 0 || replicas * each > max_count) continue;
      nearest.push_back(fmt::format("{} (--data-parallel {})", replicas * each, replicas));
    }
    throw input_error(
        fmt::format("--devices {}: {} are {}, which must divide it; nearest valid: {}", given,
                    product, each, fmt::join(nearest, " and ")));
  }
  return static_cast<int>(given / each);
}

Training TrainingRequest::training_with_ranks(int pipeline_ranks,
                                              std::vector<std::string>* notes) const {
  Training whole = training;
  whole.pipeline_parallel = pipeline_ranks;
  whole.data_parallel = replicas(pipeline_ranks);
  check_replicas(whole);
  std::vector<std::string> dropped = drop_without_effect(whole);
  if (notes != nullptr) *notes = std::move(dropped);
  const SoftwareSpec& software = cluster.device.software;
  // Above ZeRO 1 gradients are reduced layer by layer, in every pass.
  const bool is_usual = !has_buckets && whole.has_replicas() && whole.zero <= 1;
  if (is_usual && software.bucket_parameters > 0) {
    whole.bucket_bytes = std::max(software.bucket_parameters,
                                  whole.replicas() * software.bucket_parameters_per_replica) *
                         whole.gradient_bytes;
  }
  whole.gathers_ahead = gathers_ahead.value_or(software.gathers_ahead);
  return whole;
}

CostModel TrainingRequest::with_ranks(int pipeline_ranks, std::vector<std::string>* notes) const {
  return CostModel(model, cluster, training_with_ranks(pipeline_ranks, notes));
}

std::string name_of(const CostModel& model) {
  const Cluster& cluster = model.cluster();
  return fmt::format("{} on {} {} of {}", printable(model.model().name), model.training().devices(),
                     printable(cluster.device.name), printable(cluster.name));
}

}  // namespace pipesim
