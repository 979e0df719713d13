#include "sim/calibrate/compute_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "sim/calibrate/rank_work.h"
#include "sim/calibrate/samples.h"
#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// An action with additional facts.
struct Observation {
  const Span* span = nullptr;
  std::int64_t occupied_ns = 0;
  std::int64_t in_layers_ns = 0;
  std::int64_t received = 0;
  std::int64_t layers = 0;  // of the action
  int run = 0;

  std::int64_t beyond_layers_ns() const { return occupied_ns - in_layers_ns; }
};

struct OverlapObservation {
  int forward_stage = 0;
  Action backward;
  std::int64_t duration_ns = 0;
};

// The samples of one layer or stage.
struct Entry {
  std::string name;
  Samples forward, backward_input, backward_weight, backward;
};

using StageOfRun = std::pair<int, std::int32_t>;  // a run's number, and the stage

struct Observations {
  std::vector<Observation> actions;
  std::vector<OverlapObservation> overlaps;
  std::vector<Entry> entries;
  std::vector<std::set<StageOfRun>> stages_of_layer;
};

// The first action of a stage and kind in an iteration finds cold caches. It is dropped if the
// iteration has at least this many others.
constexpr int enough_others = 2;

// Adds the layers' times by kind; an action may have several pieces of each. Those of a recomputed
// F belong to the I that needs it.
void add_layers(const RecordedRun& run, int number,
                const std::map<ActionKey, Observation*>& actions, Observations& all) {
  std::map<std::tuple<ActionKey, std::int32_t, Kind>, std::int64_t> times;
  for (const LayerSpan& layer : run.layers) {
    times[{ActionKey(layer.action, layer.iteration), layer.layer,
           layer.again ? Kind::I : layer.kind}] +=
        layer.end_ns - layer.start_ns - layer.preempted_ns;
  }
  for (const auto& [of, duration] : times) {
    const auto& [key, layer, kind] = of;
    const auto found = actions.find(key);
    if (found == actions.end()) continue;
    found->second->in_layers_ns += duration;
    if (kind != Kind::W || found->second->span->action.kind == Kind::W) ++found->second->layers;
    all.stages_of_layer[static_cast<std::size_t>(layer)].insert(
        {number, found->second->span->action.stage});
    Entry& entry = all.entries[static_cast<std::size_t>(layer)];
    (kind == Kind::F   ? entry.forward
     : kind == Kind::I ? entry.backward_input
                       : entry.backward_weight)
        .add(duration);
  }
}

void observe(const RecordedRun& run, int number, bool by_layer, bool launches, Observations& all) {
  const std::size_t first = all.actions.size();
  for (const RecordedIteration& iteration : run.iterations) {
    const IterationWork iteration_work = work_of(run, iteration, launches);
    std::map<std::pair<std::int32_t, Kind>, int> count;
    for (const ComputeWork& work : iteration_work.work) {
      ++count[{work.span->action.stage, work.span->action.kind}];
    }
    for (const ComputeWork& work : iteration_work.work) {
      const Action& action = work.span->action;
      if (work.is_first && count[{action.stage, action.kind}] > enough_others) continue;
      all.actions.push_back({work.span, work.occupied_ns, 0, work.received, 0, number});
    }
    for (const OverlappedWork& cell : iteration_work.overlapped) {
      all.overlaps.push_back(
          {cell.forward->action.stage, cell.backward->action, cell.duration_ns()});
    }
  }
  if (!by_layer) return;
  std::map<ActionKey, Observation*> actions;
  for (std::size_t i = first; i < all.actions.size(); ++i) {
    Observation& action = all.actions[i];
    actions.emplace(ActionKey(action.span->action, action.span->iteration), &action);
  }
  add_layers(run, number, actions, all);
  std::erase_if(all.actions, [](const Observation& action) { return action.layers == 0; });
}

