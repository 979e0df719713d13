// Reads trace files, for bench/process_cost to measure:
//
//   read_bench events FILE    every event of a Chrome trace
//   read_bench run FILE...    a run, its layers and its metrics
#include <cstdio>
#include <string_view>
#include <vector>

#include "traces/base/error.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/read_run.h"

int main(int argc, char** argv) {
  using namespace pipesim;
  if (argc < 3) {
    std::fprintf(stderr, "usage: read_bench events FILE | read_bench run FILE...\n");
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
    } else {
      const RecordedRun run = read_run({argv + 2, argv + argc}, {.layers = true, .program = {}});
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
