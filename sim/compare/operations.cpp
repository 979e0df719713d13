#include "sim/compare/operations.h"

#include <algorithm>
#include <span>
#include <utility>

#include "traces/collective_waits.h"
#include "traces/dependency.h"
#include "traces/joining.h"

namespace pipesim {
namespace {

bool by_key(const Action& a, const Action& b) { return ActionKey(a) < ActionKey(b); }
Action without_cell(const Action& action) {
  return make_action(action.stage, action.kind, action.microbatch);
}

class Joiner {
 public:
  Joiner(const RecordedRun& predicted, const RecordedIteration& predicted_iteration,
         const RecordedRun& measured, const RecordedIteration& measured_iteration)
      : runs_{&predicted, &measured},
        iterations_{&predicted_iteration, &measured_iteration},
        ranks_{predicted.ranks, measured.ranks},
        spans_{spans_of(predicted, predicted_iteration), spans_of(measured, measured_iteration)},
        indices_{SpanIndex(spans_[0]), SpanIndex(spans_[1])},
        stages_(static_cast<int>(
            std::max(predicted.chunk_of_stage.size(), measured.chunk_of_stage.size()))) {}

  Join join() {
    unite();
    for (const Side side : both_sides) {
      operations().follows[side] = iterations_[side]->follows;
      look_before(side);
      place(side);
    }
    merge_cells();
    for (const Side side : both_sides) connect(side);
    return std::move(result_);
  }

 private:
  static std::span<const Span> spans_of(const RecordedRun& run,
                                        const RecordedIteration& iteration) {
    return {run.spans.data() + iteration.begin, run.spans.data() + iteration.end};
  }

  // Fills in the operations of both, and counts spans.
  void unite() {
    const auto predicted = indices_[predicted_side].entries();
    const auto measured = indices_[measured_side].entries();
    for (const Side side : both_sides) {
      result_.counts.unmatched[side] = std::ssize(indices_[side].repeated());
    }
    auto& actions = operations().actions;
    std::vector<Action> received;  // the SENDs of RECVs
    std::size_t p = 0;
    std::size_t m = 0;
    while (p < predicted.size() || m < measured.size()) {
      const bool in_predicted =
          p < predicted.size() && (m == measured.size() || predicted[p].key <= measured[m].key);
      const bool in_measured =
          m < measured.size() && (p == predicted.size() || measured[m].key <= predicted[p].key);
      const Span& span = in_predicted ? spans_[predicted_side][predicted[p].place]
                                      : spans_[measured_side][measured[m].place];
      if (is_receive(span.action.kind)) {
        received.push_back(peer_of(span.action));
      } else if (!is_collective(span.action) && !is_save_beside(span.action)) {
        actions.push_back(without_cell(span.action));
      }
      if (in_predicted && in_measured) {
        ++result_.counts.matched;
      } else {
        ++result_.counts.unmatched[in_predicted ? predicted_side : measured_side];
      }
      p += in_predicted ? 1 : 0;
      m += in_measured ? 1 : 0;
    }
    // Most have their SEND already.
    const std::size_t known = actions.size();
    for (const Action& send : received) {
      if (!std::binary_search(actions.begin(), actions.begin() + static_cast<std::ptrdiff_t>(known),
                              send, by_key)) {
        actions.push_back(send);
      }
    }
    if (actions.size() > known) std::ranges::sort(actions, by_key);
    operations().opens_cell.resize(operations().size());
    for (const Side side : both_sides) operations().sides[side].resize(operations().size());
  }

  void look_before(Side side) {
    auto& ended_ns = operations().ended_before_ns[side];
    ended_ns.resize(static_cast<std::size_t>(ranks_[side]));
    const RecordedIteration* own = iterations_[side];
    if (!own->follows || own == &runs_[side]->iterations.front()) return;
    for (const Span& span : runs_[side]->spans_of(*(own - 1))) {
      if (is_communication(span.action)) continue;
      auto& ended = ended_ns[static_cast<std::size_t>(span.rank)];
      const std::int64_t end_ns = span.end_ns - own->start_ns;
      ended = std::max(ended.value_or(end_ns), end_ns);
    }
  }

