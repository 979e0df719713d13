// Every reported number, computed from a stream of spans (see METRICS.md).
//
// A MetricsAccumulator is fed spans as a SpanSink receives them, by an
// evaluation as it runs or from a stored timeline, and never stores them: its
// memory is O(ranks + stages x microbatches). Not thread-safe; one an
// iteration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"
#include "traces/timeline.h"

namespace pipesim {

// Idle time of a rank within the makespan, by cause; see METRICS.md.
struct Bubble {
  std::int64_t warmup_ns = 0;
  std::int64_t steady_ns = 0;
  std::int64_t drain_ns = 0;
  std::int64_t p2p_ns = 0;

  std::int64_t total_ns() const { return warmup_ns + steady_ns + drain_ns + p2p_ns; }
};

struct RankMetrics {
  std::int64_t busy_ns = 0;
  std::int64_t first_start_ns = 0;
  std::int64_t last_end_ns = 0;
  Bubble bubble;
  std::int64_t peak_activation_chunks = 0;
  std::int64_t peak_activation_bytes = 0;

  std::int64_t span_ns() const { return last_end_ns - first_start_ns; }
};

struct CriticalPath {
  std::int64_t compute_ns = 0;
  std::int64_t p2p_ns = 0;
  std::int64_t other_ns = 0;
};

struct Metrics {
  std::int64_t makespan_ns = 0;
  int widest_rank = 0;  // the rank with the largest span, the lowest at a tie
  CriticalPath critical_path;
  std::vector<RankMetrics> ranks;

  double utilisation(int rank) const;  // busy / makespan
  double global_bubble() const;        // 1 - sum of busy / (ranks x makespan)
  double span_bubble() const;          // (span - busy) / span of the widest rank
  std::int64_t peak_activation_chunks() const;
  std::int64_t peak_activation_bytes() const;
};

class MetricsAccumulator {
 public:
  // `footprints`: one a virtual stage.
  MetricsAccumulator(int ranks, int microbatches, std::vector<StageFootprint> footprints);

  void add(const Span& span) {
    add(span.action, span.rank, span.start_ns, span.end_ns, span.input_sent_ns,
        span.input_arrival_ns);
  }
  // The same, from a span's parts.
  void add(const Action& action, std::int32_t rank_index, std::int64_t start_ns,
           std::int64_t end_ns, std::int64_t input_sent_ns, std::int64_t input_arrival_ns) {
    const Kind kind = action.kind;
    Rank& rank = ranks_[static_cast<std::size_t>(rank_index)];
    if (!is_compute(kind) && kind != Kind::OPTIMIZER && kind != Kind::REDUCE_GRAD) {
      // What its rank did before a SEND delays what waits for it.
      if (is_send(kind)) paths_[slot(action.stage, action.microbatch)] = rank.path;
      return;
    }
    const Work work{start_ns, end_ns, input_sent_ns, input_arrival_ns};
    if (action.joined || !joined_.empty()) [[unlikely]] {
      add_joined(rank, action, work);
      return;
    }
    occupy(rank, action, work);
    record(rank, action);
  }

  // Call once, after the last span.
  Metrics finish() const;

 private:
  // How the time up to some end is made up along the critical path to it; the
  // rest of that time is neither compute nor transfer.
  struct Path {
    std::int64_t compute_ns = 0;
    std::int64_t p2p_ns = 0;
  };

  struct Work {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::int64_t input_sent_ns;
    std::int64_t input_arrival_ns;
  };

  struct Rank {
    RankMetrics result;
    Path path;                    // to last_end_ns
    std::int64_t pending_ns = 0;  // idle since the last F: steady or drain
    std::int64_t chunks = 0;
    std::int64_t bytes = 0;
    bool started = false;
    bool backward_started = false;
  };

  std::size_t slot(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches_ + static_cast<std::size_t>(microbatch);
  }
  void add_joined(Rank& rank, Action action, Work work);
  void occupy(Rank& rank, const Action& waiting, const Work& work);
  void record(Rank& rank, const Action& action);

  std::size_t microbatches_;
  std::vector<StageFootprint> footprints_;
  std::vector<Rank> ranks_;
  // The path to the last action of (stage, microbatch), or to the SEND of its
  // result. F and the backward share a slot: the next stage's F reads the first
  // before this stage's backward, which depends on it, writes the second.
  LargeVector<Path> paths_;
  // The actions of the cell that is being added; they follow each other.
  std::vector<std::pair<Action, Work>> joined_;
};

// Accounts for the time of a cell and the idle time before it. `waiting` is
// the action of the cell whose input came last.
inline void MetricsAccumulator::occupy(Rank& rank, const Action& waiting, const Work& work) {
  RankMetrics& result = rank.result;
  const std::int64_t start = work.start_ns;
  const std::int64_t end = work.end_ns;
  const std::int64_t idle_from = result.last_end_ns;
  if (!rank.started) {
    rank.started = true;
    result.first_start_ns = start;
  }
  if (start > idle_from) {
    std::int64_t rest = start - idle_from;
    const std::int64_t arrival = std::min(work.input_arrival_ns, start);
    if (arrival > idle_from) {
      const std::int32_t producer = waiting.kind == Kind::F ? waiting.stage - 1 : waiting.stage + 1;
      rank.path = paths_[slot(producer, waiting.microbatch)];
      rank.path.p2p_ns += arrival - work.input_sent_ns;
      const std::int64_t in_flight = arrival - std::max(idle_from, work.input_sent_ns);
      result.bubble.p2p_ns += in_flight;
      rest -= in_flight;
    }
    (rank.backward_started ? rank.pending_ns : result.bubble.warmup_ns) += rest;
  }
  // Measured spans of one rank may touch or overlap by a clock's resolution:
  // only time that no earlier span covered counts.
  const std::int64_t fresh = std::max(end - std::max(start, idle_from), std::int64_t{0});
  result.busy_ns += fresh;
  result.last_end_ns = std::max(end, idle_from);
  if (is_compute(waiting.kind)) rank.path.compute_ns += fresh;
}

// Accounts for the memory that an action takes or frees, and for the path to
// its end.
inline void MetricsAccumulator::record(Rank& rank, const Action& action) {
  const Kind kind = action.kind;
  if (!is_compute(kind)) return;
  RankMetrics& result = rank.result;
  const MemoryChange change =
      memory_change(kind, footprints_[static_cast<std::size_t>(action.stage)]);
  rank.chunks += change.chunks;
  rank.bytes += change.bytes;
  result.peak_activation_chunks = std::max(result.peak_activation_chunks, rank.chunks);
  result.peak_activation_bytes = std::max(result.peak_activation_bytes, rank.bytes);
  if (kind == Kind::W) return;
  if (kind == Kind::F) {
    result.bubble.steady_ns += rank.pending_ns;
    rank.pending_ns = 0;
  } else {
    rank.backward_started = true;
  }
  Path* path = &paths_[slot(action.stage, action.microbatch)];
  *path = rank.path;
  prefetch_ahead(path, 8);
}

}  // namespace pipesim
