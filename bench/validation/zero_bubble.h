// The zero-bubble paper's profiled times, as costs.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/cost/costs.h"

namespace pipesim::validation {

inline std::int64_t ns_of_ms(const nlohmann::json& value) {
  return static_cast<std::int64_t>(std::llround(value.get<double>() * 1e6));
}

// What a hop does to the rank that sends.
enum class Hop { free, holds_sender };

// Of a row of table 9: p stages alike, each cut into `chunks`. The paper's B is
// the input gradient. A hop takes its latency, or that time of its sender.
inline Costs profiled_costs(const nlohmann::json& times, int chunks = 1, Hop hop = Hop::free) {
  const std::size_t stages = times.at("p").get<std::size_t>() * static_cast<std::size_t>(chunks);
  const std::int64_t hop_ns = ns_of_ms(times.at("T_comm"));
  StageCosts stage;
  stage.forward_ns = ns_of_ms(times.at("T_F")) / chunks;
  stage.backward_input_ns = ns_of_ms(times.at("T_B")) / chunks;
  stage.backward_weight_ns = ns_of_ms(times.at("T_W")) / chunks;
  Costs costs;
  costs.stages.assign(stages, stage);
  if (hop == Hop::free) {
    costs.p2p.latency_ns = hop_ns;
    return costs;
  }
  for (std::size_t i = 0; i < stages; ++i) {
    if (i + 1 < stages) costs.stages[i].forward_ns += hop_ns;
    if (i > 0) costs.stages[i].backward_input_ns += hop_ns;
  }
  return costs;
}

}  // namespace pipesim::validation
