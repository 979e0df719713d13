// Any bytes as a trace file: an Error, or events within their bounds and members
// that are strict JSON, and slices of which no two of a row overlap; and, where it is a run of
// ours, spans in order that belong to it, whose metrics add up, and which differ in nothing from
// themselves.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/compare/comparison.h"
#include "tests/fuzz/memory_file.h"
#include "traces/base/error.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/event_trace.h"
#include "traces/read/read_run.h"

namespace pipesim {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_events(const std::string& path) {
  constexpr std::int64_t latest_ns = (std::int64_t{1} << 61) - 1;
  Warnings warnings;
  std::int64_t events = 0;
  std::int64_t last_index = -1;
  const auto check = [&](const ChromeEvent& event) {
    ++events;
    require(event.index > last_index);
    last_index = event.index;
    require(event.phase != 'X' || (event.ts_ns && event.dur_ns));
    if (event.ts_ns) require(std::abs(*event.ts_ns) <= latest_ns);
    if (event.dur_ns) require(*event.dur_ns >= 0);
    if (event.ts_ns && event.dur_ns) require(*event.ts_ns + *event.dur_ns <= latest_ns);
    for (const TraceArgument& argument : event.args) event.argument(argument.key);
  };
  const ChromeTrace trace = read_chrome_trace(path, check, warnings);
  require(trace.events == events);
  require(!trace.truncated || !warnings.empty());
  for (const auto& [key, text] : trace.members) require(nlohmann::json::accept(text));
}

void check_slices(const EventTrace& trace) {
  const auto texts = trace.texts.size();
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const Slice& slice = trace.slices[i];
    require(slice.track < trace.tracks.size() && slice.row < trace.tracks[slice.track].rows);
    require(slice.name < texts && slice.category < texts && slice.arguments < texts);
    require(slice.start_ns <= slice.end_ns);
    if (i == 0) continue;
    const Slice& before = trace.slices[i - 1];
    const auto row = [](const Slice& s) { return std::tuple(s.track, s.row); };
    require(row(before) <= row(slice));
    require(row(before) != row(slice) || before.end_ns <= slice.start_ns);
  }
  for (const EventArrow& arrow : trace.arrows) {
    require(arrow.from < trace.slices.size() && arrow.to < trace.slices.size());
  }
  for (const CounterTrack& counter : trace.counters) {
    require(counter.track <= trace.tracks.size());
    require(std::ranges::is_sorted(counter.samples, {}, &CounterTrack::Sample::time_ns));
  }
}

void check_run(const RecordedRun& run) {
  const auto stages = run.chunk_of_stage.size();
  require(!run.spans.empty() && !run.iterations.empty() && run.ranks >= 1);
  std::size_t place = 0;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    const RecordedIteration& iteration = run.iterations[i];
    require(iteration.begin == place && iteration.end > place);
    place = iteration.end;
    const auto spans = run.spans_of(iteration);
    require(std::ranges::is_sorted(
        spans, {}, [](const Span& span) { return std::tuple(span.start_ns, span.rank); }));
    for (const Span& span : spans) {
      require(span.iteration == iteration.number && span.end_ns >= span.start_ns);
      require(static_cast<std::size_t>(span.action.stage) < stages);
      require(run.about.rank_of_stage[static_cast<std::size_t>(span.action.stage)] == span.rank);
      require(span.action.microbatch < run.microbatches && span.bytes >= 0 && span.queued_ns >= 0);
    }
    require(!spans.back().action.joined);
    const Metrics metrics = run.metrics(i);
    require(metrics.makespan_ns == iteration.makespan_ns);
    for (const RankMetrics& rank : metrics.ranks) {
      require(rank.busy_ns >= 0 && rank.busy_ns + rank.bubble.total_ns() == metrics.makespan_ns);
    }
  }
  require(place == run.spans.size() && run.median_iteration() < run.iterations.size());
  for (const LayerSpan& layer : run.layers) {
    require(layer.rank < run.ranks && layer.layer < std::ssize(run.about.layers));
    require(is_compute(layer.action.kind));
  }
  for (const MemorySample& sample : run.samples) {
    require(sample.rank >= 0 && sample.rank < run.ranks && sample.chunks >= 0);
  }
}

}  // namespace
}  // namespace pipesim

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const testing::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    read_events(file.path());
  } catch (const Error&) {
  }
  try {
    check_slices(read_event_trace(file.path()));
  } catch (const Error&) {
  }
  try {
    const RecordedRun run = read_run({file.path()}, {.layers = true, .samples = true});
    check_run(run);
    const Comparison comparison = compare(run, run);
    require(comparison.gap.terms == Gap{}.terms && comparison.root_causes.empty());
  } catch (const Error&) {
  }
  return 0;
}
