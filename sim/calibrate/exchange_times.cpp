#include "sim/calibrate/exchange_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/calibrate/exchange_fit.h"
#include "sim/calibrate/samples.h"
#include "sim/calibrate/split_sums.h"
#include "sim/cost/estimate/direct_exchange.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

bool has_exchanges(const RecordedRun& run) {
  return run.about.source == Source::measured && run.about.replicas > 1;
}

// The numbers of gradients that each stage of a run sends.
std::vector<std::int64_t> reduced_bytes(const RecordedRun& run) {
  std::vector<std::int64_t> bytes(run.about.rank_of_stage.size());
  for (const Span& span : run.spans) {
    if (!is_collective(span.action) || span.action.kind != Kind::REDUCE_GRAD) continue;
    std::int64_t& own = bytes[static_cast<std::size_t>(span.action.stage)];
    own = std::max(own, span.bytes);
  }
  return bytes;
}

// Reads the stages' parameters from the costs of an emulated device; returns whether they are
// there.
bool tell_parameters(const RunDescription& about, std::vector<StageCosts>& entries) {
  if (about.costs_json.empty()) return false;
  const CostsFile file = parse_costs(about.costs_json, "the costs of a trace");
  const std::vector<StageCosts>& stages = file.costs.stages;
  const auto tells = [](const StageCosts& stage) { return !stage.parameters.empty(); };
  if (stages.size() != entries.size() || !std::ranges::all_of(stages, tells)) return false;
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].parameters = stages[i].parameters;
  return true;
}

void set_parameters(std::span<const RecordedRun* const> runs, bool by_layer,
                    std::vector<StageCosts>& entries) {
  const RunDescription& about = runs.front()->about;
  const std::vector<double> known = by_layer ? parameters_of(about) : std::vector<double>();
  if (!known.empty()) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i].parameters = {std::llround(known[i])};
    }
    return;
  }
  if (!by_layer && tell_parameters(about, entries)) return;
  constexpr double gradient_bytes = 4;
  const Dealer dealer(about, by_layer, entries);
  std::vector<PartsSum> sums;
  for (const RecordedRun* run : runs) {
    if (!has_exchanges(*run)) continue;
    const double sent = direct_reduction(gradient_bytes, replicas_of(run->about)).bytes;
    const std::vector<std::int64_t> bytes = reduced_bytes(*run);
    const Dealer::Sums own = dealer.sums_of(run->about);
    for (std::size_t stage = 0; stage < bytes.size(); ++stage) {
      sums.push_back(own.of_stage(stage, static_cast<double>(bytes[stage]) / sent));
    }
  }
  std::vector<StageCosts> dealt = entries;
  dealer.deal(sums, Dealer::By::parameters, &StageCosts::gradient_bytes, dealt);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].parameters = {dealt[i].gradient_bytes};
  }
}

// The exchanges of a run, rank by rank.
class ExchangeObserver {
 public:
  ExchangeObserver(const RecordedRun& run, bool by_layer, const std::vector<StageCosts>& entries)
      : run_(run), training_(replicas_of(run.about)) {
    for (const auto& [first, last] : entries_of_stages(run.about, by_layer)) {
      std::vector<std::int64_t> layers;
      for (std::size_t i = first; i < last; ++i) {
        layers.insert(layers.end(), entries[i].parameters.begin(), entries[i].parameters.end());
      }
      segments_.push_back(reduced_segments(layers, training_));
    }
  }

  void observe(const RecordedIteration& iteration, std::vector<RankExchanges>& all, Samples& took) {
    std::vector<RankExchanges> ranks(static_cast<std::size_t>(run_.ranks));
    std::vector<const Span*> latest(ranks.size());  // of each rank's compute
    for (const Span& span : run_.spans_of(iteration)) {
      const auto rank = static_cast<std::size_t>(span.rank);
      if (is_compute(span.action.kind)) latest[rank] = &span;
      if (!is_collective(span.action) || span.action.kind == Kind::RESHARD || span.bytes == 0) {
        continue;
      }
      add(span, latest[rank], ranks[rank]);
      took.add(span.end_ns - span.start_ns);
    }
    for (RankExchanges& rank : ranks) {
      if (rank.ends_ns.empty()) continue;
      std::ranges::stable_sort(rank.pieces, {}, &ExchangePiece::ready_ns);
      all.push_back(std::move(rank));
    }
  }

