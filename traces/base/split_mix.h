// Random-looking numbers by position: SplitMix64 (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", OOPSLA 2014). Pure; any thread.
#pragma once

#include <cstdint>

namespace pipesim {

// From one state of the generator to the next.
inline constexpr std::uint64_t split_mix_step = 0x9e3779b97f4a7c15U;

// The output of a generator in this state: a bijection.
constexpr std::uint64_t split_mix(std::uint64_t state) {
  std::uint64_t word = state + split_mix_step;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

}  // namespace pipesim
