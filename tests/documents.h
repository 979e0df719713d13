// Documents without files: of runs as tests/recorded.h makes them.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "gui/scene/document.h"
#include "sim/schedule/family.h"
#include "tests/random_schedule.h"
#include "tests/recorded.h"

namespace pipesim::gui::testing {

inline std::shared_ptr<const OpenTrace> open_trace(RecordedRun run) {
  auto trace = std::make_shared<OpenTrace>();
  trace->name = run.name;
  trace->run = std::move(run);
  return trace;
}

inline std::shared_ptr<const OpenTrace> open_trace(EventTrace events) {
  auto trace = std::make_shared<OpenTrace>();
  trace->name = events.name;
  trace->events = std::move(events);
  return trace;
}

inline Document document_of(RecordedRun run) {
  Document document;
  document.traces.push_back(open_trace(std::move(run)));
  return document;
}

// Both, compared.
inline Document document_of(RecordedRun predicted, RecordedRun measured) {
  Document document;
  document.traces.push_back(open_trace(std::move(predicted)));
  document.traces.push_back(open_trace(std::move(measured)));
  return compared(document, 0, 1);
}

// Puts iterations of one more run of the same schedule behind those of the first,
// `pause_ns` after its last end.
inline void append_run(RecordedRun& run, const RecordedRun& more, std::int64_t pause_ns) {
  const RecordedIteration& last = run.iterations.back();
  const std::int64_t shift_ns = last.start_ns + last.makespan_ns + pause_ns;
  const std::int32_t number = last.number + 1;
  for (RecordedIteration iteration : more.iterations) {
    iteration.begin += run.spans.size();
    iteration.end += run.spans.size();
    iteration.start_ns += shift_ns;
    iteration.number += number;
    run.iterations.push_back(iteration);
  }
  for (Span span : more.spans) {
    span.iteration += number;
    span.start_ns += shift_ns;
    span.end_ns += shift_ns;
    if (span.has_input()) {
      span.input_sent_ns += shift_ns;
      span.input_arrival_ns += shift_ns;
    } else if (is_collective(span.action)) {
      span.input_arrival_ns += shift_ns;
    }
    run.spans.push_back(span);
  }
}

// Samples of chunks, and of as many bytes for each, as actions start and end.
inline void add_samples(RecordedRun& run, std::int64_t bytes_a_chunk) {
  std::vector<MemorySample> changes;
  for (const Span& span : run.spans) {
    const bool forward = span.action.kind == Kind::F;
    if (!forward && !is_backward(span.action.kind)) continue;
    MemorySample change;
    change.rank = span.rank;
    change.time_ns = forward ? span.start_ns : span.end_ns;
    change.chunks = forward ? 1 : -1;
    changes.push_back(change);
  }
  std::ranges::stable_sort(changes, {}, &MemorySample::time_ns);
  std::vector<std::int64_t> alive(static_cast<std::size_t>(run.ranks));
  for (MemorySample& sample : changes) {
    std::int64_t& chunks = alive[static_cast<std::size_t>(sample.rank)];
    sample.chunks = chunks += sample.chunks;
    sample.working.activations = chunks * bytes_a_chunk;
  }
  run.samples.clear();
  for (const MemorySample& sample : changes) run.samples.push_back(sample);
}

// A prediction of 1F1B and a run in which one stage is slow, of some iterations.
struct Perturbed {
  RecordedRun predicted, measured;
};
inline Perturbed perturbed(const std::string& family = "1f1b", int iterations = 3) {
  using pipesim::testing::recorded;
  const Schedule schedule = generate(ScheduleRequest{family, 4, 8, {}, {}, {}});
  Costs planned = pipesim::testing::costs_of(schedule.stages(), 1'000'000, 2'000'000, 20'000);
  Perturbed both{recorded(schedule, planned), {}};
  std::mt19937_64 random(7);
  for (int i = 0; i < iterations; ++i) {
    Costs costs = planned;
    costs.stages[2].forward_ns += 300'000;
    for (StageCosts& stage : costs.stages) {
      stage.forward_ns += pipesim::testing::pick(random, -20'000, 20'000);
      stage.backward_input_ns += pipesim::testing::pick(random, -20'000, 20'000);
    }
    RecordedRun run = recorded(schedule, costs, "measured");
    run.about.source = Source::measured;
    if (i == 0) {
      both.measured = std::move(run);
    } else {
      append_run(both.measured, run, 50'000);
    }
  }
  add_samples(both.predicted, 1 << 20);
  add_samples(both.measured, 1 << 20);
  return both;
}

}  // namespace pipesim::gui::testing
