// Fits the free constants on the rows that the data marks as fitted, and on
// nothing else. Prints what it found and what errors that gives; a person copies
// values into the device's file.
//
//   fit_costs                   all constants
//   fit_costs --without NAME    one term less, the others fitted again: its worth
//   fit_costs --products        the shape of matrix products, on SimuMax's table
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/validation/fit_products.h"
#include "bench/validation/nelder_mead.h"
#include "bench/validation/predictions.h"
#include "traces/base/text.h"
#include "traces/command/program.h"
#include "traces/print/terminal.h"

namespace {

using namespace pipesim;
using namespace pipesim::validation;

// What the fit may change.
struct Constants {
  Clusters clusters;
  double software_2021 = 1;  // of the SC21 rows
};

// A constant, what is expected of it before any row is seen, and how firmly:
// being `spread` off costs as much as a row of weight 1 that errs by 2.6 %.
struct Parameter {
  std::string name;
  double expected;
  double spread;
  double least;
  double most;
  std::function<double(const Constants&)> get;
  std::function<void(Constants&, double)> set;
};

Parameter of_device(const std::string& name, double expected, double spread, double least,
                    double most, const std::function<double(const Device&)>& get,
                    const std::function<void(Device&, double)>& set) {
  return {name,
          expected,
          spread,
          least,
          most,
          [get](const Constants& from) { return get(from.clusters.begin()->second.device); },
          [set](Constants& to, double value) {
            for (auto& [cluster_name, cluster] : to.clusters) set(cluster.device, value);
          }};
}

std::vector<Parameter> parameters() {
  return {
      of_device(
          "peak_share", 0.85, 0.1, 0.3, 1, [](const Device& d) { return d.matmul.peak_share; },
          [](Device& d, double value) { d.matmul.peak_share = value; }),
      of_device(
          "memory_share", 0.8, 0.1, 0.3, 1, [](const Device& d) { return d.memory_share; },
          [](Device& d, double value) { d.memory_share = value; }),
      of_device(
          "attention_traffic", 1.2, 0.3, 1, 3, [](const Device& d) { return d.attention_traffic; },
          [](Device& d, double value) { d.attention_traffic = value; }),
      of_device(
          "p2p_overhead_ms", 0.5, 0.5, 0, 5,
          [](const Device& d) { return static_cast<double>(d.p2p_overhead_ns) / 1e6; },
          [](Device& d, double value) { d.p2p_overhead_ns = std::llround(value * 1e6); }),
      of_device(
          "hidden_reduction", 0.5, 0.3, 0, 1, [](const Device& d) { return d.hidden_reduction; },
          [](Device& d, double value) { d.hidden_reduction = value; }),
      {"network_share", 0.9, 0.1, 0.3, 1,
       [](const Constants& from) { return from.clusters.begin()->second.network.share; },
       [](Constants& to, double value) {
         for (auto& [name, cluster] : to.clusters) cluster.network.share = value;
       }},
      {"software_2021", 1, 0.05, 0.5, 1.2, [](const Constants& from) { return from.software_2021; },
       [](Constants& to, double value) { to.software_2021 = value; }},
  };
}

// A term left out: the constants that stay as they are then, and how.
struct Ablation {
  std::string name;
  std::string fixes;  // a parameter, or none
  std::function<void(Constants&)> apply;
};

Ablation fixing(const std::string& parameter, double value) {
  return {parameter, parameter, [parameter, value](Constants& to) {
            for (const Parameter& one : parameters()) {
              if (one.name == parameter) one.set(to, value);
            }
          }};
}

Ablation on_clusters(const std::string& name, const std::function<void(Cluster&)>& change) {
  return {name, "", [change](Constants& to) {
            for (auto& [cluster_name, cluster] : to.clusters) change(cluster);
          }};
}

std::vector<Ablation> ablations() {
  return {
      fixing("attention_traffic", 1),
      fixing("p2p_overhead_ms", 0),
      fixing("hidden_reduction", 0),
      fixing("software_2021", 1),
      on_clusters("matmul_shape",
                  [](Cluster& cluster) {
                    cluster.device.matmul = {.peak_share = cluster.device.matmul.peak_share};
                  }),
      on_clusters("whole_waves", [](Cluster& cluster) { cluster.device.matmul.whole_waves = 0; }),
      on_clusters("kernel_gap", [](Cluster& cluster) { cluster.device.kernel_gap_ns = 0; }),
      on_clusters("host_floor", [](Cluster& cluster) { cluster.device.host = {}; }),
      on_clusters("collective_latency",
                  [](Cluster& cluster) {
                    for (BusRate& rate : cluster.node.collectives) rate.latency_ns = 0;
                  }),
      on_clusters("card_sharing", [](Cluster& cluster) { cluster.network.rail_aligned = true; }),
  };
}

double weight_of(Source source) {
  switch (source) {
    case Source::korthikanti:
    case Source::sc21: return 2;
    case Source::korthikanti_layers: return 2;
    case Source::vtrain_multi_node: return 0.3;
    case Source::vtrain_single_node:
    case Source::simumax_b200: return 0;
  }
  return 0;
}

std::vector<Outcome> outcomes_of(std::vector<Row>& rows, const Constants& constants,
                                 const std::function<bool(const Row&)>& wanted) {
  for (Row& row : rows) {
    if (row.source == Source::sc21) row.training.software_factor = constants.software_2021;
  }
  return predict_rows(rows, constants.clusters, wanted);
}

class Fit {
 public:
  Fit(std::vector<Row> rows, const Ablation* without) : rows_(std::move(rows)) {
    constants_.clusters = clusters_of(rows_);
    const auto sc21 = std::find_if(rows_.begin(), rows_.end(),
                                   [](const Row& row) { return row.source == Source::sc21; });
    if (sc21 != rows_.end()) constants_.software_2021 = sc21->training.software_factor;
    if (without != nullptr) without->apply(constants_);
    for (Parameter& one : parameters()) {
      if (without == nullptr || one.name != without->fixes) free_.push_back(std::move(one));
    }
    start_ = constants_;
  }

