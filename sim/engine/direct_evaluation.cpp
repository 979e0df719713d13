#include "sim/engine/direct_evaluation.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/schedule/deadlock.h"
#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

constexpr std::int64_t never = -1;

// Ranks advance one after the other, each as far as its inputs allow; a rank that must wait is
// resumed by the one that produces its input. Every action is visited once. Applies if transfers
// are asynchronous, slow nothing down, and do not share links.
class DirectEvaluation {
 public:
  DirectEvaluation(const Schedule& schedule, const Prepared& prepared)
      : schedule_(schedule),
        costs_(prepared.costs),
        iterations_(prepared.options.iterations),
        microbatches_(schedule.microbatches / iterations_),
        jitter_(prepared.options.jitter),
        sink_(prepared.options.sink),
        ends_(schedule.ranks(), iterations_),
        metrics_(schedule.ranks(), schedule.microbatches, prepared.footprints),
        sends_are_listed_(schedule.has_transfers()),
        has_copies_(schedule.placement.copies() > 1),
        ranks_(static_cast<std::size_t>(schedule.ranks())) {
    build_stages();
    build_ranks();
    build_groups();
  }

  Metrics run() {
    std::vector<int> runnable;
    for (int rank = schedule_.ranks() - 1; rank >= 0; --rank) runnable.push_back(rank);
    while (!runnable.empty()) {
      const int rank = runnable.back();
      runnable.pop_back();
      advance(rank, runnable);
    }
    for (const Rank& rank : ranks_) {
      if (rank.iteration < iterations_) throw_deadlock(schedule_);
    }
    return ends_.finish();
  }

 private:
  struct Rank {
    const Action* next = nullptr;  // the first action still to run
    const Action* end = nullptr;   // of its iteration
    int iteration = 0;
    std::int64_t now_ns = 0;
    const std::int64_t* awaited = nullptr;  // the arrival that it is stuck on
    std::int64_t reductions = 0;            // REDUCE_GRAD actions of an iteration
    std::int64_t reduced = 0;               // of those, done
  };

  // The route of a stage's results to a neighbour.
  struct Edge {
    int to_rank = -1;  // -1 if there is no neighbour
    bool local = false;
    std::int64_t flight_ns = 0;
    std::int64_t* arrival_ns = nullptr;  // the consumer's, by microbatch
  };

  // All data of a copy of a stage, in one place.
  struct Stage {
    std::array<std::int64_t, 4> duration_ns;  // of F, I, W, B
    // When the input of each microbatch arrives: that of its F, and once F has run that of its
    // backward.
    std::int64_t* arrival_ns = nullptr;
    const Edge* forward_input = nullptr;  // the edge that it arrives by, or null
    const Edge* backward_input = nullptr;
    Edge forward;                            // to the next stage
    Edge backward;                           // to the previous one
    std::optional<std::int64_t> overlap_ns;  // of a cell that its F opens
  };

  void build_stages() {
    const auto& placement = schedule_.placement;
    const auto count = static_cast<std::size_t>(schedule_.stages());
    const auto microbatches = static_cast<std::size_t>(schedule_.microbatches);
    arrival_ns_.assign(count * microbatches, never);
    stages_.resize(count * static_cast<std::size_t>(placement.copies()));
    for (int copy = 0; copy < placement.copies(); ++copy) {
      Stage* const stages = stages_.data() + count * static_cast<std::size_t>(copy);
      const auto connect = [&](int from, int to) {
        Edge edge;
        const int from_rank = placement.rank_of(from, copy);
        edge.to_rank = placement.rank_of(to, copy);
        edge.local = edge.to_rank == from_rank;
        edge.arrival_ns = stages[to].arrival_ns;
        if (edge.local) return edge;
        const Link& link = costs_.link(from_rank, edge.to_rank);
        const std::int64_t bytes = costs_.of(std::min(from, to), copy, placement).output_bytes;
        edge.flight_ns = link.latency_ns + costs_.occupied_ns(link, bytes);
        return edge;
      };
      for (std::size_t s = 0; s < count; ++s) {
        const StageCosts& costs = costs_.of(static_cast<int>(s), copy, placement);
        stages[s].arrival_ns = arrival_ns_.data() + s * microbatches;
        stages[s].overlap_ns = costs.overlap_ns;
        for (const Kind kind : {Kind::F, Kind::I, Kind::W, Kind::B}) {
          stages[s].duration_ns[static_cast<std::size_t>(kind)] = costs.duration_ns(kind);
        }
      }
      for (int s = 0; s < schedule_.stages(); ++s) {
        for (const Kind kind : {Kind::F, Kind::B}) {
          const int to = output_stage(make_action(s, kind));
          if (to < 0 || to == schedule_.stages()) continue;
          Edge& edge = kind == Kind::F ? stages[s].forward : stages[s].backward;
          edge = connect(s, to);
          (kind == Kind::F ? stages[to].forward_input : stages[to].backward_input) = &edge;
        }
      }
    }
  }

