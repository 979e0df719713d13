#include "tests/replica_oracle.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace pipesim::oracle {
namespace {

std::int64_t ceil_of(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// One rank, until something that it needs is not known.
class ReplicaRank {
 public:
  ReplicaRank(const Schedule& schedule, const Costs& costs, int rank, ReplicaTimes& times)
      : schedule_(schedule), costs_(costs), rank_(rank), times_(times) {}

  // Whether it got any further.
  bool advance() {
    const auto list = schedule_.actions[rank_];
    const std::size_t before = next_;
    while (next_ < list.size()) {
      const Action& action = list[next_];
      const StageCosts& stage = costs_.stages[static_cast<std::size_t>(action.stage)];
      const std::size_t size = action.joined ? 2 : 1;
      if (is_compute(action.kind)) {
        if (!compute(list.subspan(next_, size))) break;
      } else if (action.kind == Kind::UNSHARD && stage.unshard.exists()) {
        gather(action.stage, stage.unshard);
      } else if (action.kind == Kind::RESHARD) {
        gathered_.erase(action.stage);
      } else if (action.kind == Kind::REDUCE_GRAD && stage.reduce.exists()) {
        reduce(action.stage, stage.reduce);
      }
      next_ += size;
    }
    if (next_ == list.size() && !is_through_) {
      is_through_ = true;
      cell_.reset();
      for (const int stage : schedule_.placement.stages_of(rank_)) {
        const CollectiveCosts& own = costs_.stages[static_cast<std::size_t>(stage)].reduce;
        if (own.exists() && reductions_[stage] == 0) reduce(stage, own);
      }
    }
    return next_ > before;
  }

 private:
  struct Cell {
    std::int64_t start, duration, end;
    std::set<int> gradients;  // of which stages
  };

  std::optional<std::int64_t> ready_at(int stage, Kind kind, int microbatch) const {
    const auto found = times_.find({stage, kind, microbatch});
    if (found == times_.end()) return std::nullopt;
    const int from = schedule_.placement.rank_of(stage);
    return found->second.second + (from == rank_ ? 0 : costs_.link(from, rank_).latency_ns);
  }

  bool compute(std::span<const Action> parts) {
    Cell cell{now_, 0, 0, {}};
    for (const Action& part : parts) {
      const int stage = part.stage;
      const StageCosts& own = costs_.stages[static_cast<std::size_t>(stage)];
      std::optional<std::int64_t> ready = 0;
      if (part.kind == Kind::F && stage > 0) ready = ready_at(stage - 1, Kind::F, part.microbatch);
      if (is_backward(part.kind) && stage + 1 < schedule_.stages()) {
        ready = ready_at(stage + 1, Kind::B, part.microbatch);
        if (!ready) ready = ready_at(stage + 1, Kind::I, part.microbatch);
      }
      if (!ready) return false;
      cell.start = std::max(cell.start, *ready);
      if (const auto fresh = fresh_.find(stage); fresh != fresh_.end()) {
        cell.start = std::max(cell.start, fresh->second.first);
      }
      switch (part.kind) {
        case Kind::F: cell.duration += own.forward_ns; break;
        case Kind::I: cell.duration += own.backward_input_ns; break;
        case Kind::W: cell.duration += own.backward_weight_ns; break;
        default: cell.duration += own.backward_input_ns + own.backward_weight_ns; break;
      }
      if (part.kind == Kind::F) cell.duration += own.forward_messages_ns;
      if (is_backward(part.kind)) cell.duration += own.backward_messages_ns;
      if (part.kind == Kind::B || part.kind == Kind::W) cell.gradients.insert(stage);
    }
    if (parts.size() == 2) {
      const auto& overlap = costs_.stages[static_cast<std::size_t>(parts[0].stage)].overlap_ns;
      cell.duration = overlap.value_or(cell.duration);
    }
    cell.end = cell.start + cell.duration;
    for (const Action& part : parts) {
      const auto fresh = fresh_.find(part.stage);
      if (fresh == fresh_.end()) continue;
      const std::int64_t share =
          ceil_of(cell.duration, costs_.stages[static_cast<std::size_t>(part.stage)].unshard.parts);
      cell.end = std::max(cell.end, fresh->second.second + share);
      fresh_.erase(fresh);
    }
    for (const Action& part : parts) {
      times_[{part.stage, part.kind, part.microbatch}] = {cell.start, cell.end};
    }
    now_ = cell.end;
    cell_ = cell;
    return true;
  }

  // The end of a part that may go from `ready` on.
  std::int64_t send_part(const CollectiveCosts& costs, std::int64_t part, std::int64_t ready) {
    std::int64_t latency = costs.latency_ns / costs.parts;
    if (part + 1 == costs.parts) latency = costs.latency_ns - latency * (costs.parts - 1);
    starts_ = std::max(free_, ready);
    return free_ = starts_ + latency;
  }

  void gather(int stage, const CollectiveCosts& costs) {
    cell_.reset();
    if (!gathered_.insert(stage).second) return;
    const std::int64_t first = send_part(costs, 0, now_);
    const std::int64_t start = starts_;
    for (std::int64_t part = 1; part < costs.parts; ++part) send_part(costs, part, now_);
    fresh_[stage] = {first, free_};
    times_[{stage, Kind::UNSHARD, gathers_[stage]++}] = {start, free_};
  }

  void reduce(int stage, const CollectiveCosts& costs) {
    std::optional<std::int64_t> start;
    const bool within = cell_ && cell_->gradients.contains(stage);
    for (std::int64_t part = 0; part < costs.parts; ++part) {
      std::int64_t ready = now_;
      if (within) {
        ready = part + 1 == costs.parts
                    ? cell_->end
                    : cell_->start + ceil_of(cell_->duration * (part + 1), costs.parts);
      }
      send_part(costs, part, ready);
      if (!start) start = starts_;
    }
    if (within) cell_.reset();
    times_[{stage, Kind::REDUCE_GRAD, reductions_[stage]++}] = {*start, free_};
  }

  const Schedule& schedule_;
  const Costs& costs_;
  int rank_;
  ReplicaTimes& times_;
  std::size_t next_ = 0;
  bool is_through_ = false;
  std::int64_t now_ = 0;
  std::int64_t free_ = 0;    // from when the next part may go
  std::int64_t starts_ = 0;  // of the last part
  std::optional<Cell> cell_;
  std::set<int> gathered_;
  std::map<int, std::pair<std::int64_t, std::int64_t>> fresh_;  // first and last part
  std::map<int, int> gathers_, reductions_;
};

}  // namespace

ReplicaTimes replica_times(const Schedule& compute, const Costs& costs) {
  ReplicaTimes times;
  std::vector<ReplicaRank> ranks;
  for (int rank = 0; rank < compute.ranks(); ++rank)
    ranks.emplace_back(compute, costs, rank, times);
  for (bool moved = true; moved;) {
    moved = false;
    for (ReplicaRank& rank : ranks) moved = rank.advance() || moved;
  }
  return times;
}

}  // namespace pipesim::oracle
