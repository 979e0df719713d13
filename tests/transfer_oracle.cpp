#include "tests/transfer_oracle.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace pipesim::oracle {
namespace {

using TransferKey = std::tuple<int, Kind, int>;

TransferKey key(const Action& a) { return {a.stage, a.kind, a.microbatch}; }

struct Stream {
  std::vector<std::vector<Action>> cells;
  std::size_t at = 0;
  std::int64_t free_from = 0;  // for the cell at the head
  std::map<TransferKey, std::int64_t>
      done;  // of its actions: when the stream was through with them

  bool shows(const Action& a) const {
    return at < cells.size() && std::ranges::count(cells[at], a) > 0 && !done.contains(key(a));
  }
  void complete(const Action& a, std::int64_t time) {
    done[key(a)] = time;
    if (done.size() < cells[at].size()) return;
    for (const auto& [unused, end] : done) free_from = std::max(free_from, end);
    done.clear();
    ++at;
  }
};

class TransferInterpreter {
 public:
  TransferInterpreter(const Schedule& program, const Costs& costs, const Transfers& transfers)
      : program_(program), costs_(costs), transfers_(transfers) {
    for (int r = 0; r < program.ranks(); ++r) {
      joined_ = false;
      for (const Action& a : program.actions[r]) {
        if (a.kind == Kind::IDLE) continue;
        Stream& stream = streams_[name_of(r, a)];
        const bool side_by_side =
            joined_ && (is_compute(a.kind) || transfers.mode != P2p::edge_fifo);
        if (!side_by_side) stream.cells.emplace_back();
        stream.cells.back().push_back(a);
        joined_ = a.joined;
        stream.cells.back().back().joined = false;
      }
    }
  }

