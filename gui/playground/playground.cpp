#include "gui/playground/playground.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/engine/record_run.h"
#include "sim/request/request.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

// Limits of the playground.
constexpr int largest_percent = 10'000;

void check_time(std::int64_t ns, std::string_view what) {
  if (ns >= 0 && ns <= max_time_ns) return;
  throw input_error(fmt::format("{}: {} ns is not valid; give a time from 0 to 11 days", what, ns));
}

void check_bytes(std::int64_t bytes, std::string_view what) {
  if (bytes >= 0 && bytes <= max_bytes) return;
  throw input_error(fmt::format("{}: {} bytes are not valid; give 0 B to 1 PiB", what, bytes));
}

// Checks that are possible before anything is built.
void check(const Settings& settings) {
  const std::pair<int, std::string_view> counts[] = {{settings.stages, "stages"},
                                                     {settings.virtual_stages, "virtual stages"},
                                                     {settings.microbatches, "microbatches"}};
  for (const auto& [count, what] : counts) {
    if (count < 1) throw input_error(fmt::format("{} {}: use at least 1", count, what));
  }
  const long double results =
      static_cast<long double>(settings.stages) * settings.virtual_stages * settings.microbatches;
  if (results > static_cast<long double>(largest_stages) * largest_microbatches) {
    throw input_error(fmt::format(
        "{} x {} x {} are more than is played at once, {} stages x {} microbatches; use fewer, or "
        "let pipesim write a trace",
        plural(settings.stages, "stage"), plural(settings.virtual_stages, "chunk"),
        plural(settings.microbatches, "microbatch"), largest_stages,
        format_count(largest_microbatches)));
  }
  check_time(settings.forward_ns, "forward");
  check_time(settings.input_ns, "input gradient");
  check_time(settings.weight_ns, "weight gradient");
  check_time(settings.latency_ns, "latency");
  check_bytes(settings.activation_bytes, "activations");
  check_bytes(settings.memory_cap_bytes.value_or(0), "memory");
  if (!settings.slow_stage) return;
  const std::int64_t stages = std::int64_t{settings.stages} * settings.virtual_stages;
  if (*settings.slow_stage < 0 || *settings.slow_stage >= stages) {
    throw input_error(
        fmt::format("slow stage {}: there are stages 0 to {}", *settings.slow_stage, stages - 1));
  }
  if (settings.slow_percent < 1 || settings.slow_percent > largest_percent) {
    throw input_error(fmt::format("slow stage at {} %: use 1 to {} % of the others' times",
                                  settings.slow_percent, format_count(largest_percent)));
  }
}

PredictionRequest request_of(const Settings& settings) {
  PredictionRequest request;
  ScheduleRequest schedule{settings.schedule, settings.stages, settings.microbatches};
  schedule.chunks = settings.virtual_stages;
  request.schedule = choose_schedule(schedule);
  const Placement& placement = request.schedule.schedule.placement;
  const auto times = [&](std::int64_t rank_ns) {
    GivenCosts::Values each;
    for (int stage = 0; stage < placement.stages(); ++stage) {
      each.push_back(part_of_chunk(rank_ns, placement.chunk_of(stage), placement.virtual_stages()));
    }
    if (settings.slow_stage) {
      const std::int64_t percent = settings.slow_percent;
      std::int64_t& ns = each[static_cast<std::size_t>(*settings.slow_stage)];
      ns = ns / 100 * percent + ns % 100 * percent / 100;  // rounded down
    }
    return each;
  };
  GivenCosts costs;
  costs.forward_ns = times(settings.forward_ns);
  costs.backward_input_ns = times(settings.input_ns);
  costs.backward_weight_ns = times(settings.weight_ns);
  costs.activation_bytes = {settings.activation_bytes};
  costs.p2p.latency_ns = settings.latency_ns;
  request.costs.costs = std::move(costs);
  request.costs.name = "the times and bytes given";
  return request;
}

