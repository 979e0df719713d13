// Recomputes table 5 of the zero-bubble paper (Qi et al. 2023, arXiv
// 2401.10241) from the stage times of its table 9, using pipesim as a library:
// generate a schedule, give it costs, simulate, ask for the span bubble.
#include <fmt/format.h>

#include <cmath>
#include <exception>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "traces/base/files.h"
#include "traces/base/json_reader.h"

namespace {

using pipesim::Costs;
using pipesim::JsonCursor;
using pipesim::Schedule;

JsonCursor member(const JsonCursor& object, std::string_view key) {
  return pipesim::JsonMembers(object).required(key);
}
int count(const JsonCursor& object, std::string_view key) {
  return static_cast<int>(member(object, key).integer(1, 1'000'000));
}
std::int64_t ns_of_ms(const JsonCursor& object, std::string_view key) {
  return std::llround(member(object, key).number() * 1e6);
}

// Of a row of table 9: p stages alike. The paper's B is the input gradient, and a
// hop holds no device.
Costs profiled_costs(const JsonCursor& times) {
  pipesim::StageCosts stage;
  stage.forward_ns = ns_of_ms(times, "T_F");
  stage.backward_input_ns = ns_of_ms(times, "T_B");
  stage.backward_weight_ns = ns_of_ms(times, "T_W");
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(count(times, "p")), stage);
  costs.p2p.latency_ns = ns_of_ms(times, "T_comm");
  return costs;
}

// The paper's bubble rate: (cost - m(F+B+W)) / cost, where cost is the largest
// span of a rank.
double bubble_rate(const std::string& name, const JsonCursor& times) {
  const Schedule schedule = pipesim::generate({name, count(times, "p"), count(times, "m")});
  return pipesim::simulate(schedule, profiled_costs(times)).span_bubble();
}

void print_table(const JsonCursor& data) {
  fmt::print("Bubble rates, computed here / as published\n\n");
  fmt::print("{:<6} {:>2} {:>3}   {:<17} {:<17} {:<17}\n", "model", "p", "m", "1F1B", "ZB-H1",
             "ZB-H2");
  double worst = 0;
  for (const auto& times : member(data, "table9_profiled_ms").array()) {
    for (const auto& rates : member(data, "table5_bubble_rate").array()) {
      const std::string& model = member(times, "model").string();
      if (member(rates, "model").string() != model || count(rates, "m") != count(times, "m")) {
        continue;
      }
      std::string row =
          fmt::format("{:<6} {:>2} {:>3}  ", model, count(times, "p"), count(times, "m"));
      for (const auto& [column, name] :
           {std::pair("1F1B", "1f1b"), {"ZB-H1", "zb-h1"}, {"ZB-H2", "zb-h2"}}) {
        const double computed = bubble_rate(name, times);
        const double published = member(rates, column).number();
        worst = std::max(worst, std::abs(computed - published));
        row += fmt::format(" {:.4f} / {:.4f}  ", computed, published);
      }
      fmt::print("{}\n", row.substr(0, row.find_last_not_of(' ') + 1));
    }
  }
  fmt::print("\nlargest difference: {:.1e} (the published rates have four decimals)\n", worst);
}

}  // namespace

int main() {
  try {
    const std::string path = PIPESIM_SOURCE_DIR "/bench/validation/data/zero_bubble_2023.json";
    const pipesim::JsonValue data = pipesim::parse_json(pipesim::read_file(path), path);
    print_table(JsonCursor(data, path));
  } catch (const std::exception& error) {
    fmt::print(stderr, "zero_bubble_table: {}\n", error.what());
    return 1;
  }
  return 0;
}
