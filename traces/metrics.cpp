#include "traces/metrics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "traces/collective_waits.h"
#include "traces/dependency.h"

namespace pipesim {

RankMetrics RankAccount::finish(std::int64_t makespan_ns) const {
  RankMetrics result = times_;
  result.bubble.drain_ns += pending_ns_ + makespan_ns - result.last_end_ns;
  result.peak_activation_chunks = memory.peak_chunks();
  result.peak_activation_bytes = memory.peak_activation_bytes();
  result.peak_memory = memory.peak();
  return result;
}

Metrics summarise(const std::vector<RankAccount>& ranks) {
  Metrics metrics;
  if (ranks.empty()) return metrics;
  const RankAccount& last = *std::ranges::max_element(ranks, {}, &RankAccount::last_end_ns);
  metrics.makespan_ns = last.last_end_ns();
  metrics.iteration_ends_ns = {metrics.makespan_ns};
  metrics.critical_path = {last.path.compute_ns, last.path.p2p_ns,
                           metrics.makespan_ns - last.path.compute_ns - last.path.p2p_ns};
  metrics.ranks.reserve(ranks.size());
  for (const RankAccount& rank : ranks) {
    metrics.ranks.push_back(rank.finish(metrics.makespan_ns));
    const auto& widest = metrics.ranks[static_cast<std::size_t>(metrics.widest_rank)];
    if (metrics.ranks.back().span_ns() > widest.span_ns()) {
      metrics.widest_rank = static_cast<int>(metrics.ranks.size()) - 1;
    }
  }
  return metrics;
}

Metrics IterationEnds::finish() const {
  Metrics metrics = summarise(first_);
  metrics.iteration_ends_ns = ends_ns_;
  return metrics;
}

std::int64_t Metrics::steady_iteration_ns(int passes) const {
  const auto count = std::ssize(iteration_ends_ns);
  if (count < 2) return makespan_ns;
  const std::int64_t last = std::min<std::int64_t>(passes, count);
  const auto end_ns = iteration_ends_ns.end();
  return (end_ns[-1] - (last < count ? end_ns[-1 - last] : 0)) / last;
}

double Metrics::utilisation(int rank) const {
  if (makespan_ns == 0) return 0;
  return static_cast<double>(ranks[static_cast<std::size_t>(rank)].busy_ns) /
         static_cast<double>(makespan_ns);
}

double Metrics::global_bubble() const {
  // Summed in long double: ranks x makespan may exceed 64 bits.
  long double busy = 0;
  for (const RankMetrics& rank : ranks) busy += static_cast<long double>(rank.busy_ns);
  const long double available =
      static_cast<long double>(makespan_ns) * static_cast<long double>(ranks.size());
  return available == 0 ? 0 : static_cast<double>((available - busy) / available);
}

double Metrics::span_bubble() const {
  if (ranks.empty()) return 0;
  const RankMetrics& widest = ranks[static_cast<std::size_t>(widest_rank)];
  if (widest.span_ns() == 0) return 0;
  return static_cast<double>(widest.span_ns() - widest.busy_ns) /
         static_cast<double>(widest.span_ns());
}

std::int64_t Metrics::peak_activation_chunks() const {
  std::int64_t peak = 0;
  for (const RankMetrics& rank : ranks) peak = std::max(peak, rank.peak_activation_chunks);
  return peak;
}

std::int64_t Metrics::peak_activation_bytes() const {
  std::int64_t peak = 0;
  for (const RankMetrics& rank : ranks) peak = std::max(peak, rank.peak_activation_bytes);
  return peak;
}

namespace {

// Accounts for a run's spans; each SEND comes before what follows it on its rank.
class RunAccounts {
 public:
  RunAccounts(int ranks, int stages, int microbatches)
      : microbatches_(static_cast<std::size_t>(microbatches)),
        ranks_(static_cast<std::size_t>(ranks)),
        paths_(static_cast<std::size_t>(stages) * microbatches_) {}

