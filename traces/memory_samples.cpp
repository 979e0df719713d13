#include "traces/memory_samples.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

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

std::uint32_t MemorySamples::place_of(const Held& held) {
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

MemorySamples::Entry MemorySamples::entry_of(const MemorySample& sample) {
  return {sample.time_ns, sample.rank, place_of({sample.states, sample.working, sample.chunks})};
}

void MemorySamples::push_back(const MemorySample& sample) { entries_.push_back(entry_of(sample)); }

void MemorySamples::replace(std::size_t index, const MemorySample& sample) {
  entries_[index] = entry_of(sample);
}

void MemorySamples::append(const MemorySamples& others) {
  entries_.reserve(entries_.size() + others.size());
  for (const MemorySample& sample : others) push_back(sample);
}

MemorySample MemorySamples::operator[](std::size_t index) const {
  const Entry& entry = entries_[index];
  const Held& held = held_[entry.held];
  return {entry.rank, entry.time_ns, held.states, held.working, held.chunks};
}

void MemorySamples::sort_by_time() {
  if (std::ranges::is_sorted(entries_, {}, &Entry::time_ns)) return;
  std::ranges::stable_sort(entries_, {}, &Entry::time_ns);
}

std::size_t MemorySamples::drop_other_ranks(int ranks) {
  return std::erase_if(entries_,
                       [&](const Entry& entry) { return entry.rank < 0 || entry.rank >= ranks; });
}

}  // namespace pipesim
