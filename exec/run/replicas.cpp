#include "exec/run/replicas.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipesim::exec {
namespace {

// The sharers' parts of a segment, relative to its start.
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

Replicas::Replicas(RankGroups& groups, Pool& pool, OverlappedCollectives& beside,
                   const Routes& ways)
    : groups_(groups), pool_(pool), beside_(beside), ways_(ways) {
  if (ways.by_library) library_ = groups.replicas.own_library_sums(pool.device());
  if (groups.sharers.ranks() > 1) gathers_ = groups.sharers.own_library_gathers(pool.device());
}

// Among those that shard states, and then among those that have the same part.
std::int64_t Replicas::largest_receipt(const Parts& parts) const {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < parts.segments(); ++i) {
    const int sharers = groups_.sharers.ranks();
    const Range own = parts.part(i, groups_.sharers.rank());
    const int likes = groups_.likes.ranks();
    const Range equal = Parts({own.size()}, likes).part(0, groups_.likes.rank());
    largest = std::max({largest, (sharers - 1) * own.size(), (likes - 1) * equal.size()});
  }
  return largest;
}

void Replicas::take_room(const std::vector<std::unique_ptr<Stage>>& stages) {
  std::int64_t made = 0;
  std::int64_t received = 0;
  for (const auto& stage : stages) {
    const ParameterStore& store = stage->store();
    if (!store.split().splits(2)) return;
    made = std::max(made, store.largest_neighbours());
    if (!library_) received = std::max(received, largest_receipt(store.parts()));
  }
  made_ = pool_.take(made, Use::workspace);
  received_ = pool_.take(received, Use::workspace);
}

