#include "sim/input_pipeline/predict/input_result_json.h"

#include "traces/input_pipeline/input_metrics_json.h"

namespace pipesim {
namespace {

Json ranks_json(const InputPrediction& prediction) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < prediction.metrics.ranks.size(); ++rank) {
    Json json = input_rank_json(prediction.metrics.ranks[rank], static_cast<int>(rank));
    if (rank < prediction.run.memory.size()) {
      const InputMemory& memory = prediction.run.memory[rank];
      json["peak_memory_bytes"] = memory.total();
      json["memory_bytes"] = input_memory_json(memory);
      if (prediction.memory_cap_bytes) {
        json["fits"] = memory.total() <= *prediction.memory_cap_bytes;
      }
    }
    ranks.push_back(std::move(json));
  }
  return ranks;
}

Json limits_json(const std::vector<InputLimit>& limits) {
  Json list = Json::array();
  for (const InputLimit& limit : limits) {
    Json kinds = Json::array();
    for (const InputKind kind : limit.part->kinds) kinds.push_back(input_kind_name(kind));
    list.push_back({{"what", limit.part->name},
                    {"kinds", std::move(kinds)},
                    {"steady_iteration_ns", limit.steady_iteration_ns},
                    {"gain_ns", limit.gain_ns}});
  }
  return list;
}

Json prediction_json(const InputRequest& request, const InputPrediction& prediction) {
  const InputProgram& program = prediction.run.program;
  const InputMetrics& metrics = prediction.metrics;
  Json json{{"format", "pipesim-input-result"}, {"version", 1}, {"input_pipeline", program.name}};
  if (request.training) {
    json["model"] = request.training->model.name;
    json["cluster"] = request.training->cluster.name;
  }
  json["batches"] = program.batches;
  json["accumulate"] = program.accumulate;
  if (prediction.run.batch_size > 0) json["batch_size"] = prediction.run.batch_size;
  json["makespan_ns"] = metrics.makespan_ns;
  json["steady_iteration_ns"] = metrics.steady_iteration_ns;
  json["samples_per_second"] =
      prediction.run.batch_size > 0 ? Json(metrics.samples_per_second) : Json(nullptr);
  json["exposed_ns"] = input_exposed_json(metrics);
  if (!prediction.run.memory.empty()) json["peak_memory_bytes"] = prediction.peak_memory_bytes();
  if (prediction.memory_cap_bytes && !prediction.run.memory.empty()) {
    json["fits"] = !prediction.lack();
  }
  json["ranks"] = ranks_json(prediction);
  if (prediction.plan) {
    json["sharding"] = Json::verbatim(to_json(*prediction.plan, request.training->model,
                                              request.training->cluster.devices_per_node));
    if (prediction.plans_evaluated > 0) json["plans_evaluated"] = prediction.plans_evaluated;
  }
  return json;
}

}  // namespace

std::string input_result_json(const InputRequest& request, const InputPrediction& prediction,
                              const std::vector<InputLimit>& limits) {
  Json json = prediction_json(request, prediction);
  json["limits"] = limits_json(limits);
  return json.dump(2) + "\n";
}

std::string input_programs_json(const InputRequest& request,
                                const std::vector<InputPrediction>& predictions) {
  Json programs = Json::array();
  for (const InputPrediction& prediction : predictions) {
    programs.push_back(prediction_json(request, prediction));
  }
  const Json json{
      {"format", "pipesim-input-programs"}, {"version", 1}, {"programs", std::move(programs)}};
  return json.dump(2) + "\n";
}

}  // namespace pipesim
