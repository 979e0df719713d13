#include "sim/engine/trace_metadata.h"

#include "sim/schedule/description.h"
#include "traces/base/json.h"

namespace pipesim {

std::string trace_metadata_json(const Schedule& schedule, const Costs& costs,
                                const Prediction& prediction) {
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
  json["program"] = rows_of(schedule);
  json["costs"] = Json::verbatim(to_json(costs));
  return json.dump();
}

}  // namespace pipesim
