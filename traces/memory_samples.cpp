#include "traces/memory_samples.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pipesim {
namespace {

constexpr std::uint32_t none = 0xffffffff;

template <typename Held>
std::size_t hash_of(const Held& held) {
  std::uint64_t words[sizeof(Held) / sizeof(std::uint64_t)];
  std::memcpy(words, &held, sizeof(Held));
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (std::rotl(hash, 5) ^ word) * 0x9e3779b97f4a7c15U;
  }
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}

}  // namespace

std::uint32_t MemorySamples::place_of(const MemorySample& sample) {
  const Held held{sample.states, sample.working, sample.chunks, sample.rank};
  static_assert(std::has_unique_object_representations_v<Held>, "compared by its bytes");
  if (2 * (held_.size() + 1) > places_.size()) {
    places_.assign(std::max<std::size_t>(64, 4 * places_.size()), none);
    for (std::uint32_t i = 0; i < held_.size(); ++i) {
      std::size_t at = hash_of(held_[i]) & (places_.size() - 1);
      while (places_[at] != none) at = (at + 1) & (places_.size() - 1);
      places_[at] = i;
    }
  }
  std::size_t at = hash_of(held) & (places_.size() - 1);
  while (places_[at] != none) {
    if (std::memcmp(&held_[places_[at]], &held, sizeof(Held)) == 0) return places_[at];
    at = (at + 1) & (places_.size() - 1);
  }
  places_[at] = static_cast<std::uint32_t>(held_.size());
  held_.push_back(held);
  return places_[at];
}

void MemorySamples::push_back(const MemorySample& sample) {
  times_ns_.push_back(sample.time_ns);
  held_by_.push_back(place_of(sample));
}

void MemorySamples::replace(std::size_t index, const MemorySample& sample) {
  times_ns_[index] = sample.time_ns;
  held_by_[index] = place_of(sample);
}

void MemorySamples::append(const MemorySamples& others) {
  reserve(size() + others.size());
  for (const MemorySample& sample : others) push_back(sample);
}

MemorySample MemorySamples::operator[](std::size_t index) const {
  const Held& held = held_[held_by_[index]];
  return {static_cast<std::int32_t>(held.rank), times_ns_[index], held.states, held.working,
          held.chunks};
}

void MemorySamples::sort_by_time() {
  if (std::ranges::is_sorted(times_ns_)) return;
  std::vector<std::pair<std::int64_t, std::uint32_t>> sorted;
  sorted.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) sorted.emplace_back(times_ns_[i], held_by_[i]);
  std::ranges::stable_sort(sorted, {}, &std::pair<std::int64_t, std::uint32_t>::first);
  for (std::size_t i = 0; i < size(); ++i) std::tie(times_ns_[i], held_by_[i]) = sorted[i];
}

std::size_t MemorySamples::drop_other_ranks(int ranks) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::int64_t rank = held_[held_by_[i]].rank;
    if (rank < 0 || rank >= ranks) continue;
    times_ns_[kept] = times_ns_[i];
    held_by_[kept++] = held_by_[i];
  }
  const std::size_t dropped = size() - kept;
  times_ns_.erase(times_ns_.begin() + static_cast<std::ptrdiff_t>(kept), times_ns_.end());
  held_by_.erase(held_by_.begin() + static_cast<std::ptrdiff_t>(kept), held_by_.end());
  return dropped;
}

}  // namespace pipesim
