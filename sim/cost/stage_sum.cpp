#include "sim/cost/stage_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {

void StageSum::add(std::int64_t StageCosts::*field, const StageCosts& layer, int count,
                   std::int64_t most, std::string_view unit) {
  if (layer.*field > (most - sum_.*field) / count) {
    throw input_error(fmt::format("{} together exceed {} {}; {}", whose_, most, unit, remedy_));
  }
  sum_.*field += count * layer.*field;
}

void StageSum::add(const StageCosts& layer, int count) {
  for (const auto field :
       {&StageCosts::forward_ns, &StageCosts::backward_input_ns, &StageCosts::backward_weight_ns,
        &StageCosts::optimizer_ns, &StageCosts::reduce_gradients_ns}) {
    add(field, layer, count, max_time_ns, "ns");
  }
  for (const auto field :
       {&StageCosts::activation_bytes, &StageCosts::weight_residue_bytes, &StageCosts::weight_bytes,
        &StageCosts::gradient_bytes, &StageCosts::optimizer_bytes, &StageCosts::unsharded_bytes}) {
    add(field, layer, count, max_bytes, "bytes");
  }
  for (const auto field : {&StageCosts::unshard, &StageCosts::reduce}) {
    CollectiveCosts& own = sum_.*field;
    for (int i = 0; i < count && (layer.*field).exists(); ++i) {
      own += layer.*field;
      if (own.latency_ns <= max_time_ns && own.bytes <= max_bytes &&
          own.parts <= CollectiveCosts::max_parts) {
        continue;
      }
      throw input_error(
          fmt::format("{}: a collective of all exceeds {} ns, {} bytes or {} parts; {}", whose_,
                      max_time_ns, max_bytes, CollectiveCosts::max_parts, remedy_));
    }
  }
  for (int i = 0; i < count; ++i) {
    sum_.parameters.insert(sum_.parameters.end(), layer.parameters.begin(), layer.parameters.end());
  }
  // A backward that has reached earlier layers has freed the activations of later ones.
  sum_.workspace_bytes =
      std::max(sum_.workspace_bytes - count * layer.activation_bytes, layer.workspace_bytes);
  sum_.output_bytes = layer.output_bytes;
}

void sum_closing(const Placement& placement, Costs& costs) {
  const auto sum = [&](std::int64_t StageCosts::*field, std::vector<std::int64_t>& by_rank) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(placement.ranks()));
    for (int s = 0; s < placement.stages(); ++s) {
      std::int64_t& time = costs.stages[static_cast<std::size_t>(s)].*field;
      for (int copy = 0; copy < placement.copies(); ++copy) {
        sums[static_cast<std::size_t>(placement.rank_of(s, copy))] += time;
      }
      time = 0;
    }
    const auto takes_time = [](std::int64_t time) { return time > 0; };
    if (std::ranges::any_of(sums, takes_time)) by_rank = std::move(sums);
  };
  sum(&StageCosts::optimizer_ns, costs.optimizer_ns);
  sum(&StageCosts::reduce_gradients_ns, costs.reduce_gradients_ns);
}

}  // namespace pipesim