// The time that a message arriving meanwhile adds to an action: the difference between actions with
// one and those with none, of the same stage and kind, weighted by the smaller number of both. 0 if
// none can be compared.
std::int64_t receive_time(const std::vector<Observation>& actions) {
  std::map<std::pair<std::int32_t, Kind>, std::array<Samples, 2>> groups;
  for (const Observation& action : actions) {
    if (action.received > 1) continue;
    groups[{action.span->action.stage, action.span->action.kind}]
          [static_cast<std::size_t>(action.received)]
              .add(action.beyond_layers_ns());
  }
  constexpr std::int64_t enough = 5;
  double sum = 0;
  double weights = 0;
  for (const auto& [key, samples] : groups) {
    const std::int64_t least = std::min(samples[0].count(), samples[1].count());
    if (least < enough) continue;
    sum += static_cast<double>(least) * (samples[1].typical() - samples[0].typical());
    weights += static_cast<double>(least);
  }
  return weights == 0 ? 0 : std::max<std::int64_t>(0, std::llround(sum / weights));
}

Samples& samples_of(Entry& entry, Kind kind) {
  switch (kind) {
    case Kind::F: return entry.forward;
    case Kind::I: return entry.backward_input;
    case Kind::W: return entry.backward_weight;
    default: return entry.backward;
  }
}

// The times of actions over what is typical of their stage and kind, without that of receiving.
std::vector<std::int64_t> variation_of(const std::vector<Observation>& actions,
                                       std::int64_t receive_ns) {
  constexpr std::size_t enough = 20;
  constexpr int steps = 20;
  std::map<std::pair<std::int32_t, Kind>, std::vector<std::int64_t>> times;
  for (const Observation& action : actions) {
    times[{action.span->action.stage, action.span->action.kind}].push_back(
        action.occupied_ns - action.received * receive_ns);
  }
  std::vector<std::int64_t> ppm;
  for (const auto& [key, own] : times) {
    Samples samples;
    for (const std::int64_t ns : own) samples.add(ns);
    const double typical = samples.typical();
    if (own.size() < 3 || typical <= 0) continue;
    for (const std::int64_t ns : own) {
      const double factor = static_cast<double>(ns) / typical;
      ppm.push_back(std::llround(std::clamp(factor, 0.0, 1000.0) * 1e6));
    }
  }
  if (ppm.size() < enough) return {};
  std::ranges::sort(ppm);
  std::vector<std::int64_t> quantiles;
  for (int step = 0; step <= steps; ++step) {
    quantiles.push_back(ppm[(ppm.size() - 1) * static_cast<std::size_t>(step) / steps]);
  }
  return quantiles.front() == quantiles.back() ? std::vector<std::int64_t>() : quantiles;
}

// What was measured, in words for a refusal.
struct Subject {
  const RecordedRun& run;
  bool by_layer;

  std::size_t size() const {
    return by_layer ? run.about.layers.size() : run.about.rank_of_stage.size();
  }
  std::string name(std::size_t entry) const {
    return by_layer ? "layer " + quote(run.about.layers[entry]) : fmt::format("stage {}", entry);
  }
  [[noreturn]] void lacks(std::size_t entry, std::string_view what) const {
    throw input_error(
        fmt::format("{}: {} of {} was not measured alone; calibrate from a run that has it",
                    run.name, what, name(entry)));
  }
};

// Refuses runs without any measurement before allocating much for them.
void check_measured(std::span<const RecordedRun* const> runs, const Subject& subject) {
  std::vector<bool> seen(subject.size(), false);
  for (const RecordedRun* run : runs) {
    for (const Span& span : run->spans) {
      if (subject.by_layer || !is_compute(span.action.kind)) continue;
      seen[static_cast<std::size_t>(span.action.stage)] = true;
    }
    for (const LayerSpan& layer : run->layers) {
      if (subject.by_layer) seen[static_cast<std::size_t>(layer.layer)] = true;
    }
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end()) {
    subject.lacks(static_cast<std::size_t>(missing - seen.begin()), "F");
  }
}

