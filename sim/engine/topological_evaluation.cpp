#include "sim/engine/topological_evaluation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/engine/collectives.h"
#include "sim/engine/merged_memory.h"
#include "sim/engine/tasks.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/turns.h"
#include "traces/base/large_vector.h"
#include "traces/base/prefetch.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

// `alone`: nothing takes time but actions, and the latencies of messages; they hold no stream, and
// have no buffers. Then ranks may go on in any order, each as far as it can.
template <bool alone>
class TopologicalEvaluation {
 public:
  TopologicalEvaluation(const Schedule& schedule, const Prepared& prepared, const SpanSink& sink)
      : schedule_(schedule),
        placement_(schedule.placement),
        costs_(prepared.costs),
        options_(prepared.options),
        sink_(sink),
        streams_(schedule.ranks(), lane_of(send_mode_of(options_.transfers.mode))),
        order_(schedule),
        footprints_(prepared.footprints),
        has_buffers_(!alone && exchanges_bytes(footprints_)),
        has_copies_(placement_.copies() > 1),
        sends_are_listed_(prepared.lists_transfers),
        ends_(schedule.ranks(), options_.iterations),
        ranks_(static_cast<std::size_t>(schedule.ranks())),
        memory_(has_buffers_ ? ranks_.size() : 0),
        senders_(ranks_.size()) {
    build_stages();
    tails_.resize(static_cast<std::size_t>(streams_.count()));
    for (const Kind kind : {Kind::REDUCE_TIED, Kind::GRAD_NORM}) {
      group(kind).ranks = group_of(kind, placement_);
      group(kind).missing = group(kind).ranks.size();
      group(kind).duration_ns = costs_.group_ns(kind, placement_);
    }
  }

