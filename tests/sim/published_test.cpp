// The zero-bubble paper's bubble rates, from its own profiled times.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

std::int64_t ns_of_ms(const nlohmann::json& value) {
  return std::llround(value.get<double>() * 1e6);
}

// Of a row of table 9: p stages alike. The paper's B is the input gradient.
Costs profiled_costs(const nlohmann::json& times) {
  StageCosts stage;
  stage.forward_ns = ns_of_ms(times["T_F"]);
  stage.backward_input_ns = ns_of_ms(times["T_B"]);
  stage.backward_weight_ns = ns_of_ms(times["T_W"]);
  Costs costs;
  costs.stages.assign(times["p"].get<std::size_t>(), stage);
  costs.p2p.latency_ns = ns_of_ms(times["T_comm"]);
  return costs;
}

// (cost - m(F+I+W)) / cost, cost = the largest span over ranks; a hop adds its
// latency and holds no device.
TEST(Published, ZeroBubbleTable5FromTable9) {
  const auto data = nlohmann::json::parse(
      read_file(testing::source_file("bench/validation/data/zero_bubble_2023.json")));
  int compared = 0;
  for (const auto& times : data["table9_profiled_ms"]) {
    for (const auto& rates : data["table5_bubble_rate"]) {
      if (rates["model"] != times["model"] || rates["m"] != times["m"]) continue;
      for (const auto& [column, name] :
           {std::pair("1F1B", "1f1b"), {"ZB-H1", "zb-h1"}, {"ZB-H2", "zb-h2"}}) {
        const int p = times["p"];
        const int m = times["m"];
        const Schedule schedule = generate({name, p, m});
        const double rate = simulate(schedule, profiled_costs(times)).span_bubble();
        EXPECT_NEAR(rate, rates[column].get<double>(), 1e-4)
            << times["model"] << " m=" << m << " " << column;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 18);
}

}  // namespace
}  // namespace pipesim