// The time of actions outside their layers, per layer.
struct BesideLayers {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
};

// For each layer, that of the typical action of each kind on its stage; a B's is split equally
// between I and W. A layer of several runs has the mean of theirs.
std::vector<BesideLayers> beside_layers(const Observations& all, std::int64_t receive_ns) {
  std::map<StageOfRun, Entry> shares;
  for (const Observation& action : all.actions) {
    const std::int64_t beside = action.beyond_layers_ns() - action.received * receive_ns;
    const Action& own = action.span->action;
    samples_of(shares[{action.run, own.stage}], own.kind).add(beside / action.layers);
  }
  const auto mean = [&](const std::set<StageOfRun>& stages, auto typical) {
    double sum = 0;
    double count = 0;
    for (const StageOfRun& stage : stages) {
      const auto [value, samples] = typical(shares[stage]);
      sum += value * static_cast<double>(samples);
      count += static_cast<double>(samples);
    }
    return count == 0 ? 0 : sum / count;
  };
  const auto backward = [](const Entry& of, const Samples& own) {
    const bool apart = !of.backward_input.empty() && !of.backward_weight.empty();
    return apart ? std::pair(own.typical(), own.count())
                 : std::pair(of.backward.typical() / 2, of.backward.count());
  };
  std::vector<BesideLayers> result;
  for (const std::set<StageOfRun>& stages : all.stages_of_layer) {
    result.push_back(
        {mean(stages,
              [](const Entry& of) { return std::pair(of.forward.typical(), of.forward.count()); }),
         mean(stages, [&](const Entry& of) { return backward(of, of.backward_input); }),
         mean(stages, [&](const Entry& of) { return backward(of, of.backward_weight); })});
  }
  return result;
}

void set_layer(const Subject& subject, std::size_t place, const Entry& entry,
               const BesideLayers& beside, StageCosts& costs) {
  const auto sum = [&](const Samples& own, std::string_view what, double more) {
    if (own.empty()) subject.lacks(place, what);
    return std::max<std::int64_t>(0, std::llround(own.typical() + more));
  };
  costs.forward_ns = sum(entry.forward, "F", beside.forward);
  costs.backward_input_ns = sum(entry.backward_input, "I", beside.backward_input);
  costs.backward_weight_ns = sum(entry.backward_weight, "W", beside.backward_weight);
}

// A B is split like the I and W of its stage, else of all stages, else in halves.
void set_stage(const Subject& subject, std::size_t place, const Entry& entry,
               double usual_input_share, StageCosts& costs) {
  if (entry.forward.empty()) subject.lacks(place, "F");
  const bool apart = !entry.backward_input.empty() && !entry.backward_weight.empty();
  if (entry.backward.empty() && !apart) subject.lacks(place, "B, or I and W,");
  costs.forward_ns = entry.forward.typical_ns();
  costs.backward_input_ns = entry.backward_input.typical_ns();
  costs.backward_weight_ns = entry.backward_weight.typical_ns();
  if (entry.backward.empty()) return;
  const std::int64_t whole = entry.backward.typical_ns();
  const std::int64_t sum = costs.backward_ns();
  if (apart && whole == sum) return;
  if (apart && sum > 0) {
    usual_input_share = static_cast<double>(costs.backward_input_ns) / static_cast<double>(sum);
  }
  if (usual_input_share < 0) {
    costs.split_backward(whole);
    return;
  }
  costs.backward_input_ns = std::llround(static_cast<double>(whole) * usual_input_share);
  costs.backward_weight_ns = whole - costs.backward_input_ns;
}

// The share of I in I and W where both were measured, or -1.
double input_share(const std::vector<Entry>& entries) {
  double input = 0;
  double weight = 0;
  for (const Entry& entry : entries) {
    if (entry.backward_input.empty() || entry.backward_weight.empty()) continue;
    input += entry.backward_input.typical();
    weight += entry.backward_weight.typical();
  }
  return input + weight > 0 ? input / (input + weight) : -1;
}

