// Published measurements, as rows that a cost model can predict.
//
// The figures stand in data/, with their source, units and caveats, and with
// what each is used for: that was decided before anything was fitted. Plain
// values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/estimate/operators.h"
#include "sim/cost/estimate/training.h"
#include "sim/cost/model.h"

namespace pipesim::validation {

enum class Quantity : std::uint8_t {
  iteration,       // from the first forward to the end of the optimizer's step
  layer_forward,   // of one block, one microbatch
  layer_backward,  // with what is computed again
};

enum class Use : std::uint8_t {
  fitted,                  // constants may be fitted on it
  host_floor,              // of a simulator; only the host's floor was read off it
  unseen,                  // never looked at when fitting
  contradicts_neighbours,  // see Row::reason; never fitted
};

enum class Source : std::uint8_t {
  korthikanti,         // table 5
  korthikanti_layers,  // table 4
  sc21,
  vtrain_multi_node,
  vtrain_single_node,  // output of another simulator, not measured
  simumax_b200,
};

struct Row {
  Source source = Source::korthikanti;
  std::string name;
  Quantity quantity = Quantity::iteration;
  Model model;
  std::string cluster;
  Training training;
  int virtual_stages = 1;  // chunks a rank
  int microbatches = 1;
  double published_s = 0;
  std::optional<double> published_mfu;
  std::optional<double> published_peak_bytes;  // of the fullest rank
  // What another simulator predicts of them.
  std::optional<double> peer_s;
  std::optional<double> peer_peak_bytes;
  Use use = Use::unseen;
  std::string reason;  // why it contradicts its neighbours

  bool fitted() const { return use == Use::fitted; }
  bool contradicts() const { return use == Use::contradicts_neighbours; }
};

// `folder` holds the data files; rows in the files' order. Throws Error, or what
// the JSON library throws, where a file is not as expected.
std::vector<Row> read_rows(const std::string& folder);

// How much of the peak a product reached on one card.
struct MatmulRow {
  MatrixProduct product;
  double efficiency = 0;
  bool fitted = false;
};

struct MatmulTable {
  std::string device;
  std::vector<MatmulRow> rows;
};

MatmulTable read_matmul_table(const std::string& folder);

}  // namespace pipesim::validation
