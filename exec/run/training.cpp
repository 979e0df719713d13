#include "exec/run/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "sim/cost/estimate/direct_exchange.h"
#include "sim/schedule/csv.h"

namespace pipesim::exec {

std::string_view precision_name(Number precision) {
  return precision == Number::float32 ? "fp32" : "bf16";
}

TrainingJob::Pass TrainingJob::pass(int iteration) const {
  const bool is_measured = iteration >= warmup;
  const int at = iteration - (is_measured ? warmup : 0);
  const int index = at % accumulate;
  const int steps_before = is_measured ? (warmup + accumulate - 1) / accumulate : 0;
  const int left = (is_measured ? iterations : warmup) - (at - index);
  return {steps_before + at / accumulate, index, std::min(accumulate, left)};
}

int TrainingJob::first_layer(int stage) const {
  return std::accumulate(layout.begin(), layout.begin() + stage, 0);
}

std::vector<std::int64_t> TrainingJob::message_bytes() const {
  if (costs) return Emulation::message_bytes(*costs, pace);
  const std::int64_t sent =
      sends_parts(rows(), tensor_parallel) ? rows() / tensor_parallel : rows();
  const std::int64_t bytes = sent * model.hidden_size * bytes_of(precision);
  return std::vector<std::int64_t>(static_cast<std::size_t>(program.stages()), bytes);
}

LayerSetup TrainingJob::layers(Device& device, Pool& pool, TensorGroup* tensor) const {
  return {device,          pool,
          model,           micro_batch_size,
          sequence_length, seed,
          precision,       attention,
          tensor,          tensor != nullptr && sequence_parallel,
          tensor_overlap,  {}};
}

Training TrainingJob::replicas() const {
  Training training;
  training.micro_batch_size = micro_batch_size;
  training.sequence_length = sequence_length;
  training.tensor_parallel = tensor_parallel;
  training.sequence_parallel = sequence_parallel;
  training.data_parallel = data_parallel;
  training.zero = zero;
  training.shard_over = shard_over;
  training.gather = gather;
  training.bucket_bytes = bucket_bytes;
  training.precision = precision == Number::float32 ? Precision::fp32 : Precision::bf16;
  training.attention = attention;
  training.gradient_bytes = sizeof(float);
  return training;
}

// Weights are gathered layer by layer, and gradients that are not kept whole are reduced in the
// same way, or in buckets that end with layers.
Cuts TrainingJob::cuts() const {
  if (data_parallel == 1) return {};
  if (zero >= 2 && shards() > 1) {
    return {.by_layer = true, .segment_bytes = bucket_bytes.value_or(0)};
  }
  return {.segment_bytes = bucket_bytes.value_or(largest_gradient_piece)};
}

std::string TrainingJob::fingerprint() const {
  std::size_t rows = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    rows = 31 * rows + std::hash<std::string>()(csv_row(program.actions[rank]));
  }
  const std::string what =
      costs ? fmt::format("costs {}, pace {}", to_json(*costs), pace_name(pace))
            : fmt::format("model {}, layout {}, {} x {} tokens", to_json(model),
                          fmt::join(layout, ","), micro_batch_size, sequence_length);
  return fmt::format(
      "program of {} ranks {:x}, {}, text of {} bytes {:x}, {} microbatches, {} + {} iterations, "
      "{} to a step, seed {}, learning rate {}, recompute {}, attention {}, precision {}, {} "
      "replicas, zero {}, "
      "shards {}, "
      "buckets {}, gathers {}, {} tensor-parallel ranks, tokens split {}, overlap {}, library sums "
      "{}, verify "
      "{}, details {}, faults {}, saves {}, resumed from {}",
      program.ranks(), rows, what, text.bytes().size(), std::hash<std::string_view>()(text.bytes()),
      program.microbatches, warmup, iterations, accumulate, seed, learning_rate,
      recompute_name(recompute), attention_name(attention), precision_name(precision),
      data_parallel, zero, shards(), bucket_bytes.value_or(0),
      gathers_layers() ? "layers" : "stages", tensor_parallel, sequence_parallel, tensor_overlap,
      library_sums, verify, record_details, fmt::join(faults.texts(), ", "),
      saves ? fmt::format("{} {} {} {}", saves->folder, saves->every, saves->keep, saves->beside)
            : "none",
      resume);
}

}  // namespace pipesim::exec
