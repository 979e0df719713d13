#include "sim/compare/memory_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/compare/rank_work.h"
#include "sim/compare/samples.h"
#include "sim/compare/shares.h"
#include "sim/cost/model.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Field = std::int64_t StageCosts::*;

// The layers of a run's stages, or the stages themselves: [first, last).
std::vector<std::pair<std::size_t, std::size_t>> entries_of_stages(const RunDescription& about,
                                                                   bool by_layer) {
  std::vector<std::pair<std::size_t, std::size_t>> result;
  std::size_t next = 0;
  for (std::size_t s = 0; s < about.rank_of_stage.size(); ++s) {
    const std::size_t count = by_layer ? static_cast<std::size_t>(about.layout[s]) : 1;
    result.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

// A rank's counters, in the order of time.
class Counters {
 public:
  explicit Counters(const RecordedRun& run) : ranks_(static_cast<std::size_t>(run.ranks)) {
    for (const MemorySample& sample : run.samples) {
      ranks_[static_cast<std::size_t>(sample.rank)].push_back(&sample);
    }
  }

  // What the rank holds at an instant; null before its first sample.
  const MemorySample* at(std::int32_t rank, std::int64_t time_ns) const {
    const auto& own = ranks_[static_cast<std::size_t>(rank)];
    const auto after = std::ranges::upper_bound(own, time_ns, {}, &MemorySample::time_ns);
    return after == own.begin() ? nullptr : *(after - 1);
  }
  const std::vector<const MemorySample*>& of(std::size_t rank) const { return ranks_[rank]; }

 private:
  std::vector<std::vector<const MemorySample*>> ranks_;
};

// Deals sums over parts out to entries, which belong to kinds: "block 3" and
// "block 4" are the same kind of layer, and every stage is one of its own.
class Dealer {
 public:
  Dealer(const RunDescription& about, std::size_t entries, bool by_layer) {
    std::map<std::string, std::size_t> kinds;
    for (std::size_t i = 0; i < entries; ++i) {
      std::string name = by_layer ? about.layers[i] : std::to_string(i);
      if (by_layer) name.resize(name.find_last_not_of("0123456789 ") + 1);
      kind_of_.push_back(kinds.emplace(name, kinds.size()).first->second);
    }
    kinds_ = kinds.size();
  }

  std::size_t kinds() const { return kinds_; }

  PartsSum sum_of(std::size_t first, std::size_t last, double sum) const {
    PartsSum result{std::vector<double>(kinds_), sum};
    for (std::size_t i = first; i < last; ++i) result.counts[kind_of_[i]] += 1;
    return result;
  }
  void deal(const std::vector<PartsSum>& sums, const std::vector<double>& usual_of_entries,
            Field field, std::vector<StageCosts>& entries) const {
    std::vector<double> usual(kinds_);
    std::vector<double> count(kinds_);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      usual[kind_of_[i]] += usual_of_entries[i];
      count[kind_of_[i]] += 1;
    }
    for (std::size_t k = 0; k < kinds_; ++k) usual[k] /= count[k];
    const std::vector<double> parts = deal_out(sums, usual);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries[i].*field = std::llround(parts[kind_of_[i]]);
    }
  }

 private:
  std::vector<std::size_t> kind_of_;
  std::size_t kinds_ = 0;
};

