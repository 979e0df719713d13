#include "bench/validation/schedule_figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/validation/zero_bubble.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "traces/base/error.h"
#include "traces/base/files.h"

namespace pipesim::validation {
namespace {

using Json = nlohmann::json;

Json zero_bubble_file(const std::string& folder) {
  return Json::parse(read_file(folder + "/zero_bubble_2023.json"));
}

// One layer a chunk; the first rank and the last hold one layer fewer.
int interleaved_chunks(const Json& file, const Json& times) {
  for (const Json& model : file.at("table3_models")) {
    if (model.at("model") == times.at("model")) {
      return (model.at("layers").get<int>() + 2) / times.at("p").get<int>();
    }
  }
  throw input_error(
      fmt::format("bench/validation/data/zero_bubble_2023.json: no model {} in "
                  "table3_models; add it",
                  times.at("model").get<std::string>()));
}

Metrics run(const Json& file, const std::string& name, const Json& times, Hop hop) {
  const int chunks = name == "interleaved" ? interleaved_chunks(file, times) : 1;
  const Schedule schedule = generate(
      {.name = name, .ranks = times.at("p"), .microbatches = times.at("m"), .chunks = chunks});
  return simulate(schedule, profiled_costs(times, chunks, hop));
}

double span_ns(const Metrics& metrics) {
  return static_cast<double>(
      metrics.ranks[static_cast<std::size_t>(metrics.widest_rank)].span_ns());
}

bool same_run(const Json& a, const Json& b) {
  return a.at("model") == b.at("model") && a.at("m") == b.at("m");
}

std::string run_name(const Json& times) {
  return fmt::format("{}, p {}, m {}", times.at("model").get<std::string>(),
                     times.at("p").get<int>(), times.at("m").get<int>());
}

// Of one iteration whose work is cut into `ranks` x `microbatches` like parts;
// the backward computes the forward again.
double gpipe_seconds(int ranks, int microbatches) {
  constexpr std::int64_t all_forwards_ns = 3'360'000'000;  // divides well
  StageCosts stage;
  stage.forward_ns = all_forwards_ns / ranks / microbatches;
  stage.backward_input_ns = 2 * stage.forward_ns;
  stage.backward_weight_ns = stage.forward_ns;
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(ranks), stage);
  const Schedule schedule =
      generate({.name = "gpipe", .ranks = ranks, .microbatches = microbatches});
  return static_cast<double>(simulate(schedule, costs).makespan_ns) / 1e9;
}

Figure speedups(const std::string& name, const Json& partitions, const Json& published,
                int microbatches, double against_s) {
  Figure figure{name, {}, {}};
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    figure.computed.push_back(against_s / gpipe_seconds(partitions[i], microbatches));
    figure.published.push_back(published.at(i));
  }
  return figure;
}

}  // namespace

std::vector<Figure> bubble_rates(const std::string& folder) {
  const Json file = zero_bubble_file(folder);
  std::vector<Figure> figures;
  for (const Json& times : file.at("table9_profiled_ms")) {
    for (const Json& rates : file.at("table5_bubble_rate")) {
      if (!same_run(times, rates)) continue;
      Figure& figure = figures.emplace_back(Figure{run_name(times), {}, {}});
      for (const auto& [column, name] : {std::pair("1F1B", "1f1b"),
                                         {"ZB-H1", "zb-h1"},
                                         {"ZB-H2", "zb-h2"},
                                         {"1F1B-I", "interleaved"}}) {
        figure.computed.push_back(run(file, name, times, Hop::free).span_bubble());
        figure.published.push_back(rates.at(column));
      }
    }
  }
  return figures;
}

std::vector<Figure> schedule_ratios(const std::string& folder) {
  const Json file = zero_bubble_file(folder);
  const auto measured_s = [&](const Json& times, const char* schedule) -> double {
    for (const Json& row : file.at("table4_throughput_memory")) {
      if (same_run(row, times) && row.at("schedule") == schedule) {
        return row.at("derived_iteration_s");
      }
    }
    return 0;
  };
  std::vector<Figure> figures;
  for (const Json& times : file.at("table9_profiled_ms")) {
    const double plain_s = measured_s(times, "1F1B");
    if (plain_s == 0) continue;
    Figure& figure = figures.emplace_back(Figure{run_name(times), {}, {}});
    for (const Hop hop : {Hop::free, Hop::holds_sender}) {
      const double plain_ns = span_ns(run(file, "1f1b", times, hop));
      for (const auto& [column, name] : {std::pair("ZB-1p", "zb-h1"), {"1F1B-I", "interleaved"}}) {
        figure.computed.push_back(plain_ns / span_ns(run(file, name, times, hop)));
        figure.published.push_back(plain_s / measured_s(times, column));
      }
    }
  }
  return figures;
}

std::vector<Figure> gpipe_speedups(const std::string& folder) {
  const Json file = Json::parse(read_file(folder + "/gpipe_2019.json"));
  std::vector<Figure> figures;
  const Json& tpu = file.at("table2_tpu");
  for (const int m : {1, 4, 32}) {
    figures.push_back(speedups(fmt::format("Transformer-48, TPU, M {}", m), tpu.at("K"),
                               tpu.at("Transformer-48").at(fmt::format("M={}", m)), m,
                               gpipe_seconds(2, 1)));
  }
  const Json& gpu = file.at("table3_p100_pcie_32_microbatches");
  figures.push_back(speedups("Transformer-24, P100, M 32", gpu.at("K"), gpu.at("Transformer-24"),
                             32, gpipe_seconds(2, 32)));
  return figures;
}

}  // namespace pipesim::validation