  // The stage of an action.
  const Stage& stage_of(const Action& action) const {
    const auto stage = static_cast<std::size_t>(action.stage);
    if (!has_copies_) [[likely]]
      return stages_[stage];
    const Placement& placement = schedule_.placement;
    const auto copy = static_cast<std::size_t>(placement.copy_of(action.microbatch));
    return stages_[stage + copy * static_cast<std::size_t>(placement.stages())];
  }

  void build_ranks() {
    for (int index = 0; index < schedule_.ranks(); ++index) {
      Rank& rank = ranks_[static_cast<std::size_t>(index)];
      const auto list = schedule_.actions[index];
      rank.next = list.data();
      rank.end = list.data() + actions_of(index);
      if (costs_.reduce_gradients_ns.empty()) continue;
      rank.reductions =
          std::ranges::count(list.last(actions_of(index)), Kind::REDUCE_GRAD, &Action::kind);
    }
  }

  // Per iteration.
  std::size_t actions_of(int rank) const {
    return schedule_.actions[rank].size() / static_cast<std::size_t>(iterations_);
  }

  void advance(int rank_index, std::vector<int>& runnable) {
    Rank& rank = ranks_[static_cast<std::size_t>(rank_index)];
    while (advance_in_iteration(rank_index, rank, runnable)) {
      ends_.add(rank_index, metrics_.account(rank_index));
      if (++rank.iteration == iterations_) return;
      rank.end += actions_of(rank_index);
      rank.reduced = 0;
    }
  }

  // Advances as far as possible; returns whether to the iteration's end.
  bool advance_in_iteration(int rank_index, Rank& rank, std::vector<int>& runnable) {
    const Action* const end = rank.end;
    const Action* cell = rank.next;
    for (; cell != end; ++cell) {
      if (is_compute(cell->kind)) {
        if (cell->joined) [[unlikely]] {
          if (!run_joined(rank_index, rank, cell, runnable)) break;
          ++cell;
        } else {
          Input input;
          if (!find_input(rank, *cell, input)) break;
          const std::int64_t start = std::max(rank.now_ns, input.time_ns);
          const std::int64_t finish = start + duration_of(*cell);
          run(rank_index, rank, *cell, input, start, finish);
          hand_over(rank_index, *cell, finish, runnable);
        }
      } else if (is_send(cell->kind)) {
        const Stage& stage = stage_of(*cell);
        const bool forward = cell->kind == Kind::SEND_F;
        metrics_.add(*cell, rank_index, rank.now_ns, rank.now_ns, 0, 0);
        send(rank_index, forward ? stage.forward : stage.backward, *cell, forward, rank.now_ns,
             runnable);
      } else if (cell->kind == Kind::REDUCE_GRAD) {
        reduce(rank_index, rank, *cell);
      } else if (cell->kind == Kind::OPTIMIZER && !costs_.optimizer_ns.empty()) {
        add_closing(rank_index, rank, *cell,
                    costs_.optimizer_ns[static_cast<std::size_t>(rank_index)]);
      } else if (is_blocking_collective(cell->kind)) {
        rank.next = cell;
        if (!come_to(group(cell->kind), rank_index, runnable)) return false;
      }
    }
    rank.next = cell;
    // Other ranks run first; by then these cache lines would be evicted.
    prefetch_ahead(cell, 16);
    return cell == end;
  }

