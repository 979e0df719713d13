#include "sim/input_pipeline/predict/input_result_json.h"

#include "traces/input_metrics_json.h"

namespace pipesim {
namespace {

Json prediction_json(const InputRequest& request, const InputPrediction& prediction) {
  Json json{{"format", "pipesim-result"}, {"version", 1}};
  add_input_run(json, prediction.run, prediction.metrics);
  if (prediction.memory_cap_bytes && !prediction.run.memory.empty()) {
    json["fits"] = !prediction.lack();
    for (std::size_t rank = 0; rank < prediction.run.memory.size(); ++rank) {
      json["ranks"][rank]["fits"] =
          prediction.run.memory[rank].total() <= *prediction.memory_cap_bytes;
    }
  }
  if (prediction.plan) {
    json["sharding"] = sharding_json(*prediction.plan, request.training->model,
                                     request.training->cluster.devices_per_node);
    if (prediction.plans_evaluated > 0) json["plans_evaluated"] = prediction.plans_evaluated;
  }
  return json;
}

}  // namespace

Json input_limits_json(const std::vector<InputLimit>& limits) {
  Json list = Json::array();
  for (const InputLimit& limit : limits) {
    Json kinds = Json::array();
    for (const Kind kind : limit.part->kinds) kinds.push_back(kind_name(kind));
    list.push_back({{"what", limit.part->name},
                    {"kinds", std::move(kinds)},
                    {"steady_iteration_ns", limit.steady_iteration_ns},
                    {"gain_ns", limit.gain_ns}});
  }
  return list;
}

std::string input_result_json(const InputRequest& request, const InputPrediction& prediction,
                              const std::vector<InputLimit>& limits) {
  Json json = prediction_json(request, prediction);
  json["limits"] = input_limits_json(limits);
  return json.dump(2) + "\n";
}

std::string input_programs_json(const InputRequest& request,
                                const std::vector<InputPrediction>& predictions) {
  Json programs = Json::array();
  for (const InputPrediction& prediction : predictions) {
    programs.push_back(prediction_json(request, prediction));
  }
  const Json json{{"format", "pipesim-schedules-comparison"},
                  {"version", 1},
                  {"programs", std::move(programs)}};
  return json.dump(2) + "\n";
}

}  // namespace pipesim
