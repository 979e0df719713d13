#include "traces/input_pipeline/input_metrics_json.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {
namespace {

// Names of kinds as JSON has them, and what they come to.
using NamedTimes = std::vector<std::pair<std::string_view, std::int64_t>>;

NamedTimes exposed_times(const InputMetrics::Rank& rank) {
  NamedTimes times;
  for (int kind = 0; kind < input_kind_count; ++kind) {
    times.emplace_back(input_kind_name(static_cast<InputKind>(kind)),
                       rank.exposed[static_cast<std::size_t>(kind)]);
  }
  times.emplace_back("host", rank.host_ns);
  times.emplace_back("skew", rank.skew_ns);
  times.emplace_back("other", rank.other_ns);
  return times;
}

Json times_json(const NamedTimes& times) {
  Json json = Json::object();
  for (const auto& [name, time] : times) {
    if (time != 0) json[name] = time;
  }
  return json;
}

}  // namespace

Json input_exposed_json(const InputMetrics& metrics) {
  NamedTimes sums;
  for (const InputMetrics::Rank& rank : metrics.ranks) {
    const NamedTimes times = exposed_times(rank);
    if (sums.empty()) {
      sums = times;
    } else {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].second += times[i].second;
    }
  }
  const auto ranks = static_cast<std::int64_t>(metrics.ranks.size());
  for (auto& [name, sum] : sums) sum /= ranks;
  return times_json(sums);
}

Json input_memory_json(const InputMemory& memory) {
  return {{"tables", memory.tables},
          {"optimizer", memory.optimizer},
          {"dense", memory.dense},
          {"batches", memory.batches},
          {"buffers", memory.buffers}};
}

Json input_rank_json(const InputMetrics::Rank& metrics, int rank) {
  NamedTimes busy, total;
  for (int kind = 0; kind < input_kind_count; ++kind) {
    const auto at = static_cast<std::size_t>(kind);
    busy.emplace_back(input_kind_name(static_cast<InputKind>(kind)), metrics.busy_by_kind[at]);
    total.emplace_back(input_kind_name(static_cast<InputKind>(kind)), metrics.total[at]);
  }
  return {{"rank", rank},
          {"busy_ns", metrics.busy_ns},
          {"busy_by_kind_ns", times_json(busy)},
          {"exposed_ns", times_json(exposed_times(metrics))},
          {"total_ns", times_json(total)},
          {"drain_ns", metrics.drain_ns},
          {"batches_in_flight", metrics.batches_in_flight}};
}

}  // namespace pipesim
