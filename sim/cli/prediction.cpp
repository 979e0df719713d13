#include "sim/cli/prediction.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>

#include "sim/engine/record_run.h"
#include "sim/request/result_json.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/chrome_writer.h"

namespace pipesim::cli {
namespace {

// Memory to record a trace: per action its span and those of its transfers at both ends, and the
// lines sorted for writing; per stage and rank their metadata.
constexpr BytesNeeded trace_needs{std::int64_t{6} * (sizeof(Span) + 32), 0, 1800, 1500};
// Memory for a result as JSON.
constexpr BytesNeeded json_needs{0, 0, 0, 3600};

}  // namespace

std::vector<FlagHelp> extent_flags(PredictFlags& flags) {
  return {{"--iterations", &flags.iterations, "N", "consecutive iterations, no barrier; default 1"},
          {"--accumulate", &flags.accumulate, "K", "optimizer step every K iterations; default 1"},
          {"--memory-cap", &flags.memory_cap, "BYTES",
           "memory limit per rank; default a model's device"}};
}

std::vector<FlagHelp> answer_flags(PredictFlags& flags) {
  std::vector<FlagHelp> all = schedule_flags_but_name(flags.schedule);
  all.insert(all.end(),
             {{"--schedule", &flags.schedule.schedule, "", ""}, {"--explain", &flags.explain, ""}});
  for (std::vector<FlagHelp>& more : std::vector{
           all_model_flags(flags.costs.model), cost_flags(flags.costs),
           all_spread_flags(flags.spread), all_save_flags(flags.save), extent_flags(flags)}) {
    std::ranges::move(more, std::back_inserter(all));
  }
  return all;
}

AskedPrediction prepare(const PredictFlags& flags, const WantedOutputs& outputs) {
  PredictionRequest request;
  request.costs = cost_request(flags.costs);
  add_slow_ranks(flags.spread, request.costs);
  if (flags.explain && !flags.costs.model.model) {
    throw input_error("--explain: only a model breaks down time and memory; give --model");
  }
  if (flags.iterations) request.iterations = parse_count(*flags.iterations, "--iterations");
  if (flags.accumulate) request.accumulate = parse_count(*flags.accumulate, "--accumulate");
  if (flags.memory_cap) request.memory_cap_bytes = parse_bytes(*flags.memory_cap, "--memory-cap");
  const Flag& name = flags.schedule.schedule;
  const std::shared_ptr<const Schedule>& own = flags.schedule.own;
  const bool on_streams = own ? own->lane != TransferLane::compute
                              : name && names_a_file(*name) && !name->ends_with(".csv");
  BytesNeeded needed = request.costs.bytes_needed(on_streams);
  if (outputs.trace) needed += trace_needs;
  ask_for_saves(flags.save, request);
  const int at_once = request.saves.any() ? iterations_of_effect(request) : request.accumulate;
  needed = needed.times(std::max(request.iterations, at_once));
  if (outputs.json) needed += json_needs;
  ScheduleFlags schedule = flags.schedule;
  settle_schedule(flags.costs.model.global_batch, request.costs, schedule);
  auto* training = std::get_if<TrainingRequest>(&request.costs.costs);
  request.schedule = choose_schedule(schedule, needed);
  if (training != nullptr && training->devices) {  // now that replicas are known
    std::vector<std::string> notes;
    training->with_ranks(request.schedule.schedule.ranks(), &notes);
    tell(flags.costs.model, notes);
  }
  PreparedPrediction prepared = pipesim::prepare(std::move(request));
  const std::int64_t actions = prepared.choice.schedule.actions.size();
  std::optional<SpreadQuestion> spread =
      spread_question(flags.spread, prepared.source, actions * prepared.options.iterations);
  return {std::move(schedule), std::move(spread), flags.explain, std::move(prepared)};
}

PredictionDetails find_details(const AskedPrediction& asked, const Prediction& prediction) {
  const auto& [source, choice, model, cap, costs, options] = asked.prepared;
  PredictionDetails details;
  if (options.saves.any()) details.saves = save_effect(choice.schedule, costs, options);
  if (asked.spread) {
    details.spread = find_spread(choice.schedule, costs, options, *asked.spread, true);
  }
  if (asked.explain) {
    const Prediction plain = asked.prepared.predict_plain();
    details.explanation =
        explain(*model, source.shape_of(choice.schedule), choice.schedule.microbatches, costs,
                plain.metrics, plain.memory, asked.prepared.plain_spans());
  }
  std::optional<ScheduleRequest> generated;
  if (choice.family != nullptr) generated = parse_request(asked.schedule);
  details.notes = find_notes(asked.prepared, prediction, generated);
  return details;
}

std::string json_of(const AskedPrediction& asked, const Prediction& prediction,
                    const PredictionDetails& details) {
  const PreparedPrediction& prepared = asked.prepared;
  return result_json(prepared.choice.schedule, prediction, prepared.memory_cap_bytes,
                     prepared.model, details.explanation, details.spread, details.saves,
                     details.notes);
}

void write_trace(const PreparedPrediction& prepared, OutputFile& file) {
  const auto& [source, choice, model, cap, costs, options] = prepared;
  RecordedRun run = record_run(choice.schedule, costs, options);
  run.about.costs_from = source.origin();
  if (model) run.exchanges = tensor_exchanges(*model, source.shape_of(choice.schedule));
  write_chrome_trace(run, file);
}

}  // namespace pipesim::cli
