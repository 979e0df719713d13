#include "bench/validation/findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cost/estimate/device_times.h"
#include "traces/base/error.h"

namespace pipesim::validation {

std::vector<ProductRow> examine_products(const MatmulTable& table, const Device& device) {
  const double peak = *device.flops_per_second[static_cast<std::size_t>(Precision::bf16)];
  std::vector<ProductRow> rows;
  for (const MatmulRow& row : table.rows) {
    const MatrixProduct& product = row.product;
    rows.push_back(
        {.name = fmt::format("{} x {} x {}{}", product.rows, product.inner, product.columns,
                             product.accumulates ? ", accumulating" : ""),
         .published = row.efficiency,
         .computed = product.flops() / peak / product_seconds(device, Precision::bf16, product),
         .fitted = row.fitted});
  }
  return rows;
}

namespace {

// The differences of the columns up to `columns`, as fractions where `relative`.
ErrorSummary summarise_figures(const std::vector<Figure>& figures, std::size_t first,
                               std::size_t last, bool relative) {
  std::vector<NamedError> errors;
  for (const Figure& figure : figures) {
    for (std::size_t i = first; i < last; ++i) {
      const double difference = figure.computed[i] - figure.published[i];
      errors.push_back({figure.name, relative ? difference / figure.published[i] : difference});
    }
  }
  return summarise(errors);
}

std::vector<Measure> measure_all(const Findings& findings) {
  std::vector<Measure> measures;
  const auto add = [&](std::string name, const std::vector<Outcome>& outcomes) {
    measures.push_back({std::move(name), summarise(outcomes)});
  };
  const auto with_use = [&](const std::string& name, const std::vector<Outcome>& outcomes) {
    add(name, outcomes);
    const std::pair<Use, const char*> uses[] = {
        {Use::fitted, "fitted"}, {Use::host_floor, "host floor"}, {Use::unseen, "unseen"}};
    for (const auto& use : uses) {
      const auto some = select(outcomes, [&](const Outcome& o) { return o.row->use == use.first; });
      if (!some.empty()) add(fmt::format("{}, {}", name, use.second), some);
    }
  };
  for (const Source source : {Source::korthikanti, Source::korthikanti_layers, Source::sc21}) {
    with_use(std::string(source_name(source)), findings.of(source));
  }
  add("sc21, software factor 1", findings.outcomes_at_1);
  const std::vector<Outcome> multi = findings.of(Source::vtrain_multi_node);
  with_use("vtrain multi-node", multi);
  const auto sound = select(multi, [](const Outcome& o) { return !o.row->contradicts(); });
  add("vtrain multi-node, without contradicting rows", sound);
  const auto split = [](const Outcome& o) { return o.row->training.tensor_parallel; };
  const auto has_1_or_8 = [&](const Outcome& o) { return split(o) == 1 || split(o) == 8; };
  add("vtrain multi-node, t 1 or 8", select(multi, has_1_or_8));
  add("vtrain multi-node, t 1 or 8, without contradicting rows", select(sound, has_1_or_8));
  add("vtrain multi-node, t 16, wider than a node",
      select(sound, [&](const Outcome& o) { return split(o) == 16; }));
  with_use("vtrain single-node, another simulator", findings.of(Source::vtrain_single_node));
  const std::vector<Outcome> b200 = findings.of(Source::simumax_b200);
  add("simumax b200", b200);
  add("simumax b200, nothing hidden", findings.outcomes_unhidden);
  measures.push_back({"simumax b200, peak memory", summarise_peaks(b200)});

  for (const bool fitted : {true, false}) {
    std::vector<NamedError> errors;
    for (const ProductRow& row : findings.products) {
      if (row.fitted == fitted) errors.push_back({row.name, row.error()});
    }
    measures.push_back(
        {fmt::format("matrix products, {}", fitted ? "fitted" : "unseen"), summarise(errors)});
  }
  std::vector<NamedError> bytes;
  for (const BytesRow& row : findings.bytes) {
    bytes.push_back({row.name, static_cast<double>(row.computed - row.closed_form) /
                                   static_cast<double>(row.closed_form)});
  }
  measures.push_back({"activation bytes", summarise(bytes)});
  constexpr std::size_t without_interleaved = 3;
  measures.push_back({"bubble rates, 1F1B, ZB-H1, ZB-H2",
                      summarise_figures(findings.rates, 0, without_interleaved, false)});
  measures.push_back({"schedule ratios, hops that hold no device",
                      summarise_figures(findings.ratios, 0, 2, true)});
  measures.push_back({"schedule ratios, hops that hold their senders",
                      summarise_figures(findings.ratios, 2, 4, true)});
  return measures;
}

}  // namespace

std::string_view source_name(Source source) {
  switch (source) {
    case Source::korthikanti: return "korthikanti";
    case Source::korthikanti_layers: return "korthikanti layers";
    case Source::sc21: return "sc21";
    case Source::vtrain_multi_node: return "vtrain multi-node";
    case Source::vtrain_single_node: return "vtrain single-node";
    case Source::simumax_b200: return "simumax b200";
  }
  return {};
}

std::vector<Outcome> Findings::of(Source source) const {
  return select(outcomes, [&](const Outcome& outcome) { return outcome.row->source == source; });
}

const ErrorSummary& Findings::measure(const std::string& name) const {
  const auto at = std::find_if(measures.begin(), measures.end(),
                               [&](const Measure& measure) { return measure.name == name; });
  if (at == measures.end()) {
    throw input_error(
        fmt::format("bench/validation: no measure is called '{}'; see the summary "
                    "in bench/VALIDATION.md",
                    name));
  }
  return at->errors;
}

Findings examine(const std::string& folder) {
  Findings findings;
  findings.rows = read_rows(folder);
  const Clusters clusters = clusters_of(findings.rows);
  const auto all = [](const Row&) { return true; };
  findings.outcomes = predict_rows(findings.rows, clusters, all);
  for (Row row : findings.rows) {
    if (row.source == Source::sc21) {
      row.training.software_factor = 1;
      findings.sc21_at_1.push_back(std::move(row));
    } else if (row.source == Source::simumax_b200) {
      row.training.asynchronous_reduction = false;
      findings.b200_unhidden.push_back(std::move(row));
    }
  }
  findings.outcomes_at_1 = predict_rows(findings.sc21_at_1, clusters, all);
  findings.outcomes_unhidden = predict_rows(findings.b200_unhidden, clusters, all);
  const Cluster& cluster = clusters.at("dgx-a100");
  findings.device = cluster.device;
  const MatmulTable table = read_matmul_table(folder);
  findings.products = examine_products(table, find_device(table.device));
  findings.bytes = activation_bytes(folder, cluster);
  findings.rates = bubble_rates(folder);
  findings.ratios = schedule_ratios(folder);
  findings.speedups = gpipe_speedups(folder);
  findings.measures = measure_all(findings);
  return findings;
}

}  // namespace pipesim::validation