  // Nothing if messages met on a link.
  std::optional<Metrics> run() {
    for (; iteration_ < options_.iterations; ++iteration_) {
      begin_iteration();
      const bool complete = order_.run([this](int rank, const Action* cell, std::size_t size) {
        constexpr std::uint32_t cells_a_look = 1 << 16;
        if (++cells_ % cells_a_look == 0 && options_.budget != nullptr) options_.budget->check();
        return !met_ && deal(rank, cell, size);
      });
      if (met_) return std::nullopt;
      if (!complete) throw_deadlock(schedule_);
      for (int rank = 0; rank < schedule_.ranks(); ++rank) {
        own(rank).account.path = tail(rank).path;
        ends_.add(rank, own(rank).account);
      }
    }
    Metrics metrics = ends_.finish();
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      memory_[rank].finish(footprints_, metrics.ranks[rank]);
    }
    return metrics;
  }

 private:
  // The end of what ran last on a stream, and the path to it.
  struct Tail {
    std::int64_t end_ns = 0;
    PathTimes path;
  };

  // The input of a (stage, microbatch): that of its F, and once F has run that of its backward.
  // All zero, as memory comes, where it has not been made yet.
  struct Input {
    bool is_there() const { return since_ns != 0; }
    std::int64_t usable_ns() const { return since_ns - 1; }
    void be_usable(std::int64_t time_ns) { since_ns = time_ns + 1; }
    void take() { since_ns = 0; }

    std::int64_t since_ns = 0;  // plus 1
    PathTimes path;             // to that
  };

  // The way of a stage's results to a neighbour.
  struct Edge {
    Input* inputs = nullptr;     // the consumer's, by microbatch
    std::int64_t flight_ns = 0;  // on the link, and the latency
    int to_rank = -1;            // -1 if there is no neighbour
    bool local = false;
    bool eager = false;
    int from_rank = -1;
    std::int32_t link = -1;  // of limited bandwidth
    std::uint32_t from_stream = 0, to_stream = 0;
    std::int64_t occupied_ns = 0;  // of the link
    std::int64_t bytes = 0;
  };

  // A copy of a stage; what every action reads comes first.
  struct Stage {
    Input* inputs = nullptr;                 // by microbatch
    const Edge* input_of_forward = nullptr;  // null: it needs none
    const Edge* input_of_backward = nullptr;
    std::array<std::int64_t, 4> duration_ns;  // of F, I, W, B
    Edge forward;                             // to the next stage
    Edge backward;                            // to the one before
    std::optional<std::int64_t> overlap_ns;   // of a cell that its F opens
  };

  struct Rank {
    RankAccount account;
    std::int64_t reductions = 0;  // REDUCE_GRAD actions of an iteration
    std::int64_t reduced = 0;     // of those, done
    bool in_group = false;        // has come to a blocking collective
    bool is_through = false;      // that is over, and the rank doesn't know yet
    bool begins = false;          // an iteration that is not the first
    std::size_t settle_at = 0;    // as many waiting events of its memory
  };

  // The ranks of a blocking collective.
  struct Group {
    std::vector<int> ranks;
    std::size_t missing = 0;
    std::int64_t duration_ns = 0;
  };

  Rank& own(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Tail& tail(int rank) { return tails_[static_cast<std::size_t>(rank)]; }
  Group& group(Kind blocking_collective) {
    return groups_[blocking_collective == Kind::REDUCE_TIED ? 0 : 1];
  }

  // ---- Stages and edges

  void build_stages() {
    const auto count = static_cast<std::size_t>(placement_.stages());
    const auto microbatches = static_cast<std::size_t>(schedule_.microbatches);
    inputs_.resize(count * microbatches);
    stages_.resize(count * static_cast<std::size_t>(placement_.copies()));
    for (int copy = 0; copy < placement_.copies(); ++copy) {
      Stage* const stages = stages_.data() + count * static_cast<std::size_t>(copy);
      for (std::size_t s = 0; s < count; ++s) {
        const StageCosts& costs = costs_.of(static_cast<int>(s), copy, placement_);
        stages[s].inputs = inputs_.data() + s * microbatches;
        stages[s].overlap_ns = costs.overlap_ns;
        for (const Kind kind : {Kind::F, Kind::I, Kind::W, Kind::B}) {
          stages[s].duration_ns[static_cast<std::size_t>(kind)] = costs.duration_ns(kind);
        }
      }
      for (int s = 0; s + 1 < placement_.stages(); ++s) {
        stages[s].forward = edge(s, s + 1, copy, stages[s + 1].inputs);
        stages[s + 1].backward = edge(s + 1, s, copy, stages[s].inputs);
        stages[s + 1].input_of_forward = &stages[s].forward;
        stages[s].input_of_backward = &stages[s + 1].backward;
      }
    }
  }

  Edge edge(int from, int to, int copy, Input* inputs) {
    Edge made;
    made.from_rank = placement_.rank_of(from, copy);
    made.to_rank = placement_.rank_of(to, copy);
    made.local = made.from_rank == made.to_rank;
    made.inputs = inputs;
    if (made.local) return made;
    const Link& link = costs_.link(made.from_rank, made.to_rank);
    made.bytes = costs_.of(std::min(from, to), copy, placement_).output_bytes;
    made.occupied_ns = costs_.occupied_ns(link, made.bytes);
    made.flight_ns = link.latency_ns + made.occupied_ns;
    const Action send = make_action(from, to > from ? Kind::SEND_F : Kind::SEND_B);
    made.eager = holds_streams() && is_eager(send, costs_, options_.transfers);
    if (made.eager) arrivals_ns_.resize(inputs_.size());
    const auto stream_of = [&](int owner) {
      return static_cast<std::uint32_t>(streams_.transfers(owner, made.from_rank, made.to_rank));
    };
    made.from_stream = stream_of(made.from_rank);
    made.to_stream = stream_of(made.to_rank);
    if (!alone && made.occupied_ns > 0) {
      const auto [at, is_new] = links_.try_emplace(
          {made.from_rank, made.to_rank}, static_cast<std::int32_t>(busy_until_ns_.size()));
      if (is_new) busy_until_ns_.push_back(0);
      made.link = at->second;
    }
    auto& senders = senders_[static_cast<std::size_t>(made.to_rank)];
    if (std::ranges::find(senders, made.from_rank) == senders.end()) {
      senders.push_back(made.from_rank);
    }
    return made;
  }

  const Stage& stage_of(const Action& action) const {
    const auto stage = static_cast<std::size_t>(action.stage);
    if (!has_copies_) [[likely]]
      return stages_[stage];
    const auto copy = static_cast<std::size_t>(placement_.copy_of(action.microbatch));
    return stages_[stage + copy * static_cast<std::size_t>(placement_.stages())];
  }

  // Whether a message holds streams of its ranks.
  bool holds_streams() const { return !alone && options_.transfers.mode != P2p::async; }

  // ---- Cells

  void begin_iteration() {
    if (iteration_ > 0) order_.begin(schedule_);
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      own(rank).reduced = 0;
      own(rank).reductions =
          std::ranges::count(schedule_.actions[rank], Kind::REDUCE_GRAD, &Action::kind);
      if (has_buffers_ && iteration_ > 0) own(rank).begins = true;
    }
  }

  // Plays a cell if all that it waits for has been played.
  bool deal(int rank, const Action* cell, std::size_t size) {
    if (is_compute(cell->kind)) [[likely]] {
      if (size == 1) return run_single(rank, *cell);
      return run_joined(rank, cell);
    }
    const bool steps = options_.accumulation.steps(iteration_, options_.iterations);
    if (!steps && is_of_step(cell->kind, options_.accumulation)) return true;
    if (is_blocking_collective(cell->kind)) return come_to(group(cell->kind), rank);
    if (cell->kind == Kind::REDUCE_GRAD && !costs_.reduce_gradients_ns.empty()) {
      Rank& of = own(rank);
      const std::int64_t total = costs_.reduce_gradients_ns[static_cast<std::size_t>(rank)];
      close(rank, *cell, tail(rank).end_ns, share_of(total, of.reductions, of.reduced++));
    } else if (is_transfer(cell->kind)) {
      for (const Action& transfer : std::span(cell, size)) {
        if (is_send(transfer.kind)) hand_over_listed(rank, transfer);
      }
    } else if (cell->kind == Kind::OPTIMIZER) {
      const auto& times = costs_.optimizer_ns;
      close(rank, *cell, tail(rank).end_ns,
            times.empty() ? 0 : times[static_cast<std::size_t>(rank)]);
    }
    return true;
  }

  static const Edge* input_edge(const Stage& stage, Kind kind) {
    if (kind == Kind::W) return nullptr;
    return kind == Kind::F ? stage.input_of_forward : stage.input_of_backward;
  }

  bool run_single(int rank, const Action& action) {
    const Stage& stage = stage_of(action);
    const Edge* edge = input_edge(stage, action.kind);
    Tail& own_tail = tail(rank);
    std::int64_t start = own_tail.end_ns;
    Wait wait;
    if (edge != nullptr) {
      Input& input = stage.inputs[action.microbatch];
      if (!input.is_there()) return false;
      start = std::max(start, input.usable_ns());
      if (!edge->local) wait.await(input, arrival_of(input, *edge), *edge, true);
      input.take();  // the backward's turn
      prefetch_ahead(&input, 3);
    }
    const std::int64_t end =
        start + varied(stage.duration_ns[static_cast<std::size_t>(action.kind)], action, rank);
    account(rank, start, end, wait);
    if (has_buffers_) meter(rank, {&action, 1}, start, end);
    pass(rank, action, wait, start, end, false);
    hand_over(stage, action, own_tail, false);
    return true;
  }

  // A forward and a backward in one cell: they start once both inputs are there, and both results
  // exist at the end.
  [[gnu::noinline]] bool run_joined(int rank, const Action* cell) {
    std::array<const Stage*, 2> stages;
    std::array<const Edge*, 2> edges;
    for (std::size_t i = 0; i < 2; ++i) {
      stages[i] = &stage_of(cell[i]);
      edges[i] = input_edge(*stages[i], cell[i].kind);
      if (edges[i] != nullptr && !stages[i]->inputs[cell[i].microbatch].is_there()) {
        return false;
      }
    }
    std::int64_t start = tail(rank).end_ns;
    std::int64_t duration = 0;
    Wait wait;
    std::array<Wait, 2> waits;  // of each for its own input
    for (std::size_t i = 0; i < 2; ++i) {
      duration +=
          varied(stages[i]->duration_ns[static_cast<std::size_t>(cell[i].kind)], cell[i], rank);
      if (edges[i] == nullptr) continue;
      Input& input = stages[i]->inputs[cell[i].microbatch];
      start = std::max(start, input.usable_ns());
      if (!edges[i]->local) {
        for (Wait* one : {&wait, &waits[i]})
          one->await(input, arrival_of(input, *edges[i]), *edges[i], cell[i].kind == Kind::F);
      }
      input.take();
    }
    if (stages[0]->overlap_ns) duration = varied(*stages[0]->overlap_ns, cell[0], rank);
    const std::int64_t end = start + duration;
    account(rank, start, end, wait);
    if (has_buffers_) meter(rank, {cell, 2}, start, end);
    for (std::size_t i = 0; i < 2; ++i) pass(rank, cell[i], waits[i], start, end, i == 0);
    const Tail at_end = tail(rank);
    for (std::size_t i = 0; i < 2; ++i) hand_over(*stages[i], cell[i], at_end, false);
    return true;
  }

  std::int64_t varied(std::int64_t duration_ns, const Action& action, int rank) const {
    if (options_.jitter == nullptr) [[likely]]
      return duration_ns;
    Action numbered = action;
    numbered.microbatch += iteration_ * schedule_.microbatches;
    return options_.jitter->applied(numbered, rank, duration_ns);
  }

  // What a cell waits for from other ranks.
  struct Wait {
    // The message that arrived last.
    bool exists = false;
    std::int64_t sent_ns = 0;
    std::int64_t arrival_ns = 0;
    // The path to the one that could be used last; at a tie the forward's.
    std::int64_t usable_ns = -1;
    PathTimes path;

    void await(const Input& input, std::int64_t own_arrival_ns, const Edge& edge, bool is_forward) {
      if (!exists || own_arrival_ns > arrival_ns) {
        exists = true;
        arrival_ns = own_arrival_ns;
        sent_ns = own_arrival_ns - edge.flight_ns;
      }
      const std::int64_t own_ns = input.usable_ns();
      if (own_ns > usable_ns || (is_forward && own_ns == usable_ns)) {
        usable_ns = own_ns;
        path = input.path;
      }
    }
  };

  // The path to a cell's start leads along its stream, or else along its input.
  void account(int rank, std::int64_t start, std::int64_t end, const Wait& wait) {
    Tail& own_tail = tail(rank);
    PathTimes path = wait.exists && own_tail.end_ns != start ? wait.path : own_tail.path;
    path.compute_ns +=
        own(rank).account.occupy({start, end, wait.sent_ns, wait.arrival_ns}).fresh_ns;
    own_tail = {end, path};
  }

  void pass(int rank, const Action& action, const Wait& wait, std::int64_t start, std::int64_t end,
            bool joined) {
    RankAccount& own_account = own(rank).account;
    own_account.pass(action.kind);
    if (!has_buffers_) own_account.memory.step(action, footprint(action.stage), start, end);
    if (sink_) [[unlikely]]
      emit_compute(rank, action, {start, end, wait.sent_ns, wait.arrival_ns}, joined);
  }

  [[gnu::noinline, gnu::cold]] void emit_compute(int rank, Action action, RankAccount::Work work,
                                                 bool joined) {
    action.joined = joined;
    sink_({action, rank, iteration_, work.start_ns, work.end_ns, work.input_sent_ns,
           work.input_arrival_ns, 0});
  }

  const StageFootprint& footprint(int stage) const {
    return footprints_[static_cast<std::size_t>(stage)];
  }

  // ---- Memory

  void meter(int rank, std::span<const Action> cell, std::int64_t start, std::int64_t end) {
    MergedMemory& memory = memory_[static_cast<std::size_t>(rank)];
    if (std::exchange(own(rank).begins, false)) memory.begin_iteration(iteration_, start);
    for (const Action& action : cell) memory.add_compute({start, action, false});
    for (const Action& action : cell) memory.add_compute({end, action, true});
    settle(rank, memory);
  }

  // Every so often: whatever comes before the end of all that the rank and those that send to it
  // have done.
  void settle(int rank, MergedMemory& memory) {
    if (memory.waiting() < own(rank).settle_at) return;
    std::int64_t until = tail(rank).end_ns;
    for (const int sender : senders_[static_cast<std::size_t>(rank)]) {
      until = std::min(until, tail(sender).end_ns);
    }
    memory.settle(until, footprints_);
    constexpr std::size_t at_once = 64;
    own(rank).settle_at = 2 * memory.waiting() + at_once;
  }

  // ---- Transfers

  // Passes a result on to the stage that needs it, as a SEND in the list does if there are any.
  [[gnu::always_inline]] void hand_over(const Stage& stage, const Action& action, const Tail& made,
                                        bool is_listed) {
    if (action.kind == Kind::W) return;
    const Edge& edge = action.kind == Kind::F ? stage.forward : stage.backward;
    if (edge.to_rank < 0) return;
    if (sends_are_listed_ && !edge.local && !is_listed) return;
    Input& input = edge.inputs[action.microbatch];
    prefetch_ahead(&input, 3);
    if (edge.local) {
      input.be_usable(made.end_ns);
    } else {
      send(edge, action, made, input);
    }
    order_.wake(edge.to_rank);
  }

  [[gnu::noinline]] void hand_over_listed(int rank, const Action& send) {
    const Kind producer = send.kind == Kind::SEND_F ? Kind::F : Kind::B;
    const Action made = make_action(send.stage, producer, send.microbatch);
    hand_over(stage_of(made), made, tail(rank), true);
  }

  void send(const Edge& edge, const Action& producer, const Tail& made, Input& input) {
    std::int64_t sent = made.end_ns;
    PathTimes path = made.path;
    Tail* const from = holds_streams() ? &tails_[edge.from_stream] : nullptr;
    Tail* const to = holds_streams() ? &tails_[edge.to_stream] : nullptr;
    if (from != nullptr) {
      // At a tie the path leads along the producer, the sender's stream, the receiver's.
      sent = std::max(sent, from->end_ns);
      if (!edge.eager) sent = std::max(sent, to->end_ns);
      if (sent != made.end_ns || options_.transfers.mode == P2p::blocking) {
        path = sent == from->end_ns ? from->path : to->path;
      }
    }
    if (!alone && edge.link >= 0) occupy(edge, sent);
    const std::int64_t arrival = sent + edge.flight_ns;
    std::int64_t usable = arrival;
    if (from != nullptr && edge.eager) *from = {sent, path};
    path.p2p_ns += edge.flight_ns;
    if (from != nullptr && edge.eager) {
      // The RECV ends once its stream has come to it, too.
      if (to->end_ns >= arrival) {
        usable = to->end_ns;
        path = to->path;
      }
      *to = {usable, path};
      arrivals_ns_[static_cast<std::size_t>(&input - inputs_.data())] = arrival;
    } else if (from != nullptr) {
      *from = *to = {arrival, path};
    }
    input.be_usable(usable);
    input.path = path;
    if (has_buffers_ || sink_) [[unlikely]]
      note_transfer(edge, producer, sent, arrival);
  }

  // A RECV may come to a message only after it has arrived.
  std::int64_t arrival_of(const Input& input, const Edge& edge) const {
    if (alone || !edge.eager) [[likely]]
      return input.usable_ns();
    return arrivals_ns_[static_cast<std::size_t>(&input - inputs_.data())];
  }

  // A message has its link to itself, or the whole evaluation is void.
  void occupy(const Edge& edge, std::int64_t sent) {
    std::int64_t& busy_until = busy_until_ns_[static_cast<std::size_t>(edge.link)];
    if (sent < busy_until) met_ = true;
    busy_until = sent + edge.occupied_ns;
  }

  [[gnu::noinline]] void note_transfer(const Edge& edge, const Action& producer, std::int64_t sent,
                                       std::int64_t arrival) {
    const Action send = send_of(producer);
    const Action receive = peer_of(send);
    if (has_buffers_ && edge.bytes > 0) {
      memory_[static_cast<std::size_t>(edge.from_rank)].add_transfer(
          {arrival, send, true, iteration_});
      memory_[static_cast<std::size_t>(edge.to_rank)].add_transfer(
          {sent, receive, false, iteration_});
    }
    if (!sink_) return;
    const std::int64_t bytes = alone ? 0 : edge.bytes;
    sink_({send, edge.from_rank, iteration_, sent, arrival, 0, 0, bytes});
    sink_({receive, edge.to_rank, iteration_, sent, arrival, 0, 0, bytes});
  }

  // ---- The end of an iteration

  [[gnu::noinline]] void close(int rank, const Action& action, std::int64_t start,
                               std::int64_t duration) {
    Tail& own_tail = tail(rank);
    RankAccount& account = own(rank).account;
    account.close(action.kind, account.occupy({start, start + duration, 0, 0}).fresh_ns);
    own_tail.end_ns = start + duration;
    if (sink_) sink_({action, rank, iteration_, start, start + duration, 0, 0, 0});
  }

  // The last rank to come closes for all, and wakes the others, which come again.
  [[gnu::noinline]] bool come_to(Group& group, int rank) {
    if (std::exchange(own(rank).is_through, false)) return true;
    if (std::exchange(own(rank).in_group, true)) return false;
    if (--group.missing > 0) return false;
    std::int64_t start = 0;
    for (const int one : group.ranks) start = std::max(start, tail(one).end_ns);
    const auto last =
        std::ranges::find(group.ranks, start, [&](int one) { return tail(one).end_ns; });
    const PathTimes path = tail(*last).path;
    for (const int one : group.ranks) {
      if (tail(one).end_ns < start) tail(one).path = path;
      close(one, order_.next_of(one), start, group.duration_ns);
      own(one).in_group = false;
      if (one == rank) continue;
      own(one).is_through = true;
      order_.wake(one);
    }
    group.missing = group.ranks.size();
    return true;
  }

  const Schedule& schedule_;
  const Placement& placement_;
  const Costs& costs_;
  const SimulationOptions& options_;
  const SpanSink& sink_;
  Streams streams_;
  std::conditional_t<alone, Runs, Turns> order_;
  const std::vector<StageFootprint>& footprints_;
  bool has_buffers_;
  bool has_copies_;        // of stages
  bool sends_are_listed_;  // only if alone
  int iteration_ = 0;
  bool met_ = false;  // messages, on a link: nothing more is played
  std::uint32_t cells_ = 0;
  IterationEnds ends_;
  std::vector<Rank> ranks_;
  std::vector<MergedMemory> memory_;       // by rank, where messages have buffers
  std::vector<std::vector<int>> senders_;  // by rank that receives
  std::vector<Tail> tails_;                // by stream; a rank's compute has its number
  std::vector<Stage> stages_;              // [copy][stage]
  LargeVector<Input> inputs_;              // [stage][microbatch]
  LargeVector<std::int64_t> arrivals_ns_;  // likewise, of eager messages
  std::array<Group, 2> groups_;
  std::map<std::pair<int, int>, std::int32_t> links_;  // by ranks: an index in the next
  std::vector<std::int64_t> busy_until_ns_;
};

}  // namespace

Metrics evaluate_alone(const Schedule& schedule, const Prepared& prepared) {
  return *TopologicalEvaluation<true>(schedule, prepared, prepared.options.sink).run();
}

std::optional<Metrics> evaluate_topologically(const Schedule& schedule, const Prepared& prepared) {
  if (prepared.evaluation == Evaluation::alone) return evaluate_alone(schedule, prepared);
  const SpanSink none;
  // Spans must not be told of an evaluation that turns out void.
  auto metrics = TopologicalEvaluation<false>(schedule, prepared, none).run();
  const SpanSink& sink = prepared.options.sink;
  if (metrics && sink) TopologicalEvaluation<false>(schedule, prepared, sink).run();
  return metrics;
}

}  // namespace pipesim