  void add(const Span& span) {
    const Action& action = span.action;
    RankAccount& rank = ranks_[static_cast<std::size_t>(span.rank)];
    if (!is_compute(action.kind) && !is_closing(action)) {
      // What its rank did before a SEND delays what waits for it; not what it began before and does
      // besides, as a GPU may.
      if (is_send(action.kind) && rank.last_end_ns() <= span.start_ns) {
        path_of(action.stage, action.microbatch) = rank.path;
      }
      return;
    }
    add(rank, action, {span.start_ns, span.end_ns, span.input_sent_ns, span.input_arrival_ns});
  }
  // The same for a rank that waits for its own collective, as for an input.
  void add_awaiting(const Span& span, const CollectiveWaits::Wait& wait) {
    add(ranks_[static_cast<std::size_t>(span.rank)], span.action,
        {span.start_ns, span.end_ns, wait.since_ns, wait.arrival_ns, true});
  }
  // The path to the rank's last end is that of another rank, which arrived last at a common action.
  void follow(int rank, const PathTimes& path) {
    ranks_[static_cast<std::size_t>(rank)].path = path;
  }

  const RankAccount& account(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Metrics finish() const { return summarise(ranks_); }

 private:
  using Work = RankAccount::Work;

  void add(RankAccount& rank, const Action& action, const Work& work) {
    cell_.emplace_back(action, work);
    if (action.joined) return;
    const auto waiting = std::ranges::max_element(
        cell_, {}, [](const auto& part) { return part.second.input_arrival_ns; });
    occupy(rank, waiting->first, waiting->second);
    for (const auto& part : cell_) record(rank, part.first, part.second);
    cell_.clear();
  }

  // `waiting` is the action of the cell whose input came last.
  void occupy(RankAccount& rank, const Action& waiting, const Work& work) {
    const RankAccount::Outcome outcome = rank.occupy(work);
    if (outcome.waited_for_input && work.awaits_collective) {
      rank.path.p2p_ns += outcome.flight_ns;
    } else if (outcome.waited_for_input) {
      follow_input(rank, path_of(input_stage(waiting), waiting.microbatch), work);
    }
    if (is_compute(waiting.kind)) {
      rank.path.compute_ns += outcome.fresh_ns;
    } else if (waiting.kind != Kind::IDLE) {
      rank.close(waiting.kind, outcome.fresh_ns);
    }
  }

  // The path to the work leads along its input. If clocks contradict each other, what made the
  // input may end after it arrived: then the path leads along the rank.
  static void follow_input(RankAccount& rank, const PathTimes& to_input, const Work& work) {
    const std::int64_t arrival = std::min(work.input_arrival_ns, work.start_ns);
    const std::int64_t left = arrival - to_input.compute_ns - to_input.p2p_ns;
    if (left < 0) return;
    rank.path = to_input;
    rank.path.p2p_ns += std::clamp(arrival - work.input_sent_ns, std::int64_t{0}, left);
  }

  // Accounts for the chunks that an action allocates or frees, and for the path to its end.
  void record(RankAccount& rank, const Action& action, const Work& work) {
    if (!is_compute(action.kind)) return;
    rank.pass(action.kind);
    rank.memory.step(action, StageFootprint(), work.start_ns, work.end_ns);
    if (action.kind != Kind::W) path_of(action.stage, action.microbatch) = rank.path;
  }

  PathTimes& path_of(std::int32_t stage, std::int32_t microbatch) {
    return paths_[static_cast<std::size_t>(stage) * microbatches_ +
                  static_cast<std::size_t>(microbatch)];
  }

  std::size_t microbatches_;
  std::vector<RankAccount> ranks_;
  // The path to the last action of (stage, microbatch), or to the SEND of its
  // result. F and the backward share one: the next stage's F reads the first
  // before this stage's backward, which depends on it, writes the second.
  std::vector<PathTimes> paths_;
  std::vector<std::pair<Action, Work>> cell_;  // that is being added; its actions follow each other
};

// The ways to the blocking collectives of an iteration: by the rank that came last, the
// lowest of several that came straight from their work.
class GroupPaths {
 public:
  explicit GroupPaths(std::span<const Span> spans) {
    for (const Span& span : spans) {
      if (is_blocking_collective(span.action.kind)) of(span).ranks.insert(span.rank);
    }
  }

