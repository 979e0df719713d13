// Every reported number, computed from a stream of spans (see METRICS.md).
//
// What a rank does is accounted for as it is produced, by an evaluation as it runs or from a stored
// timeline, and never stored: a RankAccount is of constant size. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "traces/memory.h"
#include "traces/timeline.h"

namespace pipesim {

// Idle time of a rank within the makespan, by cause; see METRICS.md.
struct Bubble {
  std::int64_t warmup_ns = 0;
  std::int64_t steady_ns = 0;
  std::int64_t drain_ns = 0;
  std::int64_t p2p_ns = 0;

  std::int64_t total_ns() const { return warmup_ns + steady_ns + drain_ns + p2p_ns; }
  // As BubbleKind (bubbles.h) counts.
  std::array<std::int64_t, 4> by_kind() const { return {warmup_ns, steady_ns, drain_ns, p2p_ns}; }
};

// Times of a rank's gradient reduction, norm, optimizer step and save, by kind.
class ClosingTimes {
 public:
  std::int64_t& of(Kind closing) { return ns_[at(closing)]; }
  std::int64_t of(Kind closing) const { return ns_[at(closing)]; }

 private:
  static std::size_t at(Kind closing) {
    return static_cast<std::size_t>(closing) - static_cast<std::size_t>(Kind::REDUCE_GRAD);
  }
  static_assert(static_cast<int>(Kind::SAVE) - static_cast<int>(Kind::REDUCE_GRAD) == 4);

  std::array<std::int64_t, 5> ns_{};  // REDUCE_GRAD, REDUCE_TIED, GRAD_NORM, OPTIMIZER, SAVE
};

struct RankMetrics {
  std::int64_t busy_ns = 0;
  std::int64_t first_start_ns = 0;
  std::int64_t last_end_ns = 0;
  Bubble bubble;
  std::int64_t peak_activation_chunks = 0;
  std::int64_t peak_activation_bytes = 0;
  MemoryPeak peak_memory;
  ClosingTimes closing;  // part of busy_ns

  std::int64_t span_ns() const { return last_end_ns - first_start_ns; }
};

struct CriticalPath {
  std::int64_t compute_ns = 0;
  std::int64_t p2p_ns = 0;
  std::int64_t other_ns = 0;
};

struct Metrics {
  std::int64_t makespan_ns = 0;
  // With several iterations, all else describes the first: when each ended.
  std::vector<std::int64_t> iteration_ends_ns;
  int widest_rank = 0;  // the rank with the largest span, the lowest at a tie
  CriticalPath critical_path;
  std::vector<RankMetrics> ranks;

  // The time of each further iteration: from the last end of the last but one to that of the
  // last; for a single one, the makespan. If several are one step, the mean of the last ones,
  // rounded down.
  std::int64_t steady_iteration_ns(int passes = 1) const;
  double utilisation(int rank) const;  // busy / makespan
  double global_bubble() const;        // 1 - sum of busy / (ranks x makespan)
  double span_bubble() const;          // (span - busy) / span of the widest rank
  std::int64_t peak_activation_chunks() const;
  std::int64_t peak_activation_bytes() const;
};

// How the time up to some end is made up along the critical path to it; the
// rest of that time is neither compute nor transfer.
struct PathTimes {
  std::int64_t compute_ns = 0;
  std::int64_t p2p_ns = 0;
};

// What one rank did so far: its times by cause, and its memory. Fed with its
// compute and closing actions in order, by producers or readers of spans.
class RankAccount {
 public:
  // What happened between two instants on the rank, one cell at a time;
  // `input_sent_ns` and `input_arrival_ns` as in a Span.
  struct Work {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::int64_t input_sent_ns;
    std::int64_t input_arrival_ns;
    bool awaits_collective = false;  // of its rank: that is the input
  };
  struct Outcome {
    bool waited_for_input;   // its arrival ended an idle time
    std::int64_t fresh_ns;   // the part of the work's time that no earlier work covered
    std::int64_t flight_ns;  // the part of that idle time in which it was in flight
  };

