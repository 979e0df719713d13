// The handshake of processes before they are ranks connected by a transport.
// Plain values, sent as in memory: the version detects a machine with another byte order. Pure
// functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/error.h"

namespace pipesim::exec {

inline constexpr std::array<char, 8> hello_word{'p', 'i', 'p', 'e', 'e', 'x', 'e', 'c'};
inline constexpr std::uint32_t hello_version = 2;
inline constexpr std::size_t longest_refusal = 2000;  // in bytes

// What all ranks of a job know, and others don't: a text, and zeros after it.
using JobToken = std::array<char, 64>;
// `text` has at most as many characters.
JobToken token_of(std::string_view text);
// Takes the same time wherever they differ, so that nobody finds one character by character.
bool same_token(const JobToken& one, const JobToken& other);

// The first message of a connecting rank. Only one with the job's token is believed the rest.
struct Hello {
  std::array<char, 8> word = hello_word;
  std::uint32_t version = hello_version;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint32_t port = 0;  // on which it listens itself
  std::uint64_t key = 0;   // of the start, drawn by rank 0; 0 until known
  JobToken token{};
};
static_assert(sizeof(Hello) == 96);

// Rank 0's answer: the start's key, and then the addresses of all; or why there is no job.
struct HelloAnswer {
  enum class Kind : std::uint32_t { welcome, contradiction, absence };
  std::array<char, 8> word = hello_word;
  Kind kind = Kind::welcome;
  std::uint32_t size = 0;  // of the rest
  std::uint64_t key = 0;
};
static_assert(sizeof(HelloAnswer) == 24);

// Where a rank listens.
struct RankAddress {
  std::array<unsigned char, 16> host{};  // IPv6
  std::uint32_t port = 0;
};
static_assert(sizeof(RankAddress) == 20);

// Throws an input error unless this is a rank other than 0 of so many. `from` is its host;
// `same_rank_from` that of an earlier one with the same rank, or empty.
void check_hello(const Hello& hello, int ranks, const std::string& from,
                 const std::string& same_rank_from);

// Converts an error to an answer's kind, and back.
HelloAnswer::Kind kind_of(const Error& error);
Error error_of(HelloAnswer::Kind kind, const std::string& why);

// "rank 3", "ranks 1, 2 and 5"; only the first of many.
std::string named_ranks(const std::vector<int>& ranks);

}  // namespace pipesim::exec
