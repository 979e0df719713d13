#include "sim/calibrate/memory_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "sim/calibrate/exchange_times.h"
#include "sim/calibrate/rank_work.h"
#include "sim/calibrate/samples.h"
#include "sim/calibrate/split_sums.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Field = std::int64_t StageCosts::*;

// A rank's counters, in the order of time.
class Counters {
 public:
  explicit Counters(const RecordedRun& run) : ranks_(static_cast<std::size_t>(run.ranks)) {
    for (const MemorySample& sample : run.samples) {
      ranks_[static_cast<std::size_t>(sample.rank)].push_back(sample);
    }
  }

  // The rank's memory at an instant; null before its first sample.
  const MemorySample* at(std::int32_t rank, std::int64_t time_ns) const {
    const auto& own = ranks_[static_cast<std::size_t>(rank)];
    const auto after = std::ranges::upper_bound(own, time_ns, {}, &MemorySample::time_ns);
    return after == own.begin() ? nullptr : &*(after - 1);
  }
  const std::vector<MemorySample>& of(std::size_t rank) const { return ranks_[rank]; }

 private:
  std::vector<std::vector<MemorySample>> ranks_;
};

// The counters' bytes of a run's stages and ranks.
struct CountedBytes {
  std::vector<Samples> activations;  // by stage
  std::vector<Samples> residue;
  std::vector<StateBytes> states;  // by rank
};

CountedBytes count(const RecordedRun& run) {
  CountedBytes result;
  result.activations.resize(run.about.rank_of_stage.size());
  result.residue.resize(result.activations.size());
  result.states.resize(static_cast<std::size_t>(run.ranks));
  const Counters counters(run);
  for (std::size_t rank = 0; rank < result.states.size(); ++rank) {
    StateBytes& states = result.states[rank];
    // For states that are not split.
    for (const MemorySample& sample : counters.of(rank)) {
      states.weights = std::max(states.weights, sample.states.weights);
      states.gradients = std::max(states.gradients, sample.states.gradients);
      states.optimizer = std::max(states.optimizer, sample.states.optimizer);
    }
    states.weights *= shards_of(run.about, 3);
    states.gradients *= shards_of(run.about, 2);
    states.optimizer *= shards_of(run.about, 1);
  }
  for (const RecordedIteration& iteration : run.iterations) {
    for (const ComputeWork& work : work_of(run, iteration).work) {
      const Span& span = *work.span;
      if (span.action.kind != Kind::F && span.action.kind != Kind::I) continue;
      // Memory after it is sampled at its end or a little later, before the next one.
      const MemorySample* before = counters.at(span.rank, span.start_ns - span.queued_ns);
      const MemorySample* after = counters.at(span.rank, work.released_ns);
      if (before == nullptr || before == after) continue;
      const auto stage = static_cast<std::size_t>(span.action.stage);
      if (span.action.kind == Kind::F) {
        result.activations[stage].add(after->working.activations - before->working.activations);
      } else {
        result.residue[stage].add(after->working.residue - before->working.residue);
      }
    }
  }
  return result;
}

// The output bytes of layers or stages; those that no other rank received from get the nearest
// earlier one's, else the nearest later one's. The last sends nothing.
void set_outputs(std::span<const RecordedRun* const> runs, bool by_layer,
                 std::vector<StageCosts>& entries, std::vector<std::string>& notes) {
  std::map<std::size_t, std::pair<std::int64_t, const RecordedRun*>> known;
  for (const RecordedRun* run : runs) {
    const auto parts = entries_of_stages(run->about, by_layer);
    for (const Span& span : run->spans) {
      if (span.action.kind != Kind::SEND_F && span.action.kind != Kind::RECV_F) continue;
      const int stage = span.action.stage - (span.action.kind == Kind::RECV_F ? 1 : 0);
      const std::size_t entry = parts[static_cast<std::size_t>(stage)].second - 1;
      const auto [found, is_new] = known.emplace(entry, std::pair(span.bytes, run));
      if (is_new || found->second.first == span.bytes) continue;
      throw input_error(fmt::format(
          "{}: {} has {}, but in {} what is sent there has {}; calibrate from runs of the same "
          "model and size of microbatch",
          run->name, to_text(span.action), format_bytes(span.bytes), found->second.second->name,
          format_bytes(found->second.first)));
    }
  }
  if (known.empty()) {
    if (entries.size() > 1) {
      notes.push_back("output_bytes: nothing was sent between ranks; assumed 0");
    }
    return;
  }
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    auto nearest = known.upper_bound(i);
    if (nearest != known.begin()) --nearest;
    entries[i].output_bytes = nearest->second.first;
  }
}