  // An action's input from another stage: when it arrives, and the edge that it arrives by, null if
  // it needs none.
  struct Input {
    std::int64_t time_ns = 0;
    const Edge* edge = nullptr;
  };

  // Returns false, and marks the rank as waiting, if it has not been produced yet.
  bool find_input(Rank& rank, const Action& action, Input& input) {
    const Stage& stage = stage_of(action);
    if (action.kind == Kind::W) return true;
    input.edge = action.kind == Kind::F ? stage.forward_input : stage.backward_input;
    if (input.edge == nullptr) return true;
    const std::int64_t* arrival = stage.arrival_ns + action.microbatch;
    input.time_ns = *arrival;
    if (input.time_ns != never) return true;
    rank.awaited = arrival;
    return false;
  }

  [[gnu::always_inline]] void run(int rank_index, Rank& rank, const Action& action,
                                  const Input& input, std::int64_t start, std::int64_t finish) {
    const Stage& stage = stage_of(action);
    std::int64_t sent = 0;
    std::int64_t arrival = 0;
    if (input.edge != nullptr) {
      stage.arrival_ns[action.microbatch] = never;  // the backward's turn
      prefetch_ahead(stage.arrival_ns + action.microbatch, 16);
      if (!input.edge->local) {
        arrival = input.time_ns;
        sent = arrival - input.edge->flight_ns;
      }
    }
    rank.now_ns = finish;
    add(action, rank_index, start, finish, sent, arrival);
  }

  // Passes the result of a compute action on, unless a SEND is listed for it.
  [[gnu::always_inline]] void hand_over(int rank_index, const Action& action, std::int64_t finish,
                                        std::vector<int>& runnable) {
    if (action.kind == Kind::W) return;
    const Stage& stage = stage_of(action);
    const bool forward = action.kind == Kind::F;
    const Edge& edge = forward ? stage.forward : stage.backward;
    if (edge.to_rank < 0 || (sends_are_listed_ && !edge.local)) return;
    send(rank_index, edge, action, forward, finish, runnable);
  }

  void add(const Action& action, int rank_index, std::int64_t start, std::int64_t finish,
           std::int64_t sent, std::int64_t arrival) {
    metrics_.add(action, rank_index, start, finish, sent, arrival);
    if (sink_) [[unlikely]]
      emit({action, rank_index, 0, start, finish, sent, arrival, 0});
  }

  // A forward and a backward in one cell: they start once both inputs have arrived, and both
  // results exist at the end.
  bool run_joined(int rank_index, Rank& rank, const Action* cell, std::vector<int>& runnable) {
    std::array<Input, 2> inputs;
    for (std::size_t i = 0; i < 2; ++i) {
      if (!find_input(rank, cell[i], inputs[i])) return false;
    }
    const std::int64_t start = std::max({rank.now_ns, inputs[0].time_ns, inputs[1].time_ns});
    const auto& overlap_ns = stage_of(*cell).overlap_ns;
    const std::int64_t finish = start + (overlap_ns ? varied(*overlap_ns, *cell)
                                                    : duration_of(cell[0]) + duration_of(cell[1]));
    for (std::size_t i = 0; i < 2; ++i) run(rank_index, rank, cell[i], inputs[i], start, finish);
    for (std::size_t i = 0; i < 2; ++i) hand_over(rank_index, cell[i], finish, runnable);
    return true;
  }

  std::int64_t duration_of(const Action& action) const {
    static_assert(static_cast<int>(Kind::F) == 0 && static_cast<int>(Kind::B) == 3);
    return varied(stage_of(action).duration_ns[static_cast<std::size_t>(action.kind)], action);
  }
  std::int64_t varied(std::int64_t duration_ns, const Action& action) const {
    if (jitter_ == nullptr) [[likely]]
      return duration_ns;
    return jitter_->applied(action, schedule_.placement.rank_of(action), duration_ns);
  }

  // Off the hot path. Actions without microbatch belong to their rank's iteration.
  [[gnu::noinline, gnu::cold]] void emit(Span span) {
    if (takes_microbatch(span.action.kind)) {
      span.iteration = span.action.microbatch / microbatches_;
      span.action.microbatch %= microbatches_;
    } else {
      span.iteration = ranks_[static_cast<std::size_t>(span.rank)].iteration;
    }
    sink_(span);
  }