  // Accounts for the time of a cell and the idle time before it.
  Outcome occupy(const Work& work);
  // Then, for each compute action of the cell: it decides what counts as steady or drain.
  void pass(Kind kind);
  // Or, for closing actions, with the outcome's time.
  void close(Kind kind, std::int64_t fresh_ns) { times_.closing.of(kind) += fresh_ns; }

  // The rank's metrics in an iteration of this length.
  RankMetrics finish(std::int64_t makespan_ns) const;

  std::int64_t last_end_ns() const { return times_.last_end_ns; }

  PathTimes path;  // to last_end_ns, kept by the account's owner
  MemoryMeter memory;

 private:
  RankMetrics times_;
  std::int64_t pending_ns_ = 0;  // idle since the last F: steady or drain
  bool started_ = false;
  bool backward_started_ = false;
};

// The metrics of an iteration from its ranks' accounts.
Metrics summarise(const std::vector<RankAccount>& ranks);

// The metrics of the first of several iterations, and when each ended, from continuing
// accounts. One owner, one thread.
class IterationEnds {
 public:
  IterationEnds(int ranks, int iterations)
      : first_(static_cast<std::size_t>(ranks)),
        done_(first_.size()),
        ends_ns_(static_cast<std::size_t>(iterations)) {}

  // Call when a rank has finished its next iteration, and not begun the one after.
  void add(int rank, const RankAccount& account) {
    const auto r = static_cast<std::size_t>(rank);
    if (done_[r] == 0) first_[r] = account;
    std::int64_t& end_ns = ends_ns_[done_[r]++];
    end_ns = std::max(end_ns, account.last_end_ns());
  }
  // Call once each rank has finished all.
  Metrics finish() const;

 private:
  std::vector<RankAccount> first_;
  std::vector<std::size_t> done_;  // iterations, by rank
  std::vector<std::int64_t> ends_ns_;
};

// For one iteration's spans, sorted by start, whose transfers hold no stream and no buffers; their
// times count from `origin_ns`, the first start of an action other than a transfer. They give no
// memory except chunks. On the critical path a collective counts for as long as its rank stood
// still for it.
Metrics measure(std::span<const Span> spans, int ranks, int stages, int microbatches,
                std::int64_t origin_ns = 0);

// The index of the median; for an even number, the lower of the two in the middle.
std::size_t median_of(const std::vector<std::int64_t>& values);

inline RankAccount::Outcome RankAccount::occupy(const Work& work) {
  const std::int64_t start = work.start_ns;
  const std::int64_t idle_from = times_.last_end_ns;
  Outcome outcome{false, 0, 0};
  if (!started_) {
    started_ = true;
    times_.first_start_ns = start;
  }
  if (start > idle_from) {
    std::int64_t rest = start - idle_from;
    const std::int64_t arrival = std::min(work.input_arrival_ns, start);
    outcome.waited_for_input = arrival > idle_from;
    if (outcome.waited_for_input) {
      // Clocks that disagree may have it arrive before it was sent.
      outcome.flight_ns =
          std::max(arrival - std::max(idle_from, work.input_sent_ns), std::int64_t{0});
      times_.bubble.p2p_ns += outcome.flight_ns;
      rest -= outcome.flight_ns;
    }
    (backward_started_ ? pending_ns_ : times_.bubble.warmup_ns) += rest;
  }
  // Measured spans of one rank may touch or overlap by a clock's resolution:
  // only time that no earlier span covered counts.
  outcome.fresh_ns = std::max(work.end_ns - std::max(start, idle_from), std::int64_t{0});
  times_.busy_ns += outcome.fresh_ns;
  times_.last_end_ns = std::max(work.end_ns, idle_from);
  return outcome;
}

inline void RankAccount::pass(Kind kind) {
  if (kind == Kind::F) {
    times_.bubble.steady_ns += pending_ns_;
    pending_ns_ = 0;
  } else if (is_backward(kind)) {
    backward_started_ = true;
  }
}

}  // namespace pipesim
