#include "sim/import/megatron_rules.h"

#include <fmt/format.h>

#include <functional>
#include <string>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// "3 or 5": the nearest on both sides that a rule allows, of 1 to twice `value` and `more`.
std::string nearest(std::int64_t value, std::int64_t more,
                    const std::function<bool(std::int64_t)>& is_allowed) {
  std::string below, above;
  for (std::int64_t one = value - 1; one >= 1 && below.empty(); --one) {
    if (is_allowed(one)) below = std::to_string(one);
  }
  for (std::int64_t one = value + 1; one <= 2 * value + more && above.empty(); ++one) {
    if (is_allowed(one)) above = std::to_string(one);
  }
  return below + (below.empty() || above.empty() ? "" : " or ") + above;
}

void check_layers(const MegatronShape& shape) {
  const std::int64_t count = shape.stages * shape.chunks;
  const std::int64_t layers = *shape.layers;
  if (layers % count == 0) return;
  const auto divides = [&](std::int64_t ranks) { return layers % (ranks * shape.chunks) == 0; };
  const std::string ranks = nearest(shape.stages, 0, divides);
  throw input_error(fmt::format(
      "--num-layers {}: Megatron-LM refuses layers that are not a multiple of {}; nearest that "
      "work: --num-layers {}{}",
      layers, plural(count, shape.chunks > 1 ? "virtual stage" : "pipeline rank"),
      nearest(layers, count, [&](std::int64_t one) { return one % count == 0; }),
      ranks.empty() ? "" : ", or --pipeline-model-parallel-size " + ranks));
}

// Of a known number of sequences.
void check_batch(const MegatronShape& shape) {
  const std::int64_t each = shape.micro_batch * *shape.replicas;
  const std::int64_t batch = *shape.global_batch;
  const auto closest = [&](const std::function<bool(std::int64_t)>& is_allowed) {
    return nearest(batch, each * (shape.group + shape.stages),
                   [&](std::int64_t one) { return one % each == 0 && is_allowed(one / each); });
  };
  if (batch % each != 0) {
    throw input_error(
        fmt::format("--global-batch-size {}: Megatron-LM refuses a batch that is not a multiple of "
                    "--micro-batch-size {} x {}; nearest that work: {}",
                    batch, shape.micro_batch, plural(*shape.replicas, "replica"),
                    closest([](std::int64_t) { return true; })));
  }
  if (shape.chunks == 1) return;
  const auto is_allowed = [&](std::int64_t microbatches) {
    const std::int64_t rest = microbatches % shape.group;
    return microbatches >= shape.group && (rest == 0 || rest >= shape.stages);
  };
  if (is_allowed(batch / each)) return;
  throw input_error(fmt::format(
      "--global-batch-size {}: {} for {}: Megatron-LM's interleaved schedule takes them in groups "
      "of {}, of which the last may be no smaller than there are ranks; nearest that work: {}",
      batch, plural(batch / each, "microbatch"), plural(shape.stages, "pipeline rank"), shape.group,
      closest(is_allowed)));
}

}  // namespace

void check_as_megatron_does(const MegatronShape& shape) {
  if (shape.chunks > 1 && shape.stages == 1) {
    throw input_error(
        "--pipeline-model-parallel-size 1: Megatron-LM's interleaved schedule takes at least 2; "
        "give more, or no virtual stages");
  }
  if (shape.layers) check_layers(shape);
  if (shape.group < shape.stages) {
    throw input_error(
        fmt::format("--microbatch-group-size-per-virtual-pipeline-stage {}: Megatron-LM takes at "
                    "least as many as there are pipeline ranks; give {}",
                    shape.group, shape.stages));
  }
  if (shape.global_batch && shape.replicas) check_batch(shape);
}

}  // namespace pipesim
