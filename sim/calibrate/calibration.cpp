#include "sim/calibrate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/calibrate/calibration_notes.h"
#include "sim/calibrate/closing_times.h"
#include "sim/calibrate/compute_times.h"
#include "sim/calibrate/exchange_times.h"
#include "sim/calibrate/memory_bytes.h"
#include "sim/calibrate/save_times.h"
#include "sim/calibrate/transfer_times.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Runs = std::span<const RecordedRun* const>;

[[noreturn]] void differ(const RecordedRun& a, const RecordedRun& b, const std::string& how) {
  throw input_error(fmt::format("{} and {} {}; calibrate each on its own", a.name, b.name, how));
}

std::string_view source_name(Source source) {
  switch (source) {
    case Source::predicted: return "a prediction";
    case Source::measured: return "a measurement";
    default: return "a profile";
  }
}

bool computes_again(const RecordedRun& run) {
  return std::ranges::any_of(run.layers, &LayerSpan::again);
}

void check_alike(const RecordedRun& a, const RecordedRun& b) {
  if (a.about.source != b.about.source) {
    differ(a, b,
           fmt::format("are {} and {}", source_name(a.about.source), source_name(b.about.source)));
  }
  if (a.ranks != b.ranks) {
    differ(a, b, fmt::format("have {} and {} ranks", a.ranks, b.ranks));
  }
  if (a.layers.empty() != b.layers.empty()) {
    differ(a, b, "are one with layers and one without");
  }
  if (a.about.layers != b.about.layers) differ(a, b, "have different layers");
  if (a.about.model_json != b.about.model_json) differ(a, b, "trained different models");
  if (a.about.tensor_parallel != b.about.tensor_parallel ||
      a.about.sequence_parallel != b.about.sequence_parallel) {
    differ(a, b, "split their layers over ranks in different ways");
  }
  if (a.about.measured.attention != b.about.measured.attention) {
    differ(a, b, "are one whose attention keeps scores and one whose does not");
  }
  if (a.about.device != b.about.device) {
    differ(a, b,
           fmt::format("ran on different devices, {} and {}", quote(a.about.device),
                       quote(b.about.device)));
  }
  if (a.layers.empty() && a.about.rank_of_stage != b.about.rank_of_stage) {
    differ(a, b, "have their stages on different ranks");
  }
  if (computes_again(a) != computes_again(b)) {
    differ(a, b, "are one that recomputes forwards and one that does not");
  }
}

// The layers of a run must match its layout.
void check_layers(const RecordedRun& run) {
  std::size_t layers = 0;
  bool is_whole = run.about.layout.size() == run.about.rank_of_stage.size();
  for (const int count : run.about.layout) {
    is_whole = is_whole && count > 0;
    layers += static_cast<std::size_t>(count);
  }
  const auto outside = [&](const LayerSpan& layer) {
    return layer.layer < 0 || static_cast<std::size_t>(layer.layer) >= layers;
  };
  if (!is_whole || layers != run.about.layers.size() || std::ranges::any_of(run.layers, outside)) {
    throw input_error(fmt::format(
        "{}: its layers are not those of its layout; calibrate from a whole trace", run.name));
  }
}

// Sums of values within the limits of traces may exceed those of costs.
void check_readable(const CostsFile& costs, const RecordedRun& run) {
  try {
    parse_costs(to_json(costs), "the costs of it");
  } catch (const Error& error) {
    throw input_error(fmt::format("{}: {}", run.name, error.what()));
  }
}

}  // namespace

Calibration calibrate(std::span<const RecordedRun> all, bool launches) {
  std::vector<const RecordedRun*> runs;
  for (const RecordedRun& run : all) runs.push_back(&run);
  if (runs.empty()) throw input_error("nothing to calibrate from; give at least one trace");
  const bool by_layer = !runs.front()->layers.empty();
  for (const RecordedRun* run : runs) {
    check_alike(*runs.front(), *run);
    if (by_layer) check_layers(*run);
    const std::string& recompute = run->about.measured.recompute;
    if (by_layer && recompute.starts_with("full:")) {
      throw input_error(fmt::format(
          "{}: it computes some blocks again ({}); which ones follows from its stages, so that its "
          "layers' costs hold for no other layout; record with --recompute none or full",
          run->name, recompute));
    }
    const auto computes = [](const Span& span) { return is_compute(span.action.kind); };
    if (std::ranges::none_of(run->spans, computes)) {
      throw work_error(
          fmt::format("{}: no action was recorded; there is nothing to calibrate from", run->name));
    }
  }

  Calibration result;
  CostsFile& costs = result.costs;
  Provenance& provenance = costs.calibration.emplace();
  for (const RecordedRun* run : runs) provenance.from.push_back(run->name);

  ComputeTimes compute = compute_times(runs, by_layer, launches);
  provenance.entries = std::move(compute.provenance);
  costs.receive_ns = compute.receive_ns;
  provenance.variation_ppm = std::move(compute.variation_ppm);

  const TransferTimes transfers = transfer_times(runs, compute.receive_ns);
  costs.costs.p2p = transfers.p2p;
  costs.costs.edges = transfers.edges;
  provenance.transfers = transfers.spread;
  result.transfers = transfers.transfers;
  result.message_sizes = transfers.sizes;

  const ExchangeTimes exchanges = exchange_times(runs, by_layer, compute.entries);
  costs.costs.replicas = exchanges.replicas;
  provenance.replicas = exchanges.spread;

  set_closing_times(runs, by_layer, costs, compute.entries);
  provenance.notes = set_bytes(runs, by_layer, compute.entries);
  const SaveTimes saves = save_times(runs, by_layer, compute.entries);
  costs.costs.save = saves.save;
  result.checkpoints = saves.checkpoints;
  provenance.notes.insert(provenance.notes.end(), saves.notes.begin(), saves.notes.end());
  provenance.notes.insert(provenance.notes.begin(), exchanges.notes.begin(), exchanges.notes.end());
  provenance.notes.insert(provenance.notes.begin(), transfers.notes.begin(), transfers.notes.end());
  if (!by_layer && std::ranges::all_of(provenance.entries, [](const Provenance::Entry& entry) {
        return !entry.backward_input || !entry.backward_weight;
      })) {
    provenance.notes.insert(provenance.notes.begin(),
                            "I and W: no stage ran them separately; each is half a B");
  }
  (by_layer ? costs.layers : costs.costs.stages) = std::move(compute.entries);
  check_readable(costs, *runs.front());
  result.doubts = doubts_about(costs, all);
  return result;
}

}  // namespace pipesim