  void run() {
    std::vector<double> at;
    for (const Parameter& one : free_)
      at.push_back((one.get(constants_) - one.expected) / one.spread);
    const auto loss_at = [&](const std::vector<double>& point) { return loss(point); };
    constexpr double step = 0.5;
    constexpr double tolerance = 1e-6;
    constexpr int most = 20'000;
    set(constants_, minimise(loss_at, at, step, tolerance, most));
  }

  const std::vector<Parameter>& free() const { return free_; }
  const Constants& start() const { return start_; }
  const Constants& end() const { return constants_; }
  std::vector<Row>& rows() { return rows_; }

 private:
  void set(Constants& constants, const std::vector<double>& point) const {
    for (std::size_t i = 0; i < free_.size(); ++i) {
      const Parameter& one = free_[i];
      one.set(constants, std::clamp(one.expected + point[i] * one.spread, one.least, one.most));
    }
  }

  // Robust: a row that errs by 10 % counts about five times as much as one by
  // 2 %, not 25 times.
  double loss(const std::vector<double>& point) {
    set(constants_, point);
    double sum = 0;
    for (const double distance : point) sum += distance * distance;
    const auto is_fitted = [](const Row& row) { return row.fitted(); };
    for (const Outcome& outcome : outcomes_of(rows_, constants_, is_fitted)) {
      constexpr double usual_error = 0.02;
      const double error = outcome.error() / usual_error;
      sum += weight_of(outcome.row->source) * std::log1p(error * error);
    }
    return sum;
  }