 private:
  void add(const Span& span, const Span* latest, RankExchanges& rank) const {
    const std::size_t number = rank.ends_ns.size();
    rank.ends_ns.push_back(static_cast<double>(span.end_ns));
    const auto start = static_cast<double>(span.start_ns);
    const auto bytes = static_cast<double>(span.bytes);
    if (span.action.kind == Kind::UNSHARD) {
      rank.pieces.push_back({.ready_ns = start, .bytes = bytes, .collective = number});
      return;
    }
    const bool in_turn = reduces_in_turn(training_);
    const int steps = direct_reduction(1, training_).steps;
    const bool is_within = latest != nullptr && latest->action.stage == span.action.stage &&
                           (latest->action.kind == Kind::B || latest->action.kind == Kind::W) &&
                           span.start_ns < latest->end_ns;
    const auto& segments = segments_[static_cast<std::size_t>(span.action.stage)];
    double numbers = 0;
    for (const std::int64_t segment : segments) numbers += static_cast<double>(segment);
    const double begin = is_within ? static_cast<double>(latest->start_ns) : start;
    const double duration = is_within ? static_cast<double>(latest->end_ns) - begin : 0;
    double reached = 0;
    for (const std::int64_t segment : segments) {
      const double share = static_cast<double>(segment) / numbers;
      reached += share;
      const double ready = std::max(start, begin + reached * duration);
      rank.pieces.push_back({ready, share * bytes, steps, number, in_turn});
    }
    if (segments.empty()) rank.pieces.push_back({start, bytes, steps, number, in_turn});
  }

  const RecordedRun& run_;
  Training training_;
  std::vector<std::vector<std::int64_t>> segments_;  // by stage
};

}  // namespace

Training replicas_of(const RunDescription& about) {
  Training replicas;
  replicas.data_parallel = about.replicas;
  replicas.zero = about.zero;
  if (about.zero > 0) replicas.shard_over = about.shards;
  if (about.bucket_bytes > 0) replicas.bucket_bytes = about.bucket_bytes;
  return replicas;
}

int shards_of(const RunDescription& about, int least_zero) {
  return about.zero >= least_zero ? about.shards : 1;
}

ExchangeTimes exchange_times(std::span<const RecordedRun* const> runs, bool by_layer,
                             std::vector<StageCosts>& entries) {
  ExchangeTimes result;
  const auto exchanges = [](const RecordedRun* run) { return has_exchanges(*run); };
  if (std::ranges::none_of(runs, exchanges)) return result;
  set_parameters(runs, by_layer, entries);
  std::vector<RankExchanges> all;
  Samples took;
  for (const RecordedRun* run : runs) {
    if (!has_exchanges(*run)) continue;
    ExchangeObserver observer(*run, by_layer, entries);
    for (const RecordedIteration& iteration : run->iterations) {
      observer.observe(iteration, all, took);
    }
  }
  if (all.empty()) {
    result.notes.push_back(
        "replicas: no exchange was recorded, so its time is not known, and no other number of "
        "them can be predicted");
    return result;
  }
  const ExchangeFit fit = fit_exchanges(all);
  ReplicaCosts& costs = result.replicas.emplace();
  costs.latency_ns = std::llround(fit.latency_ns);
  if (fit.ns_per_byte * static_cast<double>(max_bytes_per_second) > 1e9) {
    costs.bytes_per_second = std::max<std::int64_t>(1, std::llround(1e9 / fit.ns_per_byte));
  }
  if (runs.front()->about.measured.precision == "bf16") costs.weight_bytes = 2;
  result.spread = took.spread();
  if (!fit.is_told_apart) {
    result.notes.push_back(
        "replicas: all exchanges have about the same size, so latency can't be told from "
        "bandwidth; all of it is attributed to bandwidth");
  }
  return result;
}

}  // namespace pipesim
