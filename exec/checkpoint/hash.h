// The hash that shows a checkpoint's file to be intact: XXH3's 128 bits, as 32 hexadecimal digits.
//
// It finds damage, not malice. One owner, one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pipesim::exec {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string text() const;  // of all that was added

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline constexpr std::size_t hash_digits = 32;

std::string hash_of(std::span<const std::byte> bytes);
std::string hash_of(std::string_view text);

}  // namespace pipesim::exec