void set_predicted(std::span<const RecordedRun* const> runs, std::vector<StageCosts>& entries,
                   std::vector<std::string>& notes) {
  const RecordedRun& run = *runs.front();
  if (run.about.costs_json.empty()) {
    notes.push_back("bytes: the prediction does not say with which costs it was made");
    return;
  }
  const Costs costs = parse_costs(run.about.costs_json, run.name + ": costs").costs;
  if (costs.stages.size() != entries.size()) {
    notes.push_back("bytes: the costs that the prediction was made with have other stages");
    return;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (const Field field : {&StageCosts::activation_bytes, &StageCosts::weight_residue_bytes,
                              &StageCosts::weight_bytes, &StageCosts::gradient_bytes,
                              &StageCosts::optimizer_bytes, &StageCosts::output_bytes}) {
      entries[i].*field = costs.stages[i].*field;
    }
  }
}

}  // namespace

std::vector<std::string> set_bytes(std::span<const RecordedRun* const> runs, bool by_layer,
                                   std::vector<StageCosts>& entries) {
  std::vector<std::string> notes;
  const RunDescription& about = runs.front()->about;
  set_outputs(runs, by_layer, entries, notes);
  if (about.source == Source::predicted) {
    set_predicted(runs, entries, notes);
    return notes;
  }
  const Dealer dealer(about, by_layer, entries);
  std::vector<PartsSum> activations, residue, weights, gradients, optimizer;
  for (const RecordedRun* run : runs) {
    if (run->samples.empty()) continue;
    const CountedBytes counted = count(*run);
    const Dealer::Sums own = dealer.sums_of(run->about);
    for (std::size_t s = 0; s < counted.activations.size(); ++s) {
      for (const auto& [samples, sums] :
           {std::pair(&counted.activations[s], &activations), {&counted.residue[s], &residue}}) {
        if (samples->empty()) continue;
        sums->push_back(own.of_stage(s, static_cast<double>(samples->quantile(0.5))));
      }
    }
    for (std::size_t rank = 0; rank < counted.states.size(); ++rank) {
      const StateBytes& states = counted.states[rank];
      for (const auto& [sums, bytes] : {std::pair(&weights, states.weights),
                                        {&gradients, states.gradients},
                                        {&optimizer, states.optimizer}}) {
        sums->push_back(own.of_rank(rank, static_cast<double>(bytes)));
      }
    }
  }
  if (weights.empty()) {
    notes.push_back("memory: the trace has no counters of bytes; only what messages have is known");
    return notes;
  }
  dealer.deal(activations, Dealer::By::time, &StageCosts::activation_bytes, entries);
  dealer.deal(residue, Dealer::By::time, &StageCosts::weight_residue_bytes, entries);
  dealer.deal(weights, Dealer::By::parameters, &StageCosts::weight_bytes, entries);
  dealer.deal(gradients, Dealer::By::parameters, &StageCosts::gradient_bytes, entries);
  dealer.deal(optimizer, Dealer::By::parameters, &StageCosts::optimizer_bytes, entries);
  const auto any = [](const std::vector<PartsSum>& sums) {
    return std::ranges::any_of(sums, [](const PartsSum& equation) { return equation.sum > 0; });
  };
  if (residue.empty() && any(activations)) {
    notes.push_back(
        "weight_residue_bytes: no I ran without its W; assumed 0, so memory between I and "
        "W is missing");
  }
  const auto note = [&](const std::vector<PartsSum>& sums, std::string_view what,
                        std::string_view by) {
    if (!any(sums) || dealer.determined_by(sums)) return;
    notes.push_back(fmt::format("{}: what {} of {} have is told apart by {} only", what,
                                plural(static_cast<std::int64_t>(dealer.kinds()), "kind"),
                                by_layer ? "layers" : "stages", by));
  };
  note(activations, "activation_bytes", "the time of their forwards");
  note(weights, "weight, gradient and optimizer bytes",
       dealer.knows_parameters() ? "the model's parameters" : "the time of their forwards");
  return notes;
}

}  // namespace pipesim
