// Runs of input pipelines as recorded runs.
#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "traces/bubbles.h"
#include "traces/recorded_run.h"

namespace pipesim {
namespace {

// From the first start to the last end on its compute stream.
std::pair<std::int64_t, std::int64_t> extent_of_compute(const InputCalls& calls,
                                                        const std::vector<InputSpan>& spans) {
  std::pair<std::int64_t, std::int64_t> extent{0, 0};
  bool is_first = true;
  for (std::size_t place = 0; place < calls.size(); ++place) {
    if (calls[place].stream != InputStream::compute) continue;
    if (std::exchange(is_first, false)) extent.first = spans[place].start_ns;
    extent.second = std::max(extent.second, spans[place].end_ns);
  }
  return extent;
}

RankMetrics rank_metrics_of(const InputMetrics::Rank& own, std::int64_t makespan_ns) {
  RankMetrics rank;
  rank.busy_ns = own.busy_ns;
  for (const Kind kind : input_kinds) {
    if (moves_data(kind)) rank.bubble.p2p_ns += own.exposed[static_cast<std::size_t>(kind)];
  }
  rank.bubble.warmup_ns = own.warmup_ns;
  rank.bubble.drain_ns = own.drain_ns;
  rank.bubble.steady_ns = makespan_ns - own.busy_ns - rank.bubble.total_ns();
  rank.peak_activation_chunks = own.batches_in_flight;
  return rank;
}

}  // namespace

RecordedRun as_recorded(InputRun inputs, const std::string& name) {
  RecordedRun run;
  run.name = name;
  run.warnings = inputs.warnings;
  run.ranks = inputs.program.ranks();
  run.microbatches = inputs.program.batches;
  const auto ranks = static_cast<std::size_t>(run.ranks);
  run.chunk_of_stage.assign(ranks, 0);
  run.about.source = inputs.is_measured ? Source::measured : Source::predicted;
  run.about.schedule = inputs.program.name;
  run.about.rank_of_stage.resize(ranks);
  std::iota(run.about.rank_of_stage.begin(), run.about.rank_of_stage.end(), 0);
  run.about.device = inputs.device;
  run.about.transport = inputs.transport;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t place = 0; place < inputs.spans[rank].size(); ++place) {
      const Action& called = inputs.program.calls[rank][place].action;
      const InputSpan& own = inputs.spans[rank][place];
      Span span{make_action(static_cast<int>(rank), called.kind, called.microbatch),
                static_cast<std::int32_t>(rank)};
      span.start_ns = own.start_ns;
      span.end_ns = own.end_ns;
      run.spans.push_back(span);
    }
  }
  std::ranges::stable_sort(run.spans, {},
                           [](const Span& span) { return std::tuple(span.start_ns, span.rank); });
  run.iterations = {{0, 0, run.spans.size(), 0, makespan_of(inputs), false}};
  run.inputs = std::make_shared<const InputRun>(std::move(inputs));
  return run;
}

Metrics input_bubbles(const InputRun& inputs) {
  const InputMetrics own = measure(inputs);
  Metrics metrics;
  metrics.makespan_ns = own.makespan_ns;
  metrics.iteration_ends_ns = {own.makespan_ns};
  for (std::size_t rank = 0; rank < own.ranks.size(); ++rank) {
    RankMetrics& added =
        metrics.ranks.emplace_back(rank_metrics_of(own.ranks[rank], own.makespan_ns));
    std::tie(added.first_start_ns, added.last_end_ns) =
        extent_of_compute(inputs.program.calls[rank], inputs.spans[rank]);
    if (!inputs.memory.empty()) added.peak_memory.total = inputs.memory[rank].total();
    const auto& widest = metrics.ranks[static_cast<std::size_t>(metrics.widest_rank)];
    if (added.span_ns() > widest.span_ns()) metrics.widest_rank = static_cast<int>(rank);
  }
  return metrics;
}

std::vector<IdleSpan> idle_spans(const InputRun& inputs, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  const std::int64_t first_ns = extent_of_compute(inputs.program.calls[at], inputs.spans[at]).first;
  std::vector<IdleSpan> idle;
  for (const InputWait& wait : waits_of(inputs, rank)) {
    const BubbleKind kind = wait.what == "drain"                  ? BubbleKind::drain
                            : wait.kind && moves_data(*wait.kind) ? BubbleKind::p2p
                            : wait.start_ns < first_ns            ? BubbleKind::warmup
                                                                  : BubbleKind::steady;
    idle.push_back({rank, kind, wait.start_ns, wait.end_ns});
  }
  return idle;
}

}  // namespace pipesim
