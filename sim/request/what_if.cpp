#include "sim/request/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "sim/calibrate/calibration.h"
#include "sim/calibrate/exchange_times.h"
#include "sim/engine/save_effect.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// The order in which a run executed its actions.
Schedule schedule_of(const RecordedRun& run) {
  if (!run.about.dependencies.empty()) {
    throw input_error(fmt::format(
        "{}: its actions wait for what its file adds with `after`, which is not replayed; give a "
        "run of a plain order",
        run.name));
  }
  std::string rows;
  if (!run.about.program.empty()) {
    for (const std::string& row : run.about.program) rows += row + "\n";
  } else {
    std::vector<std::string> of_rank(static_cast<std::size_t>(run.ranks));
    for (const Span& span : run.spans_of(run.iterations[run.median_iteration()])) {
      if (!is_compute(span.action.kind)) continue;
      std::string& row = of_rank[static_cast<std::size_t>(span.rank)];
      row += (row.empty() ? "" : ",") + to_text(span.action);
    }
    for (const std::string& row : of_rank) rows += row + "\n";
  }
  return parse_csv(rows, run.name);
}

// Including its share of a save, from the medians of iterations with and without one.
std::int64_t mean_iteration_ns(const RecordedRun& run) {
  std::array<std::vector<std::int64_t>, 2> makespans;  // without, with
  for (const RecordedIteration& iteration : run.iterations) {
    const auto is_save = [](const Span& span) {
      return span.action.kind == Kind::SAVE && !is_save_beside(span.action);
    };
    const bool saves = std::ranges::any_of(run.spans_of(iteration), is_save);
    makespans[saves ? 1 : 0].push_back(iteration.makespan_ns);
  }
  const auto median = [](const std::vector<std::int64_t>& values) {
    return values[median_of(values)];
  };
  if (makespans[0].empty() || makespans[1].empty()) {
    return median(makespans[makespans[0].empty() ? 1 : 0]);
  }
  const std::int64_t plain_ns = median(makespans[0]);
  return plain_ns + (median(makespans[1]) - plain_ns) / run.about.saves.every;
}

// Whether ranks run the same compute actions in the same order.
bool computes_alike(const Schedule& one, const Schedule& other) {
  if (one.ranks() != other.ranks() || one.placement != other.placement) return false;
  const auto compute_of = [](const Schedule& schedule, int rank) {
    std::vector<Action> list(schedule.actions[rank].begin(), schedule.actions[rank].end());
    std::erase_if(list, [](const Action& action) { return !is_compute(action.kind); });
    return list;
  };
  for (int rank = 0; rank < one.ranks(); ++rank) {
    if (compute_of(one, rank) != compute_of(other, rank)) return false;
  }
  return true;
}

}  // namespace

RecordedBasis::RecordedBasis(const RecordedRun& run, std::optional<std::int64_t> launches_ns)
    : name_(run.name),
      schedule_name_(run.about.schedule),
      costs_(calibrate(std::span(&run, 1), !launches_ns).costs) {
  if (run.iterations.empty()) {
    throw input_error(fmt::format("{}: it has no complete iteration; record one more", run.name));
  }
  costs_.name = name_;
  own_ = schedule_of(run);
  if (!run.about.layout.empty() && !costs_.layers.empty()) layout_ = run.about.layout;
  if (!run.about.p2p.empty()) transfers_.p2p = parse_p2p(run.about.p2p);
  transfers_.eager_limit_bytes = run.about.eager_limit_bytes;
  continuous_ = run.about.continuous && run.iterations.size() > 1;
  measured_ns_ = run.iterations[run.median_iteration()].makespan_ns;
  if (run.about.saves.any() && costs_.costs.save) {
    saves_ = run.about.saves;
    measured_ns_ = mean_iteration_ns(run);
  }
  measured_ns_ -= launches_ns.value_or(0);
  if (run.about.replicas > 1 && costs_.costs.replicas) replicas_ = replicas_of(run.about);
  as_it_ran_ = simulated({});
  as_it_ran_.iteration_ns = measured_ns_;
  if (launches_ns || as_it_ran_.bubble >= 1) return;
  const double bubble = run.metrics(run.median_iteration()).global_bubble();
  busy_correction_ = (1 - bubble) / (1 - as_it_ran_.bubble);
  as_it_ran_.bubble = bubble;
}

