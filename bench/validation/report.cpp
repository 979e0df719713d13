#include "bench/validation/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/validation/b200_section.h"
#include "bench/validation/goals.h"
#include "bench/validation/markdown.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::validation {
namespace {

using Json = nlohmann::json;

std::string signed_percent(double fraction) { return fmt::format("{:+.1f}", 100 * fraction); }
std::string percent(double fraction, int decimals = 2) {
  return fmt::format("{:.{}f}", 100 * fraction, decimals);
}

std::string_view use_name(const Row& row) {
  switch (row.use) {
    case Use::fitted: return "fitted";
    case Use::host_floor: return "host floor";
    case Use::unseen: return "unseen";
    case Use::contradicts_neighbours: return "contradicts";
  }
  return {};
}

const char* const introduction =
    R"(# Predictions against published measurements

`bash bench/validation/run.sh` writes this file. One set of constants per device predicts
every row: those of `a100-sxm-80gb`, on the clusters `dgx-a100` and `vtrain-a100`, and
those of `b200`, on `dgx-b200`.
Published figures, with sources, units and caveats, stand in `bench/validation/data`.

- Errors are predicted against published time, in percent, positive where the prediction
  is too long. Means, medians and worsts are of absolute errors.
- `fitted`: `fit_costs` may use the row; `unseen`: it never does. Which is which was
  decided before anything was fitted, and stands in the data.
- `contradicts`: the row cannot be predicted from its neighbours, for the reason given;
  the list, too, was made first. Such rows are never fitted, and count where nothing
  else is said.

)";

std::string constants_section(const Findings& findings) {
  const Device& device = findings.device;
  Table table({"constant", "value", "fitted on"});
  const auto add = [&](const char* name, const std::string& value, const char* rows) {
    table.add({name, value, rows});
  };
  const char* const fitted = "rows marked fitted";
  add("share of the peak of matrix products", fmt::format("{}", device.matmul.peak_share), fitted);
  add("share of memory's rate", fmt::format("{}", device.memory_share), fitted);
  add("traffic of unfused attention", fmt::format("{}", device.attention_traffic), fitted);
  add("a message, of its sender's time", format_time(device.p2p_overhead_ns), fitted);
  add("hidden part of a reduction", fmt::format("{}", device.hidden_reduction), fitted);
  add("share of a network card's rate", fmt::format("{}", find_cluster("dgx-a100").network.share),
      fitted);
  add("software factor of 2021",
      fmt::format("{}", findings.of(Source::sc21).front().row->training.software_factor),
      "rows marked fitted of SC21");
  add("shape of matrix products", "tiles, ramp, whole waves, accumulation",
      "shapes of SimuMax's table");
  add("host floor of a layer",
      fmt::format("{} forward, {} backward, {} more for each peer",
                  format_time(device.host.forward_ns), format_time(device.host.backward_ns),
                  format_time(device.host.peer_ns)),
      "half of vTrain's single-node groups, output of a simulator");
  return "## Constants\n\nAll that is fitted, of the A100; `fit_costs` prints how the rows would "
         "have it, and "
         "`fit_costs --without all` what each term is worth. Everything else is from data sheets, "
         "measured by others or assumed, and stands with its source in the files of devices and "
         "clusters.\n\n" +
         table.text();
}

std::string goals_section(const Findings& findings) {
  Table table({"errors of", "statistic", "goal", "reached", ""});
  std::size_t met = 0;
  const std::vector<Goal> all = goals(findings);
  for (const Goal& goal : all) {
    met += goal.met() ? 1 : 0;
    table.add(
        {goal.measure, goal.statistic, percent(goal.limit), percent(goal.reached),
         goal.met() ? "met" : fmt::format("missed by {}", percent(goal.reached - goal.limit))});
  }
  return fmt::format("## Goals\n\n{} of {} met.\n\n", met, all.size()) + table.text();
}

std::string summary_section(const Findings& findings) {
  Table table({"errors of", "rows", "mean", "median", "worst", "which"});
  for (const Measure& measure : findings.measures) {
    const ErrorSummary& errors = measure.errors;
    table.add({measure.name, std::to_string(errors.rows), percent(errors.mean),
               percent(errors.median), percent(errors.worst),
               errors.worst > 0 ? errors.worst_name : ""});
  }
  return "## Summary\n\nBubble rates: in percentage points.\n\n" + table.text();
}

// Of other programs, as they publish them.
std::string peers_section(const std::string& folder) {
  Table table({"simulator", "rows", "mean", "worst", "source"});
  const Json file = Json::parse(read_file(folder + "/peers.json"));
  const auto figure = [](const Json& peer, const char* key) {
    return peer.contains(key) ? fmt::format("{:.2f}", peer.at(key).get<double>()) : std::string();
  };
  for (const Json& peer : file.at("peers")) {
    table.add({peer.at("name"), peer.at("rows"), figure(peer, "mean"), figure(peer, "worst"),
               peer.at("source")});
  }
  return "## What other simulators publish of themselves\n\nOn their own choice of rows; of "
         "vTrain's multi-node rows 41 are public.\n\n" +
         table.text();
}

