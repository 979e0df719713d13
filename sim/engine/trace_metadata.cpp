#include "sim/engine/trace_metadata.h"

#include <nlohmann/json.hpp>

#include "sim/schedule/description.h"

namespace pipesim {

std::string trace_metadata_json(const Schedule& schedule, const Costs& costs,
                                const Prediction& prediction) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["format"] = "pipesim-trace";
  json["version"] = 1;
  json["source"] = "predicted";
  describe(schedule, json);
  json["rank_of_stage"] = schedule.placement.rank_of_stage();
  json["iterations"] = 1;
  json["makespan_ns"] = prediction.metrics.makespan_ns;
  json["p2p"] = p2p_name(prediction.transfers.mode);
  json["eager_limit_bytes"] = prediction.transfers.eager_limit_bytes;
  json["machine"] = {{"kind", "simulated"}};
  json["program"] = rows_of<Json>(schedule);
  json["costs"] = Json::parse(to_json(costs));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pipesim
