#include "traces/memory_samples.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
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
  assert(sample.time_ns == times_ns_[index]);
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
  bool is_sorted = true;
  std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  times_ns_.each(0, size(), [&](std::int64_t time_ns) {
    is_sorted = is_sorted && time_ns >= last_ns;
    last_ns = time_ns;
  });
  if (is_sorted) return;
  std::vector<std::pair<std::int64_t, std::uint32_t>> all;
  all.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) all.emplace_back(times_ns_[i], held_by_[i]);
  std::ranges::stable_sort(all, {}, &std::pair<std::int64_t, std::uint32_t>::first);
  times_ns_ = {};
  for (std::size_t i = 0; i < all.size(); ++i) {
    times_ns_.push_back(all[i].first);
    held_by_[i] = all[i].second;
  }
}

std::size_t MemorySamples::drop_other_ranks(int ranks) {
  const auto is_other = [&](std::uint32_t place) {
    return held_[place].rank < 0 || held_[place].rank >= ranks;
  };
  if (std::ranges::none_of(held_by_, is_other)) return 0;
  PackedColumn times_ns;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_other(held_by_[i])) times_ns.push_back(times_ns_[i]);
  }
  times_ns_ = std::move(times_ns);
  return std::erase_if(held_by_, is_other);
}

}  // namespace pipesim