  std::optional<Times> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [name, stream] : streams_) moved = step(stream) || moved;
    }
    for (const auto& [name, stream] : streams_) {
      if (stream.at < stream.cells.size()) return std::nullopt;
    }
    return times_;
  }

 private:
  // When all that an action is said to wait for has ended; nothing where some has not.
  std::optional<std::int64_t> awaited(const Action& a) const {
    std::int64_t latest = 0;
    for (const Dependency& dependency : program_.dependencies) {
      if (key(dependency.action) != key(a)) continue;
      const Action& other = dependency.awaited;
      const Action send = is_receive(other.kind) ? peer_of(other) : other;
      const auto found = times_.find(key(send));
      if (found == times_.end()) return std::nullopt;
      std::int64_t end = found->second.second;
      if (is_transfer(other.kind) && is_eager(send)) {
        if (is_send(other.kind)) {
          end = found->second.first;
        } else {
          const auto there =
              ready_.find({other.stage, other.kind == Kind::RECV_F, other.microbatch});
          if (there == ready_.end()) return std::nullopt;
          end = there->second;
        }
      }
      latest = std::max(latest, end);
    }
    return latest;
  }

  bool is_eager(const Action& send) const {
    const int first = std::min(send.stage, peer_of(send).stage);
    return costs_.stages[static_cast<std::size_t>(first)].output_bytes <
           transfers_.eager_limit_bytes;
  }

  bool is_of_second_copy(const Action& a) const {
    const Placement& placement = program_.placement;
    const int each = placement.copies() == 2 ? placement.microbatches() : 0;  // an iteration
    return each > 0 && a.microbatch % each >= each / 2;
  }
  int rank_of(const Action& a) const {
    const Placement& placement = program_.placement;
    const auto at = static_cast<std::size_t>(a.stage);
    return is_of_second_copy(a) ? placement.rank_of_second()[at] : placement.rank_of_stage()[at];
  }
  const StageCosts& costs_of(const Action& a) const {
    const int stages = program_.stages();
    const bool own = std::ssize(costs_.stages) > stages && is_of_second_copy(a);
    return costs_.stages[static_cast<std::size_t>(own ? stages + a.stage : a.stage)];
  }

  // "2:" is rank 2's compute, "2:c" its transfers, "2:0>2" its end of an edge.
  std::string name_of(int rank, const Action& a) const {
    const std::string own = std::to_string(rank) + ":";
    if (!is_transfer(a.kind) || transfers_.mode == P2p::blocking) return own;
    if (transfers_.mode == P2p::fifo) return own + "c";
    const int peer = rank_of(peer_of(a));
    const int from = is_send(a.kind) ? rank : peer;
    return own + std::to_string(from) + ">" + std::to_string(from == rank ? peer : rank);
  }

  bool step(Stream& stream) {
    if (stream.at == stream.cells.size()) return false;
    const std::vector<Action> cell = stream.cells[stream.at];
    if (!is_transfer(cell[0].kind)) return compute(stream, cell);
    bool moved = false;
    const std::size_t at = stream.at;
    for (const Action& a : cell) {
      if (stream.at == at && stream.shows(a)) moved = transfer(stream, a) || moved;
    }
    return moved;
  }

  bool compute(Stream& stream, const std::vector<Action>& cell) {
    std::int64_t start = stream.free_from;
    std::int64_t length = 0;
    for (const Action& a : cell) {
      const auto others = awaited(a);
      if (!others) return false;
      start = std::max(start, *others);
      const StageCosts& stage = costs_of(a);
      if (a.kind == Kind::F) length += stage.forward_ns + stage.forward_messages_ns;
      if (is_backward(a.kind)) length += stage.backward_input_ns + stage.backward_messages_ns;
      if (a.kind == Kind::W || a.kind == Kind::B) length += stage.backward_weight_ns;
      const int from = a.kind == Kind::F ? a.stage - 1 : a.stage + 1;
      if (a.kind == Kind::W || from < 0 || from == program_.stages()) continue;
      const auto input = ready_.find({a.stage, a.kind == Kind::F, a.microbatch});
      if (input == ready_.end()) return false;
      start = std::max(start, input->second);
    }
    if (cell.size() == 2) {
      length = costs_of(cell[0]).overlap_ns.value_or(length);
    }
    for (const Action& a : cell) {
      times_[key(a)] = {start, start + length};
      if (a.kind == Kind::W) continue;
      result_[{a.stage, a.kind == Kind::F, a.microbatch}] = start + length;
      const int to = a.kind == Kind::F ? a.stage + 1 : a.stage - 1;
      if (to < 0 || to == program_.stages()) continue;
      if (rank_of(make_action(to, a.kind, a.microbatch)) == rank_of(a)) {
        ready_[{to, a.kind == Kind::F, a.microbatch}] = start + length;
      }
    }
    for (const Action& a : cell) stream.complete(a, start + length);
    return true;
  }

  bool transfer(Stream& stream, const Action& a) {
    const Action send = is_send(a.kind) ? a : peer_of(a);
    const Action receive = peer_of(send);
    const bool forward = send.kind == Kind::SEND_F;
    const std::tuple<int, bool, int> input{receive.stage, forward, receive.microbatch};
    const std::int64_t bytes =
        costs_.stages[static_cast<std::size_t>(std::min(send.stage, receive.stage))].output_bytes;
    const Link& link = costs_.link(rank_of(send), rank_of(receive));
    std::int64_t length = link.latency_ns;
    if (link.bytes_per_second) {
      length += (bytes * 1'000'000'000 + *link.bytes_per_second - 1) / *link.bytes_per_second;
    }
    const auto result = result_.find({send.stage, forward, send.microbatch});
    const auto others = awaited(send);
    if (is_eager(send)) {
      if (is_send(a.kind)) {
        if (result == result_.end() || !others) return false;
        const std::int64_t start = std::max({stream.free_from, result->second, *others});
        times_[key(send)] = {start, start + length};
        stream.complete(a, start);
      } else {
        const auto sent = times_.find(key(send));
        if (sent == times_.end()) return false;
        ready_[input] = std::max(stream.free_from, sent->second.second);
        stream.complete(a, ready_[input]);
      }
      return true;
    }
    Stream& other = streams_[name_of(is_send(a.kind) ? rank_of(receive) : rank_of(send),
                                     is_send(a.kind) ? receive : send)];
    if (!other.shows(peer_of(a)) || result == result_.end() || !others) return false;
    const std::int64_t start =
        std::max({stream.free_from, other.free_from, result->second, *others});
    times_[key(send)] = {start, start + length};
    ready_[input] = start + length;
    stream.complete(a, start + length);
    other.complete(peer_of(a), start + length);
    return true;
  }

  const Schedule& program_;
  const Costs& costs_;
  const Transfers& transfers_;
  std::map<std::string, Stream> streams_;
  bool joined_ = false;  // the action before, with the next one
  Times times_;
  // By stage, forward or backward, microbatch: when a result exists, and when
  // an input can be used.
  std::map<std::tuple<int, bool, int>, std::int64_t> result_, ready_;
};

}  // namespace

std::optional<Times> run_with_transfers(const Schedule& program, const Costs& costs,
                                        const Transfers& transfers) {
  return TransferInterpreter(program, costs, transfers).run();
}

}  // namespace pipesim::oracle