// As from a trace's counters: one sample per instant at which a rank's activations change, and one
// at the start if they have bytes.
std::vector<MemorySample> samples_of(const RecordedRun& run) {
  struct Change {
    std::int64_t time_ns;
    std::uint32_t span;
    bool at_end;
  };
  std::vector<Change> changes;
  changes.reserve(run.spans.size());
  for (std::uint32_t i = 0; i < run.spans.size(); ++i) {
    const Span& span = run.spans[i];
    if (!is_compute(span.action.kind)) continue;
    const bool at_end = span.action.kind != Kind::F;
    changes.push_back({at_end ? span.end_ns : span.start_ns, i, at_end});
  }
  std::ranges::sort(changes, [](const Change& a, const Change& b) {
    return std::tuple(a.time_ns, a.span) < std::tuple(b.time_ns, b.span);
  });

  std::vector<MemorySample> samples;
  samples.reserve(changes.size());
  // By rank, its memory, and the index of its last sample.
  std::vector<MemoryMeter> meters(static_cast<std::size_t>(run.ranks));
  constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last(meters.size(), nowhere);
  const auto sample = [&](std::int32_t rank, std::int64_t time_ns) {
    const auto r = static_cast<std::size_t>(rank);
    if (last[r] == nowhere || samples[last[r]].time_ns != time_ns) {
      last[r] = samples.size();
      samples.push_back({rank, time_ns, {}, {}, 0});
    }
    samples[last[r]].working = meters[r].now();
    samples[last[r]].chunks = meters[r].chunks();
  };
  const bool has_bytes = std::ranges::any_of(
      run.footprints, [](const StageFootprint& stage) { return stage.activation_bytes > 0; });
  for (std::int32_t rank = 0; has_bytes && rank < run.ranks; ++rank) sample(rank, 0);
  for (const Change& change : changes) {
    const Span& span = run.spans[change.span];
    const StageFootprint& stage = run.footprints[static_cast<std::size_t>(span.action.stage)];
    MemoryMeter& meter = meters[static_cast<std::size_t>(span.rank)];
    if (change.at_end) {
      meter.end(span.action, stage, change.time_ns);
    } else {
      meter.start(span.action, stage, change.time_ns);
    }
    if (span.action.kind != Kind::W) sample(span.rank, change.time_ns);
  }
  return samples;
}

// As it would be read from pipesim's trace.
RecordedRun run_of(const PreparedPrediction& prepared, const std::string& name) {
  RecordedRun run = record_run(prepared.choice.schedule, prepared.costs, prepared.options);
  run.name = name;
  for (const MemorySample& sample : samples_of(run)) run.samples.push_back(sample);
  return run;
}

std::string shape_text(const Settings& settings) {
  return plural(settings.stages, "stage") +
         (settings.virtual_stages > 1 ? " x " + plural(settings.virtual_stages, "chunk") : "");
}

std::string bubble_text(const Prediction& prediction) {
  const Metrics& metrics = prediction.metrics;
  const std::string global = format_percent(metrics.global_bubble());
  const bool of_span =
      prediction.closed_form && prediction.closed_form->form.metric == BubbleMetric::span;
  if (!of_span) return global;
  return fmt::format("{}; {} of rank {}'s own time", global, format_percent(metrics.span_bubble()),
                     metrics.widest_rank);
}

std::string formula_text(const Family& family, const Prediction& prediction) {
  if (!prediction.closed_form) {
    return fmt::format("{}, but not here: {}", family.bubble, prediction.no_closed_form);
  }
  const PredictedClosedForm& closed = *prediction.closed_form;
  const bool of_span = closed.form.metric == BubbleMetric::span;
  return fmt::format("{} = {}, {}{}: {}", closed.form.formula, format_time(closed.form.bubble_ns),
                     format_percent(closed.fraction), of_span ? " of its own time" : "",
                     closed.exact ? "exact here" : "differs from the simulation");
}

