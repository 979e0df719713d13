#include "tests/growth/readers.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "sim/calibrate/calibration.h"
#include "sim/cost/costs.h"
#include "sim/cost/hardware/cluster.h"
#include "sim/cost/layout.h"
#include "sim/cost/model.h"
#include "sim/cost/pipedream_graph.h"
#include "sim/import/imported.h"
#include "sim/input_pipeline/input_costs.h"
#include "sim/input_pipeline/recommendation_model.h"
#include "sim/input_pipeline/sharding.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "tests/fuzz/memory_file.h"
#include "traces/base/text.h"
#include "traces/flame/event_usage.h"
#include "traces/flame/flame_graph.h"
#include "traces/read/event_trace.h"
#include "traces/read/input_trace.h"
#include "traces/read/read_run.h"

namespace pipesim::testing {
namespace {

void read_schedule(const std::string& text) {
  const Schedule schedule = parse_schedule(text, "grown.csv");
  for (const SendMode mode : all_send_modes()) {
    if (schedule.has_transfers() || mode == SendMode::buffered) find_deadlock(schedule, mode);
  }
  count_unit_steps(schedule.has_transfers() ? schedule : lower(schedule));
}

void read_costs_file(const std::string& text) {
  const CostsFile file = parse_costs(text, "grown.json");
  const auto stages = static_cast<int>(file.layers.empty() ? file.costs.stages.size() : 1);
  const Placement placement = Placement::loop(stages, 1);
  file.resolve(placement, std::nullopt).check(placement, 1000, "grown");
}

void read_as_calibration(const std::string& text) {
  const MemoryFile file(text);
  calibrate(read_runs({file.path()}));
}

// Of a model with tables t0 ... t9999, and as many ranks.
void read_plan(const std::string& text) {
  constexpr int most = 10'000;
  static const RecommendationModel model = [] {
    RecommendationModel many{.name = "many"};
    many.bottom = {5040};
    for (int i = 0; i < most; ++i) many.tables.push_back({"t" + std::to_string(i), most, 5040});
    return many;
  }();
  parse_sharding_plan(text, "grown.json", model, most, 8);
}

// `ranks 0-4095`: calls that represent several ranks take memory for each.
bool has_calls_of_several(const std::string& text) {
  return text.find("ranks") != std::string::npos;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{
      {"run",
       [](const std::string& text) {
         const MemoryFile file(text);
         read_run({file.path()}, {.layers = true, .samples = true});
       }},
      {"events",
       [](const std::string& text) {
         const MemoryFile file(text);
         const EventTrace events = read_event_trace(file.path());
         StackCollector collector;
         collector.add(events);
         flame_graph(collector.take());
         rank_usage(events);
         name_times(events);
       }},
      {"calibration", read_as_calibration},
      {"schedule", read_schedule},
      {"costs", read_costs_file},
      {"model", [](const std::string& text) { parse_model(text, "grown.json"); }},
      {"device", [](const std::string& text) { parse_device(text, "grown.json"); }},
      {"cluster", [](const std::string& text) { parse_cluster(text, "grown.json"); }},
      {"recommendation model",
       [](const std::string& text) { parse_recommendation_model(text, "grown.json"); }},
      {"sharding plan", read_plan},
      {"input costs", [](const std::string& text) { parse_input_costs(text, "grown.json"); }},
      {"input program",
       [](const std::string& text) {
         if (!has_calls_of_several(text)) parse_input_program(text, "grown.program");
       }},
      {"input trace",
       [](const std::string& text) {
         if (has_calls_of_several(text)) return;
         const MemoryFile file(text);
         measure(read_input_run(file.path()));
       }},
      {"graph", [](const std::string& text) { parse_pipedream_graph(text, "grown.txt", 2); }},
      {"layout", [](const std::string& text) { parse_layout(text); }},
      {"import", [](const std::string& text) { import_training(text, "grown", {}); }},
      {"message",
       [](const std::string& text) {
         quote(text);
         printable(text);
       }},
  };
  return all;
}

const Reader& find_reader(std::string_view name) {
  const auto found = std::ranges::find(readers(), name, &Reader::name);
  if (found == readers().end()) {
    throw std::out_of_range("no reader is called " + std::string(name));
  }
  return *found;
}

}  // namespace pipesim::testing
