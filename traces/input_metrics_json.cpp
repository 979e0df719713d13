#include "traces/input_metrics_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {
namespace {

// Names of kinds as in JSON, and their times.
using NamedTimes = std::vector<std::pair<std::string_view, std::int64_t>>;

NamedTimes exposed_times(const InputMetrics::Rank& rank) {
  NamedTimes times;
  for (const Kind kind : input_kinds) {
    times.emplace_back(kind_name(kind), rank.exposed[static_cast<std::size_t>(kind)]);
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

Json input_rank_json(const InputMetrics::Rank& metrics, int rank) {
  NamedTimes busy, total;
  for (const Kind kind : input_kinds) {
    const auto at = static_cast<std::size_t>(kind);
    busy.emplace_back(kind_name(kind), metrics.busy_by_kind[at]);
    total.emplace_back(kind_name(kind), metrics.total[at]);
  }
  return {{"rank", rank},
          {"busy_ns", metrics.busy_ns},
          {"busy_by_kind_ns", times_json(busy)},
          {"exposed_ns", times_json(exposed_times(metrics))},
          {"total_ns", times_json(total)},
          {"drain_ns", metrics.drain_ns},
          {"batches_in_flight", metrics.batches_in_flight}};
}

Json input_memory_json(const InputMemory& memory) {
  return {{"tables", memory.tables},
          {"optimizer", memory.optimizer},
          {"dense", memory.dense},
          {"batches", memory.batches},
          {"buffers", memory.buffers}};
}

void add_input_run(Json& json, const InputRun& run, const InputMetrics& metrics) {
  json["input_pipeline"] = run.program.name;
  for (const auto& [key, text] :
       {std::pair<std::string_view, const std::string&>{"model", run.model},
        {"cluster", run.cluster},
        {"device", run.device},
        {"transport", run.transport}}) {
    if (!text.empty()) json[key] = text;
  }
  json["batches"] = run.program.batches;
  json["accumulate"] = run.program.accumulate;
  if (run.batch_size > 0) json["batch_size"] = run.batch_size;
  json["makespan_ns"] = metrics.makespan_ns;
  json["steady_iteration_ns"] = metrics.steady_iteration_ns;
  json["samples_per_second"] =
      run.batch_size > 0 ? Json(metrics.samples_per_second) : Json(nullptr);
  json["exposed_ns"] = input_exposed_json(metrics);
  if (!run.losses.empty()) json["losses"] = run.losses;
  if (!run.memory.empty()) {
    json["peak_memory_bytes"] = std::ranges::max(run.memory, {}, &InputMemory::total).total();
  }
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    Json own = input_rank_json(metrics.ranks[rank], static_cast<int>(rank));
    if (!run.memory.empty()) {
      const InputMemory& memory = run.memory[rank];
      own["peak_memory_bytes"] = memory.total();
      own["memory_bytes"] = input_memory_json(memory);
    }
    ranks.push_back(std::move(own));
  }
  json["ranks"] = std::move(ranks);
}

}  // namespace pipesim
