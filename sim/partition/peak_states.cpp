#include "sim/partition/peak_states.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

namespace pipesim {
namespace {

// Activations of every chunk, then residues of every chunk.
using Counts = std::vector<int>;

// Every state of a rank from which one of its counts falls, and the last one.
std::vector<Counts> crests(const Schedule& schedule, int rank) {
  const std::size_t chunks = schedule.placement.stages_of(rank).size();
  Counts now(2 * chunks);
  std::vector<Counts> found;
  bool risen = false;
  const auto note = [&] {
    if (std::exchange(risen, false)) found.push_back(now);
  };
  for (const Action& action : schedule.actions[rank]) {
    if (!is_compute(action.kind)) continue;
    const auto chunk = static_cast<std::size_t>(schedule.placement.chunk_of(action.stage));
    if (action.kind == Kind::F) {
      ++now[chunk];
      risen = true;
      continue;
    }
    note();
    if (action.kind == Kind::W) {
      --now[chunks + chunk];
      continue;
    }
    --now[chunk];
    if (action.kind == Kind::I) {
      ++now[chunks + chunk];
      risen = true;
    }
  }
  note();
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool covers(const Counts& more, const Counts& less) {
  return std::ranges::equal(more, less, std::greater_equal<>());
}

}  // namespace

std::vector<std::vector<HeldChunks>> fullest_moments(const Schedule& schedule) {
  std::vector<std::vector<HeldChunks>> moments(static_cast<std::size_t>(schedule.ranks()));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    // What covers another comes after it in their order.
    const std::vector<Counts> all = crests(schedule, rank);
    std::vector<const Counts*> fullest;
    for (auto one = all.rbegin(); one != all.rend(); ++one) {
      if (std::ranges::none_of(fullest, [&](const Counts* more) { return covers(*more, *one); })) {
        fullest.push_back(&*one);
      }
    }
    auto& own = moments[static_cast<std::size_t>(rank)];
    for (auto one = fullest.rbegin(); one != fullest.rend(); ++one) {
      const auto middle = (*one)->begin() + static_cast<std::ptrdiff_t>((*one)->size() / 2);
      own.push_back({{(*one)->begin(), middle}, {middle, (*one)->end()}});
    }
  }
  return moments;
}

}  // namespace pipesim