  std::vector<Row> rows_;
  std::vector<Parameter> free_;
  Constants constants_;
  Constants start_;
};

struct Part {
  std::string name;
  Source source;
};

const std::string folder = PIPESIM_SOURCE_DIR "/bench/validation/data";

const std::vector<Part>& parts() {
  static const std::vector<Part> all{{"layers", Source::korthikanti_layers},
                                     {"korthikanti", Source::korthikanti},
                                     {"sc21", Source::sc21},
                                     {"vtrain multi-node", Source::vtrain_multi_node}};
  return all;
}

std::string errors_of(std::vector<Row>& rows, const Constants& constants, Source source,
                      const std::function<bool(const Row&)>& wanted) {
  const ErrorSummary errors = summarise(outcomes_of(
      rows, constants, [&](const Row& row) { return row.source == source && wanted(row); }));
  return fmt::format("{:6.2f} {:6.2f} {:6.2f}", 100 * errors.mean, 100 * errors.median,
                     100 * errors.worst);
}

void print_fit(Fit& fit) {
  print(fmt::format("{:<20} {:>9} {:>9}\n", "constant", "start", "end"));
  for (const Parameter& one : fit.free()) {
    print(fmt::format("{:<20} {:>9.4f} {:>9.4f}\n", one.name, one.get(fit.start()),
                      one.get(fit.end())));
  }
  print(fmt::format("\nabsolute errors, %: mean, median, worst\n{:<28} {:<20}   {:<20}\n", "",
                    "at the start", "at the end"));
  for (const Part& part : parts()) {
    for (const Use use : {Use::fitted, Use::unseen}) {
      const auto wanted = [&](const Row& row) { return row.use == use; };
      print(fmt::format("{:<28} {}   {}\n",
                        part.name + (use == Use::fitted ? ", fitted" : ", unseen"),
                        errors_of(fit.rows(), fit.start(), part.source, wanted),
                        errors_of(fit.rows(), fit.end(), part.source, wanted)));
    }
  }
}

// A line: mean, median, worst of each source, fitted and unseen together.
void print_line(const std::string& name, Fit& fit) {
  std::string line = fmt::format("{:<20}", name);
  for (const Part& part : parts()) {
    line += " |" + errors_of(fit.rows(), fit.end(), part.source, [](const Row&) { return true; });
  }
  print(line + "\n");
}

// One line for each term that is left out, or for one of them.
void print_ablations(const std::vector<Row>& rows, const std::string& without) {
  std::vector<Ablation> chosen;
  std::vector<std::string> known{"all"};
  for (const Ablation& one : ablations()) {
    known.push_back(one.name);
    if (without == "all" || without == one.name) chosen.push_back(one);
  }
  if (chosen.empty()) throw input_error("--without: " + unknown_name("term", without, known));
  print("absolute errors of all rows, %: mean, median, worst\n");
  std::string heading = fmt::format("{:<20}", "without");
  for (const Part& part : parts()) heading += fmt::format(" | {:<20}", part.name);
  print(heading + "\n");
  Fit whole(rows, nullptr);
  whole.run();
  print_line("nothing", whole);
  for (const Ablation& one : chosen) {
    Fit fit(rows, &one);
    fit.run();
    print_line(one.name, fit);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("fit_costs fits the cost model's free constants on published rows.", "fit_costs");
  std::string without;
  bool products = false;
  std::string names;
  for (const Ablation& one : ablations()) names += (names.empty() ? "" : ", ") + one.name;
  app.add_option("--without", without, "leave a term out: all, or one of " + names);
  app.add_flag("--products", products, "fit the shape of matrix products instead");
  return run_program(app, argc, argv, [&] {
    if (products) {
      print(fit_products(folder));
      return;
    }
    std::vector<Row> rows = read_rows(folder);
    // One set of constants, of the A100; another simulator's output is not measured.
    std::erase_if(rows, [](const Row& row) {
      return row.source == Source::vtrain_single_node || row.source == Source::simumax_b200;
    });
    if (!without.empty()) {
      print_ablations(rows, without);
      return;
    }
    Fit fit(rows, nullptr);
    fit.run();
    print_fit(fit);
  });
}
