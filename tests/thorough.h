// How much a test tries that could go through many shapes: a part of them, and all where the
// environment has PIPESIM_THOROUGH=1, as tests/nightly.sh sets it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace pipesim::testing {

inline bool is_thorough() {
  const char* text = std::getenv("PIPESIM_THOROUGH");
  return text != nullptr && std::string_view(text) == "1";
}

// How many cases.
inline int cases(int usual, int thorough) { return is_thorough() ? thorough : usual; }

// `usual` of `all`, the first and others at even distances, or all; says how many.
template <typename T>
std::vector<T> tried(const std::vector<T>& all, std::size_t usual) {
  if (is_thorough() || usual >= all.size()) return all;
  std::printf("tries %zu of %zu; with PIPESIM_THOROUGH=1 all\n", usual, all.size());
  std::vector<T> some;
  for (std::size_t i = 0; i < usual; ++i) some.push_back(all[i * all.size() / usual]);
  return some;
}

}  // namespace pipesim::testing