BytesNeeded RecordedBasis::needed_bytes() const {
  return source_for({}).bytes_needed().times(iterations());
}

CostSource RecordedBasis::source_for(const std::optional<std::vector<int>>& layout,
                                     const SaveRequest& save) const {
  CostRequest request = transfers_;
  request.costs = costs_;
  request.name = name_;
  request.layout = layout;
  request.replicas = replicas_;
  if (saves_.any()) request.save = save;
  return CostSource(std::move(request));
}

double RecordedBasis::correction() const {
  const std::int64_t predicted_ns = as_it_ran_.predicted_ns;
  if (predicted_ns <= 0) return 1;
  return static_cast<double>(measured_ns_) / static_cast<double>(predicted_ns);
}

// The family with the run's order, if any, preferably the one that it names.
std::optional<ScheduleRequest> RecordedBasis::family_request() const {
  const Placement& placement = own_.placement;
  ScheduleRequest request{.name = schedule_name_,
                          .ranks = own_.ranks(),
                          .microbatches = own_.microbatches,
                          .chunks = placement.virtual_stages()};
  const auto is_own = [&](const Family& family) {
    request.name = family.name;
    request.placement.reset();
    try {
      const Placement usual =
          family.usual_placement(own_.ranks(), placement.virtual_stages(), own_.microbatches);
      if (placement != usual && placement.copies() == 1) {
        request.placement = fmt::format("{}", fmt::join(placement.rank_of_stage(), ","));
      }
      return computes_alike(generate(request), own_);
    } catch (const Error&) {
      return false;  // no such shape
    }
  };
  const auto& families = all_families();
  const auto named = std::ranges::find(families, schedule_name_, &Family::name);
  if (named != families.end() && is_own(*named)) return request;
  if (std::ranges::any_of(families, is_own)) return request;
  return {};
}

ScheduleChoice RecordedBasis::choice_of(const WhatIf& question) const {
  const int microbatches = question.microbatches.value_or(own_.microbatches);
  if (!question.schedule) {
    ScheduleChoice choice;
    choice.schedule = own_;
    if (microbatches == own_.microbatches) return choice;
    std::optional<ScheduleRequest> request = family_request();
    if (!request) {
      throw input_error(
          fmt::format("--microbatches: {} ran its actions in its own order, which does not define "
                      "another number; give --schedule with a name, too",
                      name_));
    }
    request->microbatches = microbatches;
    check_size(family(request->name), *request, needed_bytes());
    return choose_schedule(*request);
  }
  if (names_a_file(*question.schedule)) {
    ScheduleChoice choice;
    choice.schedule = read_schedule(*question.schedule);
    if (choice.schedule.ranks() != own_.ranks()) {
      throw input_error(fmt::format("--schedule {}: it has {}, the run {}", *question.schedule,
                                    plural(choice.schedule.ranks(), "rank"), own_.ranks()));
    }
    return choice;
  }
  const Family& named = family(*question.schedule);
  ScheduleRequest request{
      .name = *question.schedule, .ranks = own_.ranks(), .microbatches = microbatches};
  request.chunks = question.chunks;
  // As many chunks as in the run; if it had one, layers can be divided into more, stages can't.
  const int own_chunks = own_.placement.virtual_stages();
  if (!question.chunks && named.many_chunks && (own_chunks > 1 || !has_layers())) {
    request.chunks = own_chunks;
  }
  check_size(named, request, needed_bytes());
  return choose_schedule(request);
}

