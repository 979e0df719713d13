// Any bytes as profiles of up to four ranks: an Error or a run whose parts fit
// together. Files are divided by a line "====".
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/memory_file.h"
#include "traces/base/error.h"
#include "traces/read/profile/kineto.h"

namespace {

void check(const pipesim::RecordedRun& run) {
  using namespace pipesim;
  const auto stages = run.about.rank_of_stage.size();
  if (run.iterations.empty() || run.chunk_of_stage.size() != stages) std::abort();
  std::size_t at = 0;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    const RecordedIteration& iteration = run.iterations[i];
    if (iteration.begin != at || iteration.end <= at || iteration.makespan_ns < 0) std::abort();
    if (i > 0 && iteration.number <= run.iterations[i - 1].number) std::abort();
    at = iteration.end;
    std::int64_t before = 0;
    for (const Span& span : run.spans_of(iteration)) {
      if (span.iteration != iteration.number || span.start_ns < before) std::abort();
      if (span.end_ns < span.start_ns || span.queued_ns < 0 || span.bytes < 0) std::abort();
      if (span.rank < 0 || span.rank >= run.ranks) std::abort();
      if (static_cast<std::size_t>(span.action.stage) >= stages) std::abort();
      if (takes_microbatch(span.action.kind) && span.action.microbatch >= run.microbatches) {
        std::abort();
      }
      before = span.start_ns;
    }
    run.metrics(i);
  }
  if (at != run.spans.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view divider = "\n====\n";
  std::vector<std::string> paths;
  std::deque<testing::MemoryFile> files;
  ReadOptions options;
  if (text.starts_with("program")) {
    options.profile.program = {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"};
    text.remove_prefix(7);
  }
  while (files.size() < 4) {
    const std::size_t end = text.find(divider);
    paths.push_back(files.emplace_back(text.substr(0, end)).path());
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + divider.size());
  }
  try {
    check(read_profile(paths, options));
  } catch (const Error&) {
  }
  return 0;
}