  // Hands the result of (producer.stage, producer.microbatch) to the
  // neighbour at the other end of `edge`, from `start` on.
  [[gnu::always_inline]] void send(int from_rank, const Edge& edge, const Action& producer,
                                   bool forward, std::int64_t start, std::vector<int>& runnable) {
    std::int64_t arrival = start;
    if (!edge.local) {
      arrival += edge.flight_ns;
      if (sink_) [[unlikely]] {
        const Kind kind = forward ? Kind::SEND_F : Kind::SEND_B;
        const Action action = make_action(producer.stage, kind, producer.microbatch);
        emit({action, from_rank, 0, start, arrival, 0, 0, 0});
        emit({peer_of(action), edge.to_rank, 0, start, arrival, 0, 0, 0});
      }
    }
    std::int64_t* at = edge.arrival_ns + producer.microbatch;
    *at = arrival;
    Rank& receiver = ranks_[static_cast<std::size_t>(edge.to_rank)];
    if (receiver.awaited == at) {
      receiver.awaited = nullptr;
      runnable.push_back(edge.to_rank);
    }
  }

  void add_closing(int rank_index, Rank& rank, const Action& action, std::int64_t duration) {
    const std::int64_t start = rank.now_ns;
    rank.now_ns += duration;
    add(action, rank_index, start, rank.now_ns, 0, 0);
  }

  // The ranks of a blocking collective, and how many of them it still waits for.
  struct Group {
    std::vector<int> ranks;
    std::size_t missing = 0;
    std::int64_t duration_ns = 0;
  };

  void build_groups() {
    for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
      Group& own = group(kind);
      own.ranks = group_of(kind, schedule_.placement);
      own.missing = own.ranks.size();
      own.duration_ns = costs_.group_ns(kind, schedule_.placement);
    }
  }
  Group& group(Kind blocking_collective) {
    return groups_[blocking_collective == Kind::REDUCE_TIED ? 0 : 1];
  }

  // The last rank to arrive does it for all, and the others continue. Returns whether this rank is
  // the last.
  bool come_to(Group& group, int rank_index, std::vector<int>& runnable) {
    if (--group.missing > 0) return false;
    group.missing = group.ranks.size();
    std::int64_t start = 0;
    for (const int index : group.ranks) start = std::max(start, rank_at(index).now_ns);
    const auto last =
        std::ranges::find(group.ranks, start, [&](int index) { return rank_at(index).now_ns; });
    const PathTimes path = metrics_.account(*last).path;
    for (const int index : group.ranks) {
      Rank& rank = rank_at(index);
      const Action& action = *rank.next;
      if (rank.now_ns < start) metrics_.follow(index, path);
      rank.now_ns = start + group.duration_ns;
      add(action, index, start, rank.now_ns, 0, 0);
      if (index == rank_index) continue;
      ++rank.next;
      runnable.push_back(index);
    }
    return true;
  }

  Rank& rank_at(int index) { return ranks_[static_cast<std::size_t>(index)]; }

  void reduce(int rank_index, Rank& rank, const Action& action) {
    if (costs_.reduce_gradients_ns.empty()) return;
    const std::int64_t total = costs_.reduce_gradients_ns[static_cast<std::size_t>(rank_index)];
    add_closing(rank_index, rank, action, share_of(total, rank.reductions, rank.reduced++));
  }

  const Schedule& schedule_;
  const Costs& costs_;
  int iterations_;
  std::int32_t microbatches_;  // of an iteration
  const Jitter* jitter_;       // or null
  const SpanSink& sink_;
  IterationEnds ends_;
  MetricsAccumulator metrics_;
  bool sends_are_listed_;
  bool has_copies_;  // of stages
  std::vector<Rank> ranks_;
  std::array<Group, 2> groups_;
  std::vector<Stage> stages_;             // [copy][stage]
  LargeVector<std::int64_t> arrival_ns_;  // [stage][microbatch]
};

}  // namespace

Metrics evaluate_directly(const Schedule& program, const Prepared& prepared) {
  return DirectEvaluation(program, prepared).run();
}

}  // namespace pipesim