// What counters say of a run's stages and ranks.
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
    for (const MemorySample* sample : counters.of(rank)) {
      states.weights = std::max(states.weights, sample->states.weights);
      states.gradients = std::max(states.gradients, sample->states.gradients);
      states.optimizer = std::max(states.optimizer, sample->states.optimizer);
    }
  }
  for (const RecordedIteration& iteration : run.iterations) {
    for (const Work& work : work_of(run, iteration).work) {
      const Span& span = *work.span;
      if (span.action.kind != Kind::F && span.action.kind != Kind::I) continue;
      // What it leaves is noted at its end or a little later, before the next.
      const MemorySample* before = counters.at(span.rank, span.start_ns - span.queued_ns);
      const MemorySample* after = counters.at(span.rank, span.start_ns + work.occupied_ns);
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

// By parameters where the model is known, else by the time of forwards.
std::vector<double> usual_states(const RunDescription& about, bool by_layer,
                                 const std::vector<StageCosts>& entries,
                                 const std::vector<double>& by_time) {
  if (!by_layer || about.model_json.empty()) return by_time;
  const Model model = parse_model(about.model_json, "model");
  if (static_cast<std::size_t>(model.layers()) != entries.size()) return by_time;
  std::vector<double> result;
  for (int i = 0; i < model.layers(); ++i) {
    result.push_back(static_cast<double>(model.layer_parameters(i)));
  }
  return result;
}

// What layers or stages send; of those that no other rank received from, as
// much as the nearest before or else after. The last sends nothing.
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
      notes.push_back("output_bytes: nothing was sent between ranks; taken to be 0");
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
  if (costs.stages.size() != entries.size()) return;
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
  const Dealer dealer(about, entries.size(), by_layer);
  std::vector<PartsSum> activations, residue, weights, gradients, optimizer;
  std::set<std::vector<double>> stage_sums, rank_sums;  // that tell something of their own
  for (const RecordedRun* run : runs) {
    if (run->samples.empty()) continue;
    const CountedBytes counted = count(*run);
    const auto parts = entries_of_stages(run->about, by_layer);
    const std::vector<int>& rank_of_stage = run->about.rank_of_stage;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const auto [first, last] = parts[s];
      const auto add = [&](const Samples& samples, std::vector<PartsSum>& sums) {
        if (samples.empty()) return;
        sums.push_back(dealer.sum_of(first, last, static_cast<double>(samples.quantile(0.5))));
      };
      add(counted.activations[s], activations);
      add(counted.residue[s], residue);
      stage_sums.insert(dealer.sum_of(first, last, 0).counts);
    }
    for (std::size_t rank = 0; rank < counted.states.size(); ++rank) {
      PartsSum sum = dealer.sum_of(0, 0, 0);
      for (std::size_t s = 0; s < parts.size(); ++s) {
        if (static_cast<std::size_t>(rank_of_stage[s]) != rank) continue;
        const PartsSum stage = dealer.sum_of(parts[s].first, parts[s].second, 0);
        for (std::size_t k = 0; k < dealer.kinds(); ++k) sum.counts[k] += stage.counts[k];
      }
      rank_sums.insert(sum.counts);
      const StateBytes& states = counted.states[rank];
      for (const auto& [sums, bytes] : {std::pair(&weights, states.weights),
                                        {&gradients, states.gradients},
                                        {&optimizer, states.optimizer}}) {
        sum.sum = static_cast<double>(bytes);
        sums->push_back(sum);
      }
    }
  }
  if (weights.empty()) {
    notes.push_back("memory: the trace has no counters of bytes; only output_bytes is known");
    return notes;
  }
  std::vector<double> by_time;
  for (const StageCosts& entry : entries) by_time.push_back(static_cast<double>(entry.forward_ns));
  const std::vector<double> by_parameters = usual_states(about, by_layer, entries, by_time);
  dealer.deal(activations, by_time, &StageCosts::activation_bytes, entries);
  dealer.deal(residue, by_time, &StageCosts::weight_residue_bytes, entries);
  dealer.deal(weights, by_parameters, &StageCosts::weight_bytes, entries);
  dealer.deal(gradients, by_parameters, &StageCosts::gradient_bytes, entries);
  dealer.deal(optimizer, by_parameters, &StageCosts::optimizer_bytes, entries);
  if (residue.empty()) {
    notes.push_back(
        "weight_residue_bytes: no I ran without its W; taken to be 0, so that memory between I and "
        "W is missing");
  }
  if (stage_sums.size() < dealer.kinds()) {
    notes.push_back(fmt::format(
        "activation_bytes: {} of {} are told apart by the time of their forwards only",
        plural(static_cast<std::int64_t>(dealer.kinds()), "kind"), by_layer ? "layers" : "stages"));
  }
  if (rank_sums.size() < dealer.kinds()) {
    notes.push_back(fmt::format(
        "weight, gradient and optimizer bytes: {} of {} are told apart by {} only",
        plural(static_cast<std::int64_t>(dealer.kinds()), "kind"), by_layer ? "layers" : "stages",
        by_parameters == by_time ? "the time of their forwards" : "the model's parameters"));
  }
  return notes;
}

}  // namespace pipesim