  // Before a rank's part is accounted for: the path to it, unless that is the rank's own.
  const PathTimes* to(const Span& span, CollectiveWaits& collectives, const RunAccounts& metrics) {
    Group& group = of(span);
    if (!group.is_met) {
      group.is_met = true;
      for (const int rank : group.ranks) {
        const Coming own = coming(span.action, rank, collectives, metrics);
        const bool is_later = own.at_ns > group.last.at_ns ||
                              (own.at_ns == group.last.at_ns && group.last.waited && !own.waited);
        if (is_later) group.last = own;
      }
    }
    const Coming own = coming(span.action, span.rank, collectives, metrics);
    // Unless clocks contradict each other, none ends before the last has come.
    const bool leads = own.at_ns < group.last.at_ns && group.last.at_ns <= span.end_ns;
    return leads ? &group.last.path : nullptr;
  }

 private:
  // When a rank came, the path to that, and whether it waited for a collective of its own.
  struct Coming {
    std::int64_t at_ns = -1;
    PathTimes path;
    bool waited = false;
  };
  struct Group {
    std::set<int> ranks;
    bool is_met = false;
    Coming last;
  };

  static Coming coming(const Action& action, int rank, CollectiveWaits& collectives,
                       const RunAccounts& metrics) {
    const RankAccount& account = metrics.account(rank);
    Coming own{account.last_end_ns(), account.path, false};
    const auto wait = collectives.empty() ? std::nullopt : collectives.take(action, rank);
    if (!wait || wait->arrival_ns <= own.at_ns) return own;
    own.path.p2p_ns += wait->arrival_ns - std::max(own.at_ns, wait->since_ns);
    own.at_ns = wait->arrival_ns;
    own.waited = true;
    return own;
  }
  Group& of(const Span& span) { return groups_[span.action.kind == Kind::REDUCE_TIED ? 0 : 1]; }

  std::array<Group, 2> groups_;
};

}  // namespace

Metrics measure(std::span<const Span> spans, int ranks, int stages, int microbatches,
                std::int64_t origin_ns) {
  RunAccounts metrics(ranks, stages, microbatches);
  CollectiveWaits collectives;
  GroupPaths groups(spans);
  for (Span span : spans) {
    if (is_save_beside(span.action)) continue;
    if (span.has_input()) span.input_sent_ns -= origin_ns;
    if (span.has_input() || is_collective(span.action)) span.input_arrival_ns -= origin_ns;
    span.start_ns -= origin_ns;
    span.end_ns -= origin_ns;
    if (is_collective(span.action)) {
      collectives.add(span.action, span.rank, span.start_ns, span.end_ns, span.input_arrival_ns);
      continue;
    }
    const PathTimes* const path =
        is_blocking_collective(span.action.kind) ? groups.to(span, collectives, metrics) : nullptr;
    const auto wait = collectives.empty() ? std::nullopt : collectives.take(span.action, span.rank);
    if (wait && wait->arrival_ns > span.input_arrival_ns) {
      metrics.add_awaiting(span, *wait);
    } else {
      metrics.add(span);
    }
    if (path != nullptr) metrics.follow(span.rank, *path);
  }
  // What ends with collectives ends with the last of them.
  for (std::int32_t rank = 0; !collectives.empty() && rank < ranks; ++rank) {
    const auto wait = collectives.take(Action(), rank);
    if (!wait || wait->arrival_ns <= metrics.account(rank).last_end_ns()) continue;
    metrics.add_awaiting({Action(), rank, 0, wait->arrival_ns, wait->arrival_ns, 0, 0, 0}, *wait);
  }
  return metrics.finish();
}

std::size_t median_of(const std::vector<std::int64_t>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>((order.size() - 1) / 2);
  std::ranges::nth_element(order, middle, {},
                           [&](std::size_t i) { return std::pair(values[i], i); });
  return *middle;
}

}  // namespace pipesim