std::string memory_text(const Settings& settings, const Prediction& prediction) {
  const Metrics& metrics = prediction.metrics;
  const auto fullest =
      std::ranges::max_element(metrics.ranks, {}, &RankMetrics::peak_activation_chunks);
  const std::int64_t chunks = fullest->peak_activation_chunks;
  std::string text =
      settings.virtual_stages > 1
          ? fmt::format("at most {}, worth {:.3g} microbatches,", plural(chunks, "chunk"),
                        static_cast<double>(chunks) / settings.virtual_stages)
          : "at most " + plural(chunks, "microbatch", "microbatches");
  text += fmt::format(" on rank {}", fullest - metrics.ranks.begin());
  const std::int64_t peak = prediction.peak_memory_bytes();
  if (peak > 0) text += ", " + format_bytes(peak);
  if (!settings.memory_cap_bytes) return text;
  const std::int64_t cap = *settings.memory_cap_bytes;
  if (settings.activation_bytes == 0) return text + "; give activations bytes to see if they fit";
  if (peak <= cap) return text + fmt::format("; fits into {}", format_bytes(cap));
  const auto over = std::ranges::count_if(
      prediction.memory, [&](const RankMemory& rank) { return rank.total() > cap; });
  const auto worst = std::ranges::max_element(prediction.memory, {}, &RankMemory::total);
  return text + fmt::format("; {} of {} exceed {}, rank {} by {} when {} starts at {}", over,
                            plural(static_cast<std::int64_t>(prediction.memory.size()), "rank"),
                            format_bytes(cap), worst - prediction.memory.begin(),
                            format_bytes(worst->total() - cap), to_text(worst->peak.action),
                            format_time(worst->peak.time_ns));
}

std::string messages_text(const Settings& settings, const RecordedRun& run) {
  const auto count = std::ranges::count_if(run.spans, [](const Span& span) {
    return span.action.kind == Kind::SEND_F || span.action.kind == Kind::SEND_B;
  });
  if (count == 0) return "none";
  std::string text =
      fmt::format("{} per iteration, {:.3g} per microbatch", format_count(count),
                  static_cast<double>(count) / static_cast<double>(settings.microbatches));
  if (settings.latency_ns > 0) text += fmt::format(", {} each", format_time(settings.latency_ns));
  return text;
}

Outcome played(const Settings& settings) {
  check(settings);
  const PreparedPrediction prepared = prepare(request_of(settings));
  const Family& chosen = *prepared.choice.family;
  const Prediction prediction = prepared.predict();

  Outcome outcome;
  auto trace = std::make_shared<OpenTrace>();
  trace->name = fmt::format("{}, {}, {}", chosen.title, shape_text(settings),
                            plural(settings.microbatches, "microbatch"));
  trace->run = run_of(prepared, trace->name);
  outcome.verdict = fmt::format("{}: {}, of which {:.0f} % bubble", trace->name,
                                format_time(prediction.metrics.makespan_ns),
                                prediction.metrics.global_bubble() * 100);
  const std::optional<SplitBackward> split = split_backward(prepared);
  if (split && split->steady_ns < prediction.metrics.makespan_ns) {
    outcome.verdict +=
        fmt::format("; further iterations would take {} each", format_time(split->steady_ns));
  }
  outcome.bubble = bubble_text(prediction);
  outcome.formula = formula_text(chosen, prediction);
  outcome.messages = messages_text(settings, *trace->run);
  outcome.memory = memory_text(settings, prediction);
  if (split && split->chunks_until_weights > prediction.metrics.peak_activation_chunks()) {
    outcome.memory += fmt::format("; {} until their W", split->chunks_until_weights);
  }
  outcome.trace = std::move(trace);
  return outcome;
}

}  // namespace

std::vector<Offer> offers() {
  std::vector<Offer> list;
  for (const Family& one : all_families()) {
    list.push_back({std::string(one.name), std::string(one.title), std::string(one.summary),
                    one.many_chunks, one.default_chunks});
  }
  return list;
}

// Invalid values are an answer here, not an error.
Outcome play(const Settings& settings) {
  try {
    return played(settings);
  } catch (const Error& error) {
    Outcome outcome;
    outcome.objection = error.what();
    return outcome;
  }
}

}  // namespace pipesim::gui