RecordedBasis::Answer RecordedBasis::simulated(const WhatIf& question) const {
  ScheduleChoice choice = choice_of(question);
  const Placement& placement = choice.schedule.placement;
  if (costs_.layers.empty() && question.layout) {
    throw input_error(fmt::format(
        "--layout: {} does not give each layer's time; give a run of pipeexec that trains", name_));
  }
  if (costs_.layers.empty() && placement.stages() != own_.stages()) {
    throw input_error(fmt::format(
        "--schedule: {} needs times of {}, and {} gives those of {}; give a run of pipeexec that "
        "trains, whose layers can be distributed anew",
        choice.schedule.name, plural(placement.stages(), "virtual stage"), name_, own_.stages()));
  }
  std::optional<std::vector<int>> layout = question.layout;
  if (!layout && placement == own_.placement) layout = layout_;
  if ((question.storage_bytes_per_second || question.checkpoint_every) && !saves_.any()) {
    throw input_error(
        fmt::format("{}: {} saved no checkpoint, so its time is not known; record a run with "
                    "--checkpoint",
                    question.checkpoint_every ? "--checkpoint-every" : "--storage", name_));
  }
  SaveRequest save;
  save.bytes_per_second = question.storage_bytes_per_second;
  const CostSource source = source_for(layout, save);
  choice.schedule = source.complete(std::move(choice.schedule));
  Costs costs = source.resolve(choice.schedule);
  for (const TimeChange& change : question.times) apply(change, placement, costs);
  for (const LinkChange& change : question.links) apply(change, placement, costs);
  costs.check(placement, choice.schedule.microbatches, name_, iterations());
  SimulationOptions options;
  options.transfers = source.transfers_of(choice);
  options.iterations = iterations();
  const Prediction prediction =
      predict(choice.schedule, costs, choice.family, choice.shape, options);
  Answer answer;
  answer.predicted_ns = prediction.metrics.steady_iteration_ns();
  if (saves_.any()) {
    options.saves = saves_;
    if (question.checkpoint_every) options.saves.every = *question.checkpoint_every;
    const SaveEffect effect = save_effect(choice.schedule, costs, options);
    answer.predicted_ns += effect.stall_ns / options.saves.every;
  }
  answer.iteration_ns = answer.predicted_ns;
  answer.microbatches = choice.schedule.microbatches;
  double busy_ns = 0;
  for (const RankMetrics& rank : prediction.metrics.ranks) {
    busy_ns += static_cast<double>(rank.busy_ns);
  }
  if (answer.predicted_ns > 0) {
    answer.bubble = 1 - busy_ns / (static_cast<double>(prediction.metrics.ranks.size()) *
                                   static_cast<double>(answer.predicted_ns));
  }
  answer.peak_memory_bytes = prediction.peak_memory_bytes();
  answer.schedule = choice.schedule.name;
  return answer;
}

RecordedBasis::Answer RecordedBasis::answer(const WhatIf& question) const {
  Answer answer = simulated(question);
  answer.iteration_ns = std::llround(static_cast<double>(answer.predicted_ns) * correction());
  answer.bubble = std::max(0.0, 1 - (1 - answer.bubble) * busy_correction_);
  return answer;
}

std::vector<Limit> RecordedBasis::limits() const {
  ScheduleChoice choice;
  choice.schedule = own_;
  std::optional<ScheduleRequest> request = family_request();
  if (request) {
    choice.family = &family(request->name);
    choice.shape = resolve_shape(*choice.family, *request);
    if (request->chunks == 1 && has_layers()) request->chunks.reset();
  }
  const CostSource source = source_for(layout_);
  const Costs costs = source.resolve(own_);
  SimulationOptions options;
  options.transfers = source.transfers_of(choice);
  options.iterations = iterations();
  const Prediction prediction = predict(own_, costs, choice.family, choice.shape, options);
  // Other schedules may have another number of stages, which the run's layout does not match.
  const CostSource others = source_for({});
  Trial trial = trial_with(others, own_.placement);
  // Stages measured whole are not divided: no answer is for such a schedule.
  trial.costs = [&others](const Schedule& schedule) { return others.resolve(schedule); };
  std::vector<Limit> limits =
      find_limits({choice, costs, prediction, request, trial, {}, iterations()});
  for (Limit& limit : limits) {
    limit.gain_ns = std::llround(static_cast<double>(limit.gain_ns) * correction());
  }
  return limits;
}

}  // namespace pipesim