  // Notes when each rank computed what, and in which order.
  void place(Side side) {
    auto& occurrences = operations().sides[side];
    auto& lists = operations().lists[side];
    lists.resize(static_cast<std::size_t>(ranks_[side]));
    slots_[side].resize(operations().size());
    const std::int64_t zero = iterations_[side]->start_ns;
    CollectiveWaits collectives;
    std::map<std::pair<std::int32_t, std::int32_t>, CollectiveWaits::Wait>
        reduced;  // by rank, stage
    for (const Span& span : spans_[side]) {
      if (is_transfer(span.action.kind) || is_save_beside(span.action)) continue;
      if (is_collective(span.action)) {
        const std::int64_t start_ns = span.start_ns - zero;
        auto& first = operations().first_collective_ns[side];
        first = std::min(first.value_or(start_ns), start_ns);
        collectives.add(span.action, span.rank, start_ns, span.end_ns - zero,
                        span.input_arrival_ns - zero);
        if (span.action.kind == Kind::REDUCE_GRAD) {
          reduced[{span.rank, span.action.stage}] = {start_ns, span.end_ns - zero, span.action};
        }
        continue;
      }
      const OperationId id = operations().find(span.action);
      Occurrence& own = occurrences[id];
      if (own.exists()) continue;
      own.rank = span.rank;
      own.start_ns = span.start_ns - zero;
      own.end_ns = span.end_ns - zero;
      own.preempted_ns = span.preempted_ns;
      if (!collectives.empty()) {
        if (const auto wait = collectives.take(span.action, span.rank)) await(own, *wait);
        // What makes gradients may have waited for the reduction of those before.
        const auto before = reduced.find({span.rank, span.action.stage});
        const bool makes = span.action.kind == Kind::B || span.action.kind == Kind::W;
        if (makes && before != reduced.end() && before->second.arrival_ns <= own.start_ns) {
          await(own, before->second);
        }
      }
      auto& list = lists[static_cast<std::size_t>(span.rank)];
      slots_[side][id] = list.size();
      list.push_back(id);
    }
  }

  static void await(Occurrence& own, const CollectiveWaits::Wait& wait) {
    if (own.awaits_collective() && own.collective_arrival_ns >= wait.arrival_ns) return;
    own.collective_since_ns = wait.since_ns;
    own.collective_arrival_ns = wait.arrival_ns;
    own.collective = wait.collective;
  }

  // A cell is one where either run has it as one and the other does its actions
  // one straight after the other, or has neither.
  void merge_cells() {
    for (const Side side : both_sides) {
      const Side other = side == predicted_side ? measured_side : predicted_side;
      for (std::size_t i = 0; i + 1 < spans_[side].size(); ++i) {
        const Action& first = spans_[side][i].action;
        const Action& second = spans_[side][i + 1].action;
        if (!first.joined || is_transfer(first.kind) || is_transfer(second.kind)) continue;
        const OperationId forward = operations().find(first);
        const OperationId backward = operations().find(second);
        if (operations().opens_cell[forward] || !follow(side, forward, backward)) continue;
        const auto& others = operations().sides[other];
        const bool absent = !others[forward].exists() && !others[backward].exists();
        if (!absent && !follow(other, forward, backward)) continue;
        operations().opens_cell[forward] = true;
        operations().backward_of[forward] = backward;
      }
    }
    for (const auto& [forward, backward] : operations().backward_of) {
      for (const Side side : both_sides) {
        Occurrence& first = operations().sides[side][forward];
        Occurrence& second = operations().sides[side][backward];
        if (!first.exists()) continue;
        second.end_ns = std::max(first.end_ns, second.end_ns);
        second.start_ns = first.end_ns = first.start_ns;
        second.preempted_ns += std::exchange(first.preempted_ns, 0);
      }
    }
  }