void Replicas::start_iteration() {
  // A reduction of the previous pass must still be polled.
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

OverlappedCollectives::Part Replicas::reduction_in_order(const SharedStates& stage,
                                                         std::size_t segment) {
  const Slice gradients = stage.gradients(segment);
  OverlappedCollectives::Part part;
  Range own{0, gradients.size()};
  if (groups_.sharers.ranks() > 1) {
    SharedArray array{gradients, parts_of(stage.parts(), segment, groups_.sharers.ranks())};
    own = array.parts[static_cast<std::size_t>(groups_.sharers.rank())];
    part.steps.push_back(std::make_unique<ReduceScatter>(groups_.sharers, pool_, std::move(array),
                                                         beside_.next_tag(), received_.all()));
  }
  if (groups_.likes.ranks() > 1) {
    Steps steps = all_reduce(groups_.likes, pool_, gradients.part(own.begin, own.size()),
                             beside_.next_tag(2), received_.all());
    std::ranges::move(steps, std::back_inserter(part.steps));
  }
  return part;
}

// In one step, since a library's sums must start in the same order on all ranks, and second steps
// would start whenever first ones end.
OverlappedCollectives::Part Replicas::reduction_by_library(const SharedStates& stage,
                                                           std::size_t segment) {
  const bool all_share = groups_.likes.ranks() == 1;
  OverlappedCollectives::Part part;
  part.steps.push_back(std::make_unique<LibraryReduction>(
      groups_.replicas, pool_,
      SharedArray{stage.gradients(segment),
                  all_share ? parts_of(stage.parts(), segment, groups_.sharers.ranks())
                            : std::vector<Range>()},
      beside_.next_tag(), *library_));
  return part;
}

OverlappedCollectives::Part Replicas::reduction_of(SharedStates& stage, std::size_t segment) {
  OverlappedCollectives::Part part =
      library_ ? reduction_by_library(stage, segment) : reduction_in_order(stage, segment);
  part.in_turn = ways_.in_turn;
  int* reducing = nullptr;
  if (const std::optional<std::size_t> place = stage.gradient_place(segment)) {
    reducing = &reducing_[*place];
    ++*reducing;
  }
  part.end = [&stage, segment, reducing] {
    stage.keep_gradients(segment);
    if (reducing != nullptr) --*reducing;
  };
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
  const bool is_split = stage.split().splits(2);
  if (is_split) beside_.wait_until([&] { return reducing_[0] + reducing_[1] == 0; });
  if (state.reduction) {
    beside_.wait_for(*state.reduction);
    state.reduction.reset();
    stage.start_sums();
  }
  if (is_split && !state.is_expected) stage.make_all_gradients();
}

void Replicas::make_room(Stage& stage, std::size_t layer) {
  ParameterStore& store = stage.store();
  if (!store.split().splits(2) || store.has_all_gradients()) return;
  beside_.wait_until([&] { return reducing_[layer % 2] == 0; });
  store.make_gradients_in(made_.all(), layer);
}

OverlappedCollectives::Part Replicas::gather_of(const SharedStates& stage, std::size_t segment) {
  SharedArray array{stage.operands(segment),
                    parts_of(stage.parts(), segment, groups_.sharers.ranks())};
  const int tag = beside_.next_tag();
  OverlappedCollectives::Part part;
  if (gathers_) {
    part.steps.push_back(
        std::make_unique<LibraryGather>(groups_.sharers, pool_, std::move(array), tag, *gathers_));
  } else {
    part.steps.push_back(
        std::make_unique<AllGather>(groups_.sharers, pool_, std::move(array), tag));
  }
  return part;
}

bool Replicas::unshard(SharedStates& stage) {
  State& state = state_of(stage);
  if (!stage.split().splits(3) || stage.is_whole()) return false;
  state.gather = beside_.open(next_of(stage, Kind::UNSHARD));
  stage.make_whole();
  if (ways_.by_layer) {
    state.gathered = {};
    return true;
  }
  for (std::size_t i = 0; i < stage.parts().segments(); ++i) {
    beside_.add(*state.gather, gather_of(stage, i));
  }
  beside_.close(*state.gather);
  return true;
}

// The whole stage's, if it has them.
void Replicas::await_whole(const SharedStates& stage) {
  State& state = state_of(stage);
  if (!state.gather || ways_.by_layer) return;
  beside_.wait_for(*state.gather);
  state.gather.reset();
}

// An UNSHARD ends with its last gathered layer.
void Replicas::start_layer(Stage& stage, std::size_t layer) {
  State& state = state_of(stage);
  const std::size_t place = layer % 2;
  if (state.gathered[place] == layer) return;
  state.gathered[place] = layer;
  ParameterStore& store = stage.store();
  store.place_own(layer);
  if (!state.gather) state.gather = beside_.open(std::nullopt);
  store.parts().for_each_in(store.range_of(layer), [&](std::size_t i) {
    OverlappedCollectives::Part part = gather_of(stage, i);
    int& gathering = state.gathering[place];
    ++gathering;
    part.end = [&gathering] { --gathering; };
    beside_.add(*state.gather, std::move(part));
  });
}

void Replicas::await_layer(Stage& stage, std::size_t layer, bool back) {
  State& state = state_of(stage);
  const std::size_t last = back ? 0 : stage.layers().size() - 1;
  if (!ways_.by_layer || !stage.split().splits(3)) return;
  start_layer(stage, layer);
  if (layer != last) start_layer(stage, back ? layer - 1 : layer + 1);
  const bool ends = layer == last || (back ? layer - 1 : layer + 1) == last;
  if (ends && state.gather) {
    beside_.close(*state.gather);
    state.gather.reset();
  }
  beside_.wait_until([&] { return state.gathering[layer % 2] == 0; });
}

bool Replicas::reshard(SharedStates& stage) {
  State& state = state_of(stage);
  if (!stage.split().splits(3) || !stage.is_whole()) return false;
  await_whole(stage);
  if (ways_.by_layer) {
    if (state.gather) beside_.close(*state.gather);
    state.gather.reset();
    beside_.wait_until([&] { return state.gathering[0] + state.gathering[1] == 0; });
  }
  stage.release_whole();
  const OverlappedCollectives::Id done = beside_.open(next_of(stage, Kind::RESHARD));
  beside_.close(done);
  return true;
}

void Replicas::gather_stepped(SharedStates& stage) {
  const StateSplit& split = stage.split();
  if (!split.splits(1) || split.splits(3)) return;
  const OverlappedCollectives::Id gather = beside_.open(std::nullopt);
  for (std::size_t i = 0; i < stage.parts().segments(); ++i) {
    beside_.add(gather, gather_of(stage, i));
  }
  beside_.close(gather);
  beside_.wait_for(gather);
}

}  // namespace pipesim::exec