std::string rows_table(const std::vector<Outcome>& outcomes, const char* unit, double scale) {
  Table table({"row", fmt::format("published, {}", unit), fmt::format("predicted, {}", unit),
               "error, %", "use"});
  for (const Outcome& outcome : outcomes) {
    const Row& row = *outcome.row;
    table.add({row.name, fmt::format("{:.3f}", row.published_s * scale),
               fmt::format("{:.3f}", outcome.predicted.seconds * scale),
               signed_percent(outcome.error()),
               row.contradicts() ? fmt::format("{}: {}", use_name(row), row.reason)
                                 : std::string(use_name(row))});
  }
  return table.text();
}

std::string korthikanti_section(const Findings& findings) {
  const std::vector<Outcome> iterations = findings.of(Source::korthikanti);
  std::string text =
      "## Korthikanti et al., arXiv 2205.05198, table 5: iterations\n\n"
      "No data parallelism. \"Present work\" is sequence parallelism with selective "
      "recomputation. The software factor is 1.\n\n" +
      rows_table(iterations, "s", 1);
  Table mfu({"row", "published MFU, %", "predicted MFU, %"});
  for (const Outcome& outcome : iterations) {
    if (!outcome.row->published_mfu) continue;
    mfu.add({outcome.row->name, percent(*outcome.row->published_mfu, 1),
             percent(outcome.predicted.mfu, 1)});
  }
  text += mfu.text();
  text +=
      "## The same, table 4: one layer of 22B, one microbatch\n\n"
      "Published to 0.1 ms. A backward holds what is computed again.\n\n" +
      rows_table(findings.of(Source::korthikanti_layers), "ms", 1e3);

  text +=
      "## The same, table 2: activation bytes of a layer\n\n"
      "Closed forms, evaluated and computed; they test the formula, not an allocator.\n\n";
  Table bytes({"kept", "closed form", "shape", "closed form, bytes", "computed, bytes"});
  for (const BytesRow& row : findings.bytes) {
    bytes.add({row.name, row.formula, row.shape, format_count(row.closed_form),
               format_count(row.computed)});
  }
  return text + bytes.text();
}

std::string sc21_section(const Findings& findings) {
  Table table({"row", "published, s", "predicted, s", "error, %", "error with factor 1, %", "use"});
  const std::vector<Outcome> outcomes = findings.of(Source::sc21);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    table.add({outcome.row->name, fmt::format("{:.3f}", outcome.row->published_s),
               fmt::format("{:.3f}", outcome.predicted.seconds), signed_percent(outcome.error()),
               signed_percent(findings.outcomes_at_1[i].error()),
               std::string(use_name(*outcome.row))});
  }
  const double factor = outcomes.empty() ? 1 : outcomes.front().row->training.software_factor;
  return fmt::format(
             "## Narayanan et al., SC21, arXiv 2104.04473, table 1\n\n"
             "Times are derived from rounded TFLOP/s, good to 0.4 %. The software is a year older "
             "than that of the rows above, on the same cluster: it has no asynchronous reduction, "
             "and a software factor of {} on matrix products, which is nearly a constant of this "
             "source. With 1 instead the errors are those beside.\n\n",
             factor) +
         table.text();
}

std::string multi_node_section(const Findings& findings) {
  return "## vTrain, arXiv 2312.12391: 41 multi-node rows\n\n"
         "Megatron-DeepSpeed on nodes of eight A100 80 GB. Tensor groups of 16 are wider than "
         "a node.\n\n" +
         rows_table(findings.of(Source::vtrain_multi_node), "s", 1);
}

std::string single_node_section(const Findings& findings) {
  std::map<std::tuple<std::int64_t, int, std::int64_t>, std::vector<Outcome>> groups;
  for (const Outcome& outcome : findings.of(Source::vtrain_single_node)) {
    const Training& training = outcome.row->training;
    groups[{outcome.row->model.hidden_size, training.tensor_parallel, training.micro_batch_size}]
        .push_back(outcome);
  }
  Table table({"h", "t", "b", "rows", "mean", "median", "worst", "use"});
  for (const auto& [key, outcomes] : groups) {
    const auto& [hidden, split, batch] = key;
    const ErrorSummary errors = summarise(outcomes);
    table.add({std::to_string(hidden), std::to_string(split), std::to_string(batch),
               std::to_string(errors.rows), percent(errors.mean, 1), percent(errors.median, 1),
               percent(errors.worst, 1), std::string(use_name(*outcomes.front().row))});
  }
  return "## Agreement with a peer simulator: vTrain's 1,440 single-node rows\n\n"
         "Published as measured, but provably output of a simulator (see the data): this is "
         "agreement, not accuracy. Rows of a group are near-copies of each other. Half of the "
         "groups informed the host's floor, and nothing else.\n\n" +
         table.text();
}