  // Whether a run's rank does the one and next the other.
  bool follow(Side side, OperationId first, OperationId second) const {
    const auto& occurrences = result_.operations.sides[side];
    const Occurrence& one = occurrences[first];
    if (!one.exists() || occurrences[second].rank != one.rank) return false;
    return slots_[side][second] == slots_[side][first] + 1;
  }

  // What each operation of one side needs from another rank, and how it came.
  void connect(Side side) {
    auto& occurrences = operations().sides[side];
    const std::int64_t zero = iterations_[side]->start_ns;
    for (OperationId id = 0; id < operations().size(); ++id) {
      Occurrence& own = occurrences[id];
      const Action& action = operations().actions[id];
      if (!own.exists() || !makes_result(action.kind)) continue;
      const OperationId producer = input_of(side, action);
      if (producer == no_operation || occurrences[producer].rank == own.rank) continue;
      own.input = result_of(producer);
      const Action receive = receive_for(action);
      const Span* sent = span_of(side, peer_of(receive));
      const Span* received = span_of(side, receive);
      if (sent == nullptr && received == nullptr) continue;
      const bool has_one_end = sent == nullptr || received == nullptr;
      if (sent == nullptr) sent = received;
      if (received == nullptr) received = sent;
      const OperationId transfer = operations().find(peer_of(receive));
      Occurrence& way = occurrences[transfer];
      way.has_one_end = has_one_end;
      way.rank = occurrences[producer].rank;
      way.to_rank = own.rank;
      way.input = result_of(producer);
      way.start_ns = received->start_ns - zero;
      way.end_ns = received->end_ns - zero;
      way.sent_ns = sent->start_ns - zero;
      own.input = transfer;
    }
  }

  // The operation at whose end the result of an action is there.
  OperationId result_of(OperationId action) const {
    const auto& cells = result_.operations.backward_of;
    const auto cell = cells.find(action);
    return cell == cells.end() ? action : cell->second;
  }

  // Of another stage, and there.
  OperationId input_of(Side side, const Action& action) const {
    const auto producer = producer_of(action, stages_);
    if (!producer || producer->stage == action.stage) return no_operation;
    for (const Kind kind : {producer->kind, Kind::I}) {
      const OperationId id =
          result_.operations.find(make_action(producer->stage, kind, producer->microbatch));
      if (id != no_operation && result_.operations.sides[side][id].exists()) return id;
      if (producer->kind != Kind::B) break;
    }
    return no_operation;
  }

  const Span* span_of(Side side, const Action& action) const {
    const auto place = indices_[side].find(action);
    return place ? &spans_[side][*place] : nullptr;
  }

  Operations& operations() { return result_.operations; }

  std::array<const RecordedRun*, 2> runs_;
  std::array<const RecordedIteration*, 2> iterations_;
  std::array<int, 2> ranks_;
  std::array<std::span<const Span>, 2> spans_;
  std::array<SpanIndex, 2> indices_;
  int stages_;                                     // of either run
  std::array<std::vector<std::size_t>, 2> slots_;  // of each operation in its rank's list
  Join result_;
};

}  // namespace

std::string Operations::list_name(std::size_t list) const {
  std::string name = "rank " + std::to_string(rank_of_list(list));
  if (!of_inputs()) return name;
  const auto stream = static_cast<InputStream>(list % input_stream_count);
  return name + " " + std::string(input_stream_name(stream));
}

std::string operation_name(const Action& operation) {
  if (!is_host_call(operation)) return to_text(operation);
  return "call " + to_text(input_action(input_kinds[operation.number], operation.microbatch));
}

OperationId Operations::find(const Action& action) const {
  const auto at = std::ranges::lower_bound(actions, action, by_key);
  if (at == actions.end() || ActionKey(*at) != ActionKey(action)) return no_operation;
  return static_cast<OperationId>(at - actions.begin());
}

Join join(const RecordedRun& predicted, const RecordedIteration& predicted_iteration,
          const RecordedRun& measured, const RecordedIteration& measured_iteration) {
  return Joiner(predicted, predicted_iteration, measured, measured_iteration).join();
}

}  // namespace pipesim
