#include "sim/compare/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/compare/compute_times.h"
#include "sim/compare/memory_bytes.h"
#include "sim/compare/samples.h"
#include "sim/compare/transfer_times.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Runs = std::span<const RecordedRun* const>;

[[noreturn]] void differ(const RecordedRun& a, const RecordedRun& b, const std::string& how) {
  throw input_error(fmt::format("{} and {} {}; calibrate each by itself", a.name, b.name, how));
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

// The layers of a run must be what its layout deals out.
void check_layers(const RecordedRun& run) {
  std::size_t layers = 0;
  for (const int count : run.about.layout) layers += static_cast<std::size_t>(std::max(count, 0));
  const auto outside = [&](const LayerSpan& layer) {
    return layer.layer < 0 || static_cast<std::size_t>(layer.layer) >= layers;
  };
  if (run.about.layout.size() != run.about.rank_of_stage.size() ||
      layers != run.about.layers.size() || std::ranges::any_of(run.layers, outside)) {
    throw input_error(fmt::format(
        "{}: its layers are not those of its layout; calibrate from a whole trace", run.name));
  }
}

// The closing work of each rank, iteration by iteration.
struct Closing {
  std::vector<Samples> reduction, optimizer;                            // by rank
  std::int64_t makespan_ns = std::numeric_limits<std::int64_t>::max();  // the least
};

void observe_closing(const RecordedRun& run, const RecordedIteration& iteration, Closing& all) {
  struct Rank {
    std::int64_t reduction_ns = 0, optimizer_ns = 0;  // taken together
    std::int64_t reduction_start_ns = 0, optimizer_start_ns = 0;
    bool reduces = false, steps = false;
  };
  std::vector<Rank> ranks(static_cast<std::size_t>(run.ranks));
  std::int64_t computed_ns = std::numeric_limits<std::int64_t>::min();  // by all ranks
  std::int64_t reduced_ns = computed_ns;
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
    const Span& span = run.spans[i];
    Rank& rank = ranks[static_cast<std::size_t>(span.rank)];
    if (is_compute(span.action.kind)) computed_ns = std::max(computed_ns, span.end_ns);
    if (span.action.kind == Kind::REDUCE_GRAD) {
      if (!std::exchange(rank.reduces, true)) rank.reduction_start_ns = span.start_ns;
      rank.reduction_ns += span.end_ns - span.start_ns;
      reduced_ns = std::max(reduced_ns, span.end_ns);
    } else if (span.action.kind == Kind::OPTIMIZER) {
      if (!std::exchange(rank.steps, true)) rank.optimizer_start_ns = span.start_ns;
      rank.optimizer_ns += span.end_ns - span.start_ns;
    }
  }
  reduced_ns = std::max(reduced_ns, computed_ns);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = ranks[r];
    const auto since = [](std::int64_t start_ns, std::int64_t from_ns) {
      return std::max<std::int64_t>(0, start_ns - from_ns);
    };
    if (rank.reduces) {
      all.reduction[r].add(rank.reduction_ns + since(rank.reduction_start_ns, computed_ns));
    }
    if (rank.steps) {
      all.optimizer[r].add(rank.optimizer_ns + since(rank.optimizer_start_ns, reduced_ns));
    }
  }
  all.makespan_ns = std::min(all.makespan_ns, iteration.makespan_ns);
}

// One number for all ranks where they differ by no more than an iteration's own
// noise, or, measured, by 0.5 % of it; else one a rank.
void set_closing(const std::vector<Samples>& ranks, std::int64_t tolerance_ns,
                 std::optional<std::int64_t>& every, std::vector<std::int64_t>& by_rank) {
  if (std::ranges::all_of(ranks, &Samples::empty)) return;
  double sum = 0;
  for (const Samples& samples : ranks) {
    by_rank.push_back(samples.typical_ns());
    sum += samples.typical();
    tolerance_ns = std::max(tolerance_ns, samples.quantile(0.9) - samples.quantile(0.1));
  }
  const auto [least, most] = std::ranges::minmax(by_rank);
  if (most - least > tolerance_ns) return;
  every = std::llround(sum / static_cast<double>(ranks.size()));
  by_rank.clear();
}

}  // namespace

Calibration calibrate(std::span<const RecordedRun> all) {
  std::vector<const RecordedRun*> runs;
  for (const RecordedRun& run : all) runs.push_back(&run);
  if (runs.empty()) throw input_error("nothing to calibrate from; give at least one trace");
  const bool by_layer = !runs.front()->layers.empty();
  for (const RecordedRun* run : runs) {
    check_alike(*runs.front(), *run);
    if (by_layer) check_layers(*run);
    const auto computes = [](const Span& span) { return is_compute(span.action.kind); };
    if (std::ranges::none_of(run->spans, computes)) {
      throw work_error(fmt::format("{}: no action was recorded; nothing can be told", run->name));
    }
  }

  Calibration result;
  CostsFile& costs = result.costs;
  Provenance& provenance = costs.calibration.emplace();
  for (const RecordedRun* run : runs) provenance.from.push_back(run->name);

  ComputeTimes compute = compute_times(runs, by_layer);
  provenance.entries = std::move(compute.provenance);
  costs.receive_ns = compute.receive_ns;

  const TransferTimes transfers = transfer_times(runs, compute.receive_ns);
  costs.costs.p2p = transfers.p2p;
  costs.costs.edges = transfers.edges;
  provenance.transfers = transfers.spread;
  result.transfers = transfers.transfers;
  result.message_sizes = transfers.sizes;

  Closing closing;
  closing.reduction.resize(static_cast<std::size_t>(runs.front()->ranks));
  closing.optimizer = closing.reduction;
  for (const RecordedRun* run : runs) {
    for (const RecordedIteration& iteration : run->iterations) {
      observe_closing(*run, iteration, closing);
    }
  }
  const bool predicted = runs.front()->about.source == Source::predicted;
  const std::int64_t tolerance_ns = predicted ? 0 : closing.makespan_ns / 200;
  set_closing(closing.optimizer, tolerance_ns, costs.optimizer_ns, costs.costs.optimizer_ns);
  set_closing(closing.reduction, tolerance_ns, costs.reduce_gradients_ns,
              costs.costs.reduce_gradients_ns);

  provenance.notes = set_bytes(runs, by_layer, compute.entries);
  provenance.notes.insert(provenance.notes.begin(), transfers.notes.begin(), transfers.notes.end());
  if (!by_layer && std::ranges::all_of(provenance.entries, [](const Provenance::Entry& entry) {
        return !entry.backward_input || !entry.backward_weight;
      })) {
    provenance.notes.insert(provenance.notes.begin(),
                            "I and W: no stage did them apart; each is half a B");
  }
  (by_layer ? costs.layers : costs.costs.stages) = std::move(compute.entries);
  return result;
}

}  // namespace pipesim
