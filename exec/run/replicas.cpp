#include "exec/run/replicas.h"

#include <utility>

namespace pipesim::exec {
namespace {

// The sharers' parts of a segment, counted from its own begin.
std::vector<Range> parts_of(const Parts& parts, std::size_t segment, int sharers) {
  const std::int64_t begin = parts.segment(segment).begin;
  std::vector<Range> ranges;
  for (int k = 0; k < sharers; ++k) {
    const Range part = parts.part(segment, k);
    ranges.push_back({part.begin - begin, part.end - begin});
  }
  return ranges;
}

}  // namespace

Replicas::Replicas(RankGroups& groups, Pool& pool, Beside& beside, bool by_library)
    : groups_(groups), pool_(pool), beside_(beside) {
  if (by_library) library_ = groups.replicas.own_library_sums();
}

void Replicas::start_iteration() {
  // A reduction of the pass before has still to be looked at.
  for (auto& [stage, state] : states_) {
    State fresh;
    fresh.reduction = state.reduction;
    state = fresh;
  }
  beside_.start_iteration();
}

Action Replicas::next_of(SharedStates& stage, Kind kind) {
  return make_collective(stage.index(), kind, state_of(stage).count[kind]++);
}

Beside::Part Replicas::reduction_in_order(const SharedStates& stage, std::size_t segment) {
  const Slice gradients = stage.gradients(segment);
  Beside::Part part;
  Range own{0, gradients.size()};
  if (groups_.sharers.ranks() > 1) {
    SharedArray array{gradients, parts_of(stage.parts(), segment, groups_.sharers.ranks())};
    own = array.parts[static_cast<std::size_t>(groups_.sharers.rank())];
    part.steps.push_back(std::make_unique<ReduceScatter>(groups_.sharers, pool_, std::move(array),
                                                         beside_.next_tag()));
  }
  if (groups_.likes.ranks() > 1) {
    const Parts equal({own.size()}, groups_.likes.ranks());
    const SharedArray array{gradients.part(own.begin, own.size()),
                            parts_of(equal, 0, groups_.likes.ranks())};
    part.steps.push_back(
        std::make_unique<ReduceScatter>(groups_.likes, pool_, array, beside_.next_tag()));
    part.steps.push_back(
        std::make_unique<AllGather>(groups_.likes, pool_, array, beside_.next_tag()));
  }
  return part;
}

// In one step, since a library's sums must start in the same order on all ranks, and second steps
// would start as first ones end.
Beside::Part Replicas::reduction_by_library(const SharedStates& stage, std::size_t segment) {
  const bool all_share = groups_.likes.ranks() == 1;
  Beside::Part part;
  part.steps.push_back(std::make_unique<LibraryReduction>(
      groups_.replicas, pool_,
      SharedArray{stage.gradients(segment),
                  all_share ? parts_of(stage.parts(), segment, groups_.sharers.ranks())
                            : std::vector<Range>()},
      beside_.next_tag(), *library_));
  return part;
}

Beside::Part Replicas::reduction_of(SharedStates& stage, std::size_t segment) {
  Beside::Part part =
      library_ ? reduction_by_library(stage, segment) : reduction_in_order(stage, segment);
  part.end = [&stage, segment] { stage.keep_gradients(segment); };
  return part;
}

void Replicas::start_segments(SharedStates& stage, std::int64_t begin) {
  State& state = state_of(stage);
  if (!state.reduction) {
    state.reduction = beside_.open(next_of(stage, Kind::REDUCE_GRAD));
    state.to_start = stage.parts().segments();
  }
  while (state.to_start > 0 && stage.parts().segment(state.to_start - 1).begin >= begin) {
    beside_.add(*state.reduction, reduction_of(stage, --state.to_start));
  }
}

void Replicas::has_gradients(SharedStates& stage, std::int64_t begin) {
  if (state_of(stage).is_expected) start_segments(stage, begin);
}

void Replicas::reduce(SharedStates& stage) {
  start_segments(stage, 0);
  State& state = state_of(stage);
  state.is_expected = false;
  beside_.close(*state.reduction);
}

void Replicas::await_room(SharedStates& stage) {
  State& state = state_of(stage);
  if (!state.reduction) return;
  beside_.wait_for(*state.reduction);
  state.reduction.reset();
  stage.start_sums();
}

Beside::Part Replicas::gather_of(const SharedStates& stage, std::size_t segment) {
  Beside::Part part;
  part.steps.push_back(std::make_unique<AllGather>(
      groups_.sharers, pool_,
      SharedArray{stage.operands(segment),
                  parts_of(stage.parts(), segment, groups_.sharers.ranks())},
      beside_.next_tag()));
  return part;
}

bool Replicas::unshard(SharedStates& stage) {
  State& state = state_of(stage);
  if (!stage.split().splits(3) || stage.is_whole()) return false;
  stage.make_whole();
  state.gather = beside_.open(next_of(stage, Kind::UNSHARD));
  for (std::size_t i = 0; i < stage.parts().segments(); ++i) {
    beside_.add(*state.gather, gather_of(stage, i));
  }
  beside_.close(*state.gather);
  return true;
}

void Replicas::await_whole(const SharedStates& stage) {
  State& state = state_of(stage);
  if (!state.gather) return;
  beside_.wait_for(*state.gather);
  state.gather.reset();
}

bool Replicas::reshard(SharedStates& stage) {
  if (!stage.split().splits(3) || !stage.is_whole()) return false;
  await_whole(stage);
  stage.release_whole();
  const Beside::Id done = beside_.open(next_of(stage, Kind::RESHARD));
  beside_.close(done);
  return true;
}

void Replicas::gather_stepped(SharedStates& stage) {
  const StateSplit& split = stage.split();
  if (!split.splits(1) || split.splits(3)) return;
  const Beside::Id gather = beside_.open(std::nullopt);
  for (std::size_t i = 0; i < stage.parts().segments(); ++i) {
    beside_.add(gather, gather_of(stage, i));
  }
  beside_.close(gather);
  beside_.wait_for(gather);
}

}  // namespace pipesim::exec
