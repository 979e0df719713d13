#include "traces/recorded_run.h"

#include <algorithm>
#include <limits>

#include "traces/accumulation.h"
#include "traces/arrivals.h"

namespace pipesim {

std::string_view name_of(Source source) {
  switch (source) {
    case Source::predicted: return "predicted";
    case Source::measured: return "measured";
    default: return "profiled";
  }
}

std::string RunDescription::pipeline_name() const {
  const std::string data = "replica " + std::to_string(replica / tensor_parallel + 1);
  if (tensor_parallel == 1) return data;
  const std::string tensor = "tensor rank " + std::to_string(replica % tensor_parallel);
  return replicas == 1 ? tensor : data + ", " + tensor;
}

std::int32_t RecordedRun::home_of(const Action& action) const {
  const auto stage = static_cast<std::size_t>(action.stage);
  const bool is_second =
      !about.rank_of_second.empty() && 2 * std::int64_t{action.microbatch} >= microbatches;
  return is_second ? about.rank_of_second[stage] : about.rank_of_stage[stage];
}

bool RecordedRun::is_on(const Action& action, std::int32_t rank) const {
  if (takes_microbatch(action.kind)) return home_of(action) == rank;
  const auto stage = static_cast<std::size_t>(action.stage);
  return about.rank_of_stage[stage] == rank ||
         (!about.rank_of_second.empty() && about.rank_of_second[stage] == rank);
}

std::size_t RecordedRun::median_iteration() const {
  const Accumulation accumulation{about.accumulate};
  const int count = iterations.empty() ? 0 : iterations.back().number + 1;
  std::vector<std::int64_t> makespans;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < iterations.size(); ++i) {
    if (!accumulation.steps(iterations[i].number, count)) continue;
    makespans.push_back(iterations[i].makespan_ns);
    places.push_back(i);
  }
  return places[median_of(makespans)];
}

Metrics RecordedRun::metrics(std::size_t iteration) const {
  if (inputs) return input_bubbles(*inputs);
  const RecordedIteration& own = iterations[iteration];
  std::vector<Span> storage;
  return measure(told_spans(*this, own, storage), ranks, static_cast<int>(chunk_of_stage.size()),
                 microbatches, own.start_ns);
}

double preempted_fraction(std::span<const Span> spans) {
  double preempted_ns = 0;
  double computed_ns = 0;
  for (const Span& span : spans) {
    if (!is_compute(span.action.kind)) continue;
    preempted_ns += static_cast<double>(span.preempted_ns);
    computed_ns += static_cast<double>(span.end_ns - span.start_ns);
  }
  return computed_ns > 0 ? preempted_ns / computed_ns : 0;
}

IterationExtent extent_of(std::span<const Span> spans) {
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  for (const Span& span : spans) {
    const Kind kind = span.action.kind;
    // A RESHARD takes no time, and nothing waits for it.
    if (is_transfer(kind) || kind == Kind::RESHARD || is_save_beside(span.action)) continue;
    start_ns = std::min(start_ns, span.start_ns);
    end_ns = std::max(end_ns, span.end_ns);
  }
  if (start_ns > end_ns) return {};
  return {start_ns, end_ns - start_ns};
}

void find_iterations(RecordedRun& run) {
  run.iterations.clear();
  for (std::size_t i = 0; i < run.spans.size(); ++i) {
    const std::int32_t number = run.spans[i].iteration;
    if (run.iterations.empty() || run.iterations.back().number != number) {
      run.iterations.push_back({number, i, i});
    }
    ++run.iterations.back().end;
  }
  IterationExtent before;
  for (RecordedIteration& own : run.iterations) {
    IterationExtent extent = extent_of(run.spans_of(own));
    const bool is_next = &own != &run.iterations.front() && (&own - 1)->number + 1 == own.number;
    if (run.about.continuous && is_next) {
      const auto behind = extent_behind(before, extent);
      own.follows = behind.has_value();
      extent = behind.value_or(extent);
    }
    own.start_ns = extent.start_ns;
    own.makespan_ns = extent.makespan_ns;
    before = extent;
  }
}

std::optional<IterationExtent> extent_behind(const IterationExtent& before,
                                             const IterationExtent& own) {
  if (own.end_ns() < before.end_ns()) return std::nullopt;
  return IterationExtent{before.end_ns(), own.end_ns() - before.end_ns()};
}

}  // namespace pipesim
