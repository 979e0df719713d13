// Collectives of all ranks, made of sends and receives.
// Small and rare: set-up, the end of an iteration, results. Every rank calls the same functions in
// the same order. Results depend only on the values, never on which rank arrived first.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "exec/transport/transport.h"

namespace pipesim::exec {

using Bytes = std::vector<std::byte>;

// Tags below these belong to collectives; these to clock_sync.h and checkpoint/saver.h.
inline constexpr int clock_tag = 3;
inline constexpr int checkpoint_tag = 4;
inline constexpr int first_free_tag = 5;

// Larger messages are sent in pieces: MPI counts bytes in 31 bits.
inline constexpr std::size_t largest_piece = std::size_t{1} << 30;

// Rank 0 gets each rank's bytes, by rank; the others get nothing.
std::vector<Bytes> gather(Transport& transport, std::span<const std::byte> own);
// Returns rank 0's bytes.
Bytes broadcast(Transport& transport, Bytes bytes);
// Returns once every rank has called it.
void barrier(Transport& transport);
// Swaps equal numbers of bytes with another rank, which makes the same call.
void exchange(Transport& transport, int other, std::span<const std::byte> own,
              std::span<std::byte> theirs);

// Values as bytes, and back.
template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(values));
}
template <typename T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// The same for one value per rank.
template <typename T>
std::vector<T> gather_value(Transport& transport, const T& own) {
  std::vector<T> all;
  for (const Bytes& bytes : gather(transport, std::as_bytes(std::span(&own, 1)))) {
    all.push_back(values_of<T>(bytes).front());
  }
  return all;
}
template <typename T>
T broadcast_value(Transport& transport, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return values_of<T>(broadcast(transport, {bytes.begin(), bytes.end()})).front();
}

}  // namespace pipesim::exec