// The time of overlapped cells by the stage of their forward, if that is not the sum of both parts.
void set_overlaps(const std::vector<OverlapObservation>& cells, std::vector<StageCosts>& costs) {
  std::map<int, std::pair<Samples, Samples>> by_stage;  // durations, and beyond the sum
  for (const OverlapObservation& cell : cells) {
    const StageCosts& other = costs[static_cast<std::size_t>(cell.backward.stage)];
    const std::int64_t sum =
        costs[static_cast<std::size_t>(cell.forward_stage)].duration_ns(Kind::F) +
        other.duration_ns(cell.backward.kind);
    by_stage[cell.forward_stage].first.add(cell.duration_ns);
    by_stage[cell.forward_stage].second.add(cell.duration_ns - sum);
  }
  for (const auto& [stage, samples] : by_stage) {
    const auto& [durations, beyond] = samples;
    const auto noise = [](const Samples& all) { return all.quantile(0.9) - all.quantile(0.1); };
    const bool is_near = std::abs(beyond.typical()) <= static_cast<double>(noise(durations));
    if (is_near && noise(beyond) <= noise(durations)) continue;
    costs[static_cast<std::size_t>(stage)].overlap_ns = durations.typical_ns();
  }
}

// For times that exceed the samples by so much.
std::optional<Spread> spread_of(const Samples& samples, double beside = 0) {
  if (samples.empty()) return std::nullopt;
  Spread spread = samples.spread();
  for (std::int64_t* ns : {&spread.p10_ns, &spread.p90_ns}) {
    *ns = std::max<std::int64_t>(0, *ns + std::llround(beside));
  }
  return spread;
}

}  // namespace

ComputeTimes compute_times(std::span<const RecordedRun* const> runs, bool by_layer, bool launches) {
  const RunDescription& about = runs.front()->about;
  const Subject subject{*runs.front(), by_layer};
  check_measured(runs, subject);
  Observations all;
  all.entries.resize(by_layer ? about.layers.size() : about.rank_of_stage.size());
  for (std::size_t i = 0; i < all.entries.size(); ++i) {
    all.entries[i].name = by_layer ? about.layers[i] : fmt::format("stage {}", i);
  }
  all.stages_of_layer.resize(by_layer ? all.entries.size() : 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    observe(*runs[i], static_cast<int>(i), by_layer, launches, all);
  }

  ComputeTimes result;
  result.entries.resize(all.entries.size());
  result.receive_ns = receive_time(all.actions);
  result.variation_ppm = variation_of(all.actions, result.receive_ns);
  std::vector<BesideLayers> beside(all.entries.size());
  if (by_layer) {
    beside = beside_layers(all, result.receive_ns);
    for (std::size_t i = 0; i < all.entries.size(); ++i) {
      set_layer(subject, i, all.entries[i], beside[i], result.entries[i]);
    }
  } else {
    for (const Observation& action : all.actions) {
      Entry& entry = all.entries[static_cast<std::size_t>(action.span->action.stage)];
      samples_of(entry, action.span->action.kind)
          .add(action.occupied_ns - action.received * result.receive_ns);
    }
    const double usual_input_share = input_share(all.entries);
    for (std::size_t i = 0; i < all.entries.size(); ++i) {
      set_stage(subject, i, all.entries[i], usual_input_share, result.entries[i]);
    }
    set_overlaps(all.overlaps, result.entries);
  }
  for (std::size_t i = 0; i < all.entries.size(); ++i) {
    const Entry& entry = all.entries[i];
    result.provenance.push_back({entry.name, spread_of(entry.forward, beside[i].forward),
                                 spread_of(entry.backward_input, beside[i].backward_input),
                                 spread_of(entry.backward_weight, beside[i].backward_weight),
                                 spread_of(entry.backward)});
  }
  return result;
}

}  // namespace pipesim
