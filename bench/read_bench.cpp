// Reads trace files, for bench/process_cost to measure:
//
//   read_bench events FILE    every event of a Chrome trace
//   read_bench run FILE...    a run, its layers and its metrics
//   read_bench trace FILE     tracks and slices
#include <cstdio>
#include <string_view>
#include <vector>

#include "traces/base/error.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/event_trace.h"
#include "traces/read/read_run.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  if (argc < 3) {
    std::fprintf(
        stderr, "usage: read_bench events FILE | read_bench run FILE... | read_bench trace FILE\n");
    return 2;
  }
  try {
    if (std::string_view(argv[1]) == "events") {
      Warnings warnings;
      std::size_t args = 0;
      const ChromeTrace trace = read_chrome_trace(
          argv[2], [&](const ChromeEvent& event) { args += event.args.size(); }, warnings);
      std::printf("%lld events, %zu args\n%s", static_cast<long long>(trace.events), args,
                  warnings.text().c_str());
    } else if (std::string_view(argv[1]) == "trace") {
      const EventTrace trace = read_event_trace(argv[2]);
      int rows = 0;
      for (const EventTrack& track : trace.tracks) rows += track.rows;
      std::printf("%zu slices, %zu tracks, %d rows, %zu arrows, %zu counters, %zu texts\n%s",
                  trace.slices.size(), trace.tracks.size(), rows, trace.arrows.size(),
                  trace.counters.size(), trace.texts.size(), trace.warnings.text().c_str());
    } else {
      const RecordedRun run = read_run({argv + 2, argv + argc}, {.layers = true});
      const Metrics metrics = run.metrics(run.median_iteration());
      std::printf("%zu actions, %zu layers, %zu samples, %lld ns\n%s", run.spans.size(),
                  run.layers.size(), run.samples.size(),
                  static_cast<long long>(metrics.makespan_ns), run.warnings.text().c_str());
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "read_bench: %s\n", error.what());
    return error.exit_status();
  }
  return 0;
}
