#include "sim/engine/task_table.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using Work = TaskTable::Work;
using Row = TaskTable::Row;

class Builder {
 public:
  Builder(const Schedule& schedule, const Costs& costs, const Transfers& transfers)
      : placement_(schedule.placement),
        costs_(costs),
        mode_(transfers.mode),
        eager_limit_bytes_(transfers.eager_limit_bytes),
        sends_are_listed_(schedule.has_transfers()) {
    table_.stages = schedule.stages();
    table_.shift = std::bit_width(static_cast<unsigned>(schedule.microbatches) - 1U);
    table_.rows.resize(static_cast<std::size_t>(table_.stages) * TaskTable::work_count);
    // Numbers of closing tasks follow those of the table.
    if (table_.size() + static_cast<std::size_t>(schedule.actions.size()) >= std::size_t{1} << 31) {
      throw input_error(fmt::format("{} x {} are more than the event engine can number; use fewer",
                                    plural(schedule.stages(), "virtual stage"),
                                    plural(schedule.microbatches, "microbatch")));
    }
    table_.streams = static_cast<std::size_t>(schedule.ranks());  // one for compute a rank
    if (mode_ == P2p::fifo) table_.streams *= 2;
  }

  TaskTable build() {
    for (const SharedLink& link : costs_.shared_links)
      table_.links.push_back(link.bytes_per_second);
    for (int stage = 0; stage < table_.stages; ++stage) {
      const StageCosts& costs = costs_.stages[static_cast<std::size_t>(stage)];
      compute(Work::forward, stage).duration_ns = {costs.forward_ns, costs.forward_ns};
      compute(Work::backward, stage).duration_ns = {costs.backward_input_ns, costs.backward_ns()};
      compute(Work::weight, stage).duration_ns = {costs.backward_weight_ns,
                                                  costs.backward_weight_ns};
    }
    for (int stage = 0; stage + 1 < table_.stages; ++stage) {
      // The gradient that travels back has the size of what came forward.
      const std::int64_t bytes = costs_.stages[static_cast<std::size_t>(stage)].output_bytes;
      connect(stage, stage + 1, bytes);
      connect(stage + 1, stage, bytes);
    }
    return std::move(table_);
  }

 private:
  Row& row(Work work, int stage) { return table_.rows[table_.row_of(work, stage)]; }

  Row& compute(Work work, int stage) {
    Row& own = row(work, stage);
    own.work = work;
    own.stage = stage;
    own.rank = placement_.rank_of(stage);
    own.streams[0] = static_cast<StreamId>(own.rank);
    return own;
  }

  // The end of `from` signals `to`.
  void signals(Work from, int from_stage, Work to, int to_stage) {
    row(from, from_stage).successor = static_cast<std::int32_t>(table_.row_of(to, to_stage));
    row(to, to_stage).needs_signal = true;
  }

  // The way of a stage's result to its neighbour.
  void connect(int from, int to, std::int64_t bytes) {
    const bool forward = to > from;
    const Work producer = forward ? Work::forward : Work::backward;
    const Work consumer = producer;
    const int from_rank = placement_.rank_of(from);
    const int to_rank = placement_.rank_of(to);
    if (from_rank == to_rank) {
      signals(producer, from, consumer, to);
      return;
    }
    row(consumer, to).has_input = true;
    row(producer, from).consumer = to;
    const auto end_of_transfer = [&](Work work, int stage) -> Row& {
      Row& own = row(work, stage);
      own.work = work;
      own.stage = stage;
      own.rank = placement_.rank_of(stage);
      own.consumer = to;
      return own;
    };
    const Work transfer_work = forward ? Work::transfer_forward : Work::transfer_backward;
    Row& transfer = end_of_transfer(transfer_work, from);
    const Link& link = costs_.link(from_rank, to_rank);
    transfer.to_rank = to_rank;
    transfer.latency_ns = link.latency_ns;
    transfer.bytes = bytes;
    transfer.route = route(from_rank, to_rank, link);

    const StreamId sender = stream_for(from_rank, from_rank, to_rank);
    const StreamId receiver = stream_for(to_rank, from_rank, to_rank);
    // Whether the compute stream itself brings a SEND after its producer and
    // a consumer after its RECV.
    const bool by_list = mode_ == P2p::blocking || (mode_ == P2p::async && sends_are_listed_);
    const bool eager = mode_ != P2p::async && bytes < eager_limit_bytes_;
    if (mode_ != P2p::async && !eager) {
      transfer.streams = {sender, receiver};
      if (!by_list) {
        signals(producer, from, transfer_work, from);
        signals(transfer_work, from, consumer, to);
      }
      return;
    }
    if (mode_ == P2p::async && !sends_are_listed_) {
      signals(producer, from, transfer_work, from);
      signals(transfer_work, from, consumer, to);
      return;
    }
    const Work send_work = forward ? Work::send_forward : Work::send_backward;
    end_of_transfer(send_work, from).streams[0] = sender;
    if (!by_list) signals(producer, from, send_work, from);
    signals(send_work, from, transfer_work, from);
    if (!eager) {
      signals(transfer_work, from, consumer, to);
      return;
    }
    const Work receive_work = forward ? Work::receive_forward : Work::receive_backward;
    end_of_transfer(receive_work, to).streams[0] = receiver;
    signals(transfer_work, from, receive_work, to);
    if (!by_list) signals(receive_work, to, consumer, to);
  }

  StreamId stream_for(int owner, int from_rank, int to_rank) {
    if (mode_ == P2p::fifo) return static_cast<StreamId>(placement_.ranks() + owner);
    if (mode_ != P2p::edge_fifo) return static_cast<StreamId>(owner);
    const auto [at, is_new] = edge_ends_.emplace(std::tuple(owner, from_rank, to_rank),
                                                 static_cast<StreamId>(table_.streams));
    if (is_new) ++table_.streams;
    return at->second;
  }

  // A link of the edge's own where its bandwidth is limited, and those it shares.
  std::int32_t route(int from_rank, int to_rank, const Link& link) {
    std::vector<LinkId> links;
    if (link.bytes_per_second) {
      const auto [at, is_new] = own_links_.emplace(std::pair(from_rank, to_rank),
                                                   static_cast<LinkId>(table_.links.size()));
      if (is_new) table_.links.push_back(*link.bytes_per_second);
      links.push_back(at->second);
    }
    for (const int shared : link.through) links.push_back(static_cast<LinkId>(shared));
    if (links.empty()) return -1;
    table_.routes.push_back(std::move(links));
    return static_cast<std::int32_t>(table_.routes.size() - 1);
  }

  const Placement& placement_;
  const Costs& costs_;
  P2p mode_;
  std::int64_t eager_limit_bytes_;
  bool sends_are_listed_;
  TaskTable table_;
  std::map<std::tuple<int, int, int>, StreamId> edge_ends_;  // (owner, sender, receiver)
  std::map<std::pair<int, int>, LinkId> own_links_;
};

}  // namespace

bool is_eager(const Action& send, const Costs& costs, const Transfers& transfers) {
  const int first = send.kind == Kind::SEND_F ? send.stage : send.stage - 1;
  return costs.stages[static_cast<std::size_t>(first)].output_bytes < transfers.eager_limit_bytes;
}

TaskTable make_task_table(const Schedule& schedule, const Costs& costs,
                          const Transfers& transfers) {
  return Builder(schedule, costs, transfers).build();
}

}  // namespace pipesim
