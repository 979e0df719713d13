#include "exec/run/replicas.h"

#include <algorithm>
#include <iterator>
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
  if (by_library) library_ = groups.replicas.own_library_sums(pool.device());
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

Action Replicas::next_of(Stage& stage, Kind kind) {
  return make_collective(stage.index(), kind, state_of(stage).count[kind]++);
}

Beside::Part Replicas::reduction_in_order(const ParameterStore& store, std::size_t segment) {
  const Slice gradients = store.gradients(segment);
  Beside::Part part;
  Range own{0, gradients.size()};
  if (groups_.sharers.ranks() > 1) {
    SharedArray array{gradients, parts_of(store.parts(), segment, groups_.sharers.ranks())};
    own = array.parts[static_cast<std::size_t>(groups_.sharers.rank())];
    part.steps.push_back(std::make_unique<ReduceScatter>(groups_.sharers, pool_, std::move(array),
                                                         beside_.next_tag()));
  }
  if (groups_.likes.ranks() > 1) {
    Steps steps = all_reduce(groups_.likes, pool_, gradients.part(own.begin, own.size()),
                             beside_.next_tag(2));
    std::ranges::move(steps, std::back_inserter(part.steps));
  }
  return part;
}

// In one step, since a library's sums must start in the same order on all ranks, and second steps
// would start as first ones end.
Beside::Part Replicas::reduction_by_library(const ParameterStore& store, std::size_t segment) {
  const bool all_share = groups_.likes.ranks() == 1;
  Beside::Part part;
  part.steps.push_back(std::make_unique<LibraryReduction>(
      groups_.replicas, pool_,
      SharedArray{store.gradients(segment),
                  all_share ? parts_of(store.parts(), segment, groups_.sharers.ranks())
                            : std::vector<Range>()},
      beside_.next_tag(), *library_));
  return part;
}

Beside::Part Replicas::reduction_of(Stage& stage, std::size_t segment) {
  ParameterStore& store = stage.store();
  Beside::Part part =
      library_ ? reduction_by_library(store, segment) : reduction_in_order(store, segment);
  part.end = [&store, segment] { store.keep_gradients(segment); };
  return part;
}

void Replicas::start_segments(Stage& stage, std::int64_t begin) {
  State& state = state_of(stage);
  if (!state.reduction) {
    state.reduction = beside_.open(next_of(stage, Kind::REDUCE_GRAD));
    state.to_start = stage.store().parts().segments();
  }
  while (state.to_start > 0 && stage.store().parts().segment(state.to_start - 1).begin >= begin) {
    beside_.add(*state.reduction, reduction_of(stage, --state.to_start));
  }
}

void Replicas::has_gradients(Stage& stage, std::int64_t begin) {
  State& state = state_of(stage);
  if (!state.is_expected) return;
  start_segments(stage, begin);
  // Where gradients are split, a rank has whole ones of two layers: those that are being made and
  // those before, which are being reduced.
  if (stage.store().split().splits(2)) beside_.wait_for_parts(*state.reduction, 1);
}

void Replicas::reduce(Stage& stage) {
  start_segments(stage, 0);
  State& state = state_of(stage);
  state.is_expected = false;
  beside_.close(*state.reduction);
}

void Replicas::await_room(Stage& stage) {
  State& state = state_of(stage);
  if (!state.reduction) return;
  beside_.wait_for(*state.reduction);
  state.reduction.reset();
  stage.start_sums();
}

Beside::Part Replicas::gather_of(const Stage& stage, std::size_t segment) {
  const ParameterStore& store = stage.store();
  Beside::Part part;
  part.steps.push_back(std::make_unique<AllGather>(
      groups_.sharers, pool_,
      SharedArray{store.operands(segment),
                  parts_of(store.parts(), segment, groups_.sharers.ranks())},
      beside_.next_tag()));
  return part;
}

bool Replicas::unshard(Stage& stage) {
  State& state = state_of(stage);
  if (!stage.store().split().splits(3) || stage.store().is_whole()) return false;
  stage.store().make_whole();
  state.gather = beside_.open(next_of(stage, Kind::UNSHARD));
  for (std::size_t i = 0; i < stage.store().parts().segments(); ++i) {
    beside_.add(*state.gather, gather_of(stage, i));
  }
  beside_.close(*state.gather);
  return true;
}

void Replicas::await_whole(const Stage& stage) {
  State& state = state_of(stage);
  if (!state.gather) return;
  beside_.wait_for(*state.gather);
  state.gather.reset();
}

bool Replicas::reshard(Stage& stage) {
  if (!stage.store().split().splits(3) || !stage.store().is_whole()) return false;
  await_whole(stage);
  stage.store().release_whole();
  const Beside::Id done = beside_.open(next_of(stage, Kind::RESHARD));
  beside_.close(done);
  return true;
}

void Replicas::gather_stepped(Stage& stage) {
  const StateSplit& split = stage.store().split();
  if (!split.splits(1) || split.splits(3)) return;
  const Beside::Id gather = beside_.open(std::nullopt);
  for (std::size_t i = 0; i < stage.store().parts().segments(); ++i) {
    beside_.add(gather, gather_of(stage, i));
  }
  beside_.close(gather);
  beside_.wait_for(gather);
}

}  // namespace pipesim::exec
