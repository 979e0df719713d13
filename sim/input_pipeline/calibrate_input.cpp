#include "sim/input_pipeline/calibrate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::int32_t batches_to_warm_up = 2;

// The lower of two in the middle; 0 for none.
std::int64_t median_of(std::vector<std::int64_t>& times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

InputCalibration calibrate_input(const InputRun& run) {
  struct Samples {
    std::vector<std::int64_t> durations, calls;
  };
  InputCalibration calibration;
  InputCosts& costs = calibration.costs;
  const InputProgram& program = run.program;
  const std::int32_t first = program.batches >= 2 * batches_to_warm_up ? batches_to_warm_up : 0;
  std::array<bool, kind_count> is_known{};
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::array<Samples, kind_count> samples;
    for (std::size_t place = 0; place < program.calls[at].size(); ++place) {
      const InputCall& call = program.calls[at][place];
      if (call.action.microbatch < first) continue;
      const InputSpan& span = run.spans[at][place];
      Samples& own = samples[static_cast<std::size_t>(call.action.kind)];
      own.durations.push_back(span.end_ns - span.start_ns);
      if (call.stream != InputStream::host) own.calls.push_back(span.issued_ns - span.called_ns);
    }
    auto& work = costs.work.emplace_back();
    for (std::size_t kind = 0; kind < work.size(); ++kind) {
      is_known[kind] = is_known[kind] || !samples[kind].durations.empty();
      work[kind].duration_ns = median_of(samples[kind].durations);
      work[kind].host_ns = median_of(samples[kind].calls);
    }
  }
  costs.batch_size = run.batch_size;
  std::string missing;
  for (const Kind kind : {Kind::PREFETCH, Kind::PREPARE}) {
    if (is_known[static_cast<std::size_t>(kind)]) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : " and ", kind_name(kind));
  }
  if (!missing.empty()) {
    calibration.notes.push_back(
        fmt::format("{} did not run, and counts as nothing for programs that have it", missing));
  }
  return calibration;
}

}  // namespace pipesim
