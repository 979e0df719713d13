#include "traces/read/own_clocks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "traces/causality.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

bool is_early(const Span& span) {
  return span.has_input() && span.input_arrival_ns < span.input_sent_ns;
}

// The rank that a span's input came from.
std::int32_t sender_of(const RecordedRun& run, const Span& span) {
  return run.home_of(peer_of(receive_for(span.action)));
}

void shift_ranks(RecordedRun& run, const std::vector<std::int64_t>& shifts) {
  const auto of = [&](std::int32_t rank) { return shifts[static_cast<std::size_t>(rank)]; };
  for (Span& span : run.spans) {
    const bool has_input = span.has_input();
    if (has_input) span.input_sent_ns += of(sender_of(run, span));
    if (has_input || is_collective(span.action)) span.input_arrival_ns += of(span.rank);
    span.start_ns += of(span.rank);
    span.end_ns += of(span.rank);
  }
  for (LayerSpan& layer : run.layers) {
    layer.start_ns += of(layer.rank);
    layer.end_ns += of(layer.rank);
  }
  MemorySamples samples;
  samples.reserve(run.samples.size());
  for (MemorySample sample : std::as_const(run.samples)) {
    sample.time_ns += of(sample.rank);
    samples.push_back(sample);
  }
  samples.sort_by_time();
  run.samples = std::move(samples);
  run.about.clocks.resize(shifts.size());
  for (std::size_t rank = 0; rank < shifts.size(); ++rank) {
    run.about.clocks[rank].shift_ns += shifts[rank];
  }
}

}  // namespace

void put_clocks_right(RecordedRun& run) {
  if (std::ranges::none_of(run.spans, is_early)) return;
  LeastTransfers least(run.ranks);
  for (const Span& span : run.spans) {
    if (!span.has_input()) continue;
    least.add(sender_of(run, span), span.rank, span.input_arrival_ns - span.input_sent_ns);
  }
  const auto shifts = righting_shifts(least, 0, run.name, run.warnings);
  if (shifts.empty()) return;
  shift_ranks(run, shifts);
  sort_spans(run.spans);
  std::ranges::stable_sort(run.layers, {}, [](const LayerSpan& layer) {
    return std::tuple(layer.start_ns, layer.rank);
  });
  find_iterations(run);
}

void sort_spans(LargeVector<Span>& spans) {
  const auto by_iteration = [](const Span& a, const Span& b) {
    return std::tuple(a.iteration, a.start_ns, a.rank) <
           std::tuple(b.iteration, b.start_ns, b.rank);
  };
  // The sort must be stable, for cells.
  if (!std::ranges::is_sorted(spans, by_iteration)) std::ranges::stable_sort(spans, by_iteration);
}

}  // namespace pipesim