std::string zero_bubble_section(const Findings& findings) {
  std::string text =
      "## Qi et al., Zero Bubble, arXiv 2401.10241\n\n"
      "Table 5, bubble rates computed from table 9's times, computed here / published. The "
      "authors' 1F1B-I lies below Megatron-LM's order with a latency a hop; why is unknown.\n\n";
  const auto pair = [](const Figure& figure, std::size_t i, int decimals) {
    return fmt::format("{:.{}f} / {:.{}f}", figure.computed[i], decimals, figure.published[i],
                       decimals);
  };
  Table rates({"run", "1F1B", "ZB-H1", "ZB-H2", "1F1B-I"});
  for (const Figure& figure : findings.rates) {
    rates.add({figure.name, pair(figure, 0, 4), pair(figure, 1, 4), pair(figure, 2, 4),
               pair(figure, 3, 4)});
  }
  text += rates.text();
  text +=
      "Table 4, measured throughput: how many times as long 1F1B takes as another schedule, "
      "computed here from table 9's times / published. ZB-1p is predicted as ZB-H1, whose bubble "
      "rates it has. ZB-2p is not predicted: it is searched for under a memory cap. The hop of "
      "table 9 either holds no device, as in table 5, or holds its sender, as the cost model "
      "has it: interleaving hops more often.\n\n";
  Table ratios({"run", "1F1B : ZB-1p, free", "1F1B : 1F1B-I, free", "1F1B : ZB-1p, held",
                "1F1B : 1F1B-I, held"});
  for (const Figure& figure : findings.ratios) {
    ratios.add({figure.name, pair(figure, 0, 3), pair(figure, 1, 3), pair(figure, 2, 3),
                pair(figure, 3, 3)});
  }
  return text + ratios.text();
}

std::string trends_section(const Findings& findings, const std::string& folder) {
  std::string text =
      "## Huang et al., GPipe, arXiv 1811.06965: speed-ups\n\n"
      "K partitions, all alike, M microbatches, the forward computed again, transfers that take "
      "nothing; against K = 2 of the table's smallest M. Computed here / published. With M of 4 "
      "the published speed-ups are beyond what bubbles of (K - 1) / (M + K - 1) allow; "
      "why is not known here.\n\n";
  Table speedups({"network", "K 2", "K 4", "K 8"});
  for (const Figure& figure : findings.speedups) {
    std::vector<std::string> cells{figure.name};
    for (std::size_t i = 0; i < figure.computed.size(); ++i) {
      cells.push_back(fmt::format("{:.2f} / {:.2f}", figure.computed[i], figure.published[i]));
    }
    speedups.add(cells);
  }
  text += speedups.text();

  const Json file = Json::parse(read_file(folder + "/dualpipe.json"));
  text += "## DualPipe: closed forms, not predicted\n\nNo schedule here builds it yet.\n\n";
  Table dual({"schedule", "bubble", "parameters", "activations", "devices"});
  for (const Json& row : file.at("rows")) {
    dual.add({row.at("method"), row.at("bubble"), row.at("params_per_device"),
              row.at("activation_per_device"), row.at("devices")});
  }
  return text + dual.text();
}

std::string products_section(const Findings& findings) {
  std::vector<const ProductRow*> worst;
  for (const ProductRow& row : findings.products) worst.push_back(&row);
  std::stable_sort(worst.begin(), worst.end(), [](const ProductRow* a, const ProductRow* b) {
    return std::abs(a->error()) > std::abs(b->error());
  });
  constexpr std::size_t shown = 10;
  if (worst.size() > shown) worst.resize(shown);
  Table table({"product", "published, % of the peak", "computed", "error of the time, %", "use"});
  for (const ProductRow* row : worst) {
    table.add({row->name, percent(row->published, 1), percent(row->computed, 1),
               signed_percent(row->error()), row->fitted ? "fitted" : "unseen"});
  }
  return fmt::format(
             "## Matrix products: SimuMax's A100 PCIe table, {} shapes\n\n"
             "Tiles, ramp, whole waves and accumulation were fitted on every second shape, with a "
             "peak share of that card's own, which its power limits. The worst:\n\n",
             findings.products.size()) +
         table.text();
}

}  // namespace

std::string validation_report(const Findings& findings, const std::string& folder) {
  std::string text = introduction + goals_section(findings) + summary_section(findings) +
                     constants_section(findings) + peers_section(folder) +
                     korthikanti_section(findings) + sc21_section(findings) +
                     multi_node_section(findings) + b200_section(findings) +
                     zero_bubble_section(findings) + trends_section(findings, folder) +
                     products_section(findings) + single_node_section(findings);
  text.pop_back();
  return text;
}

}  // namespace pipesim::validation
