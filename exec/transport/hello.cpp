#include "exec/transport/hello.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace pipesim::exec {

JobToken token_of(std::string_view text) {
  JobToken token{};
  std::ranges::copy(text.substr(0, token.size()), token.begin());
  return token;
}

bool same_token(const JobToken& one, const JobToken& other) {
  volatile unsigned difference = 0;  // or the compiler might stop at the first
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference = difference | static_cast<unsigned char>(one[i] ^ other[i]);
  }
  return difference == 0;
}

void check_hello(const Hello& hello, int ranks, const std::string& from,
                 const std::string& same_rank_from) {
  if (hello.version != hello_version) {
    throw input_error(
        fmt::format("a process at {} is a pipeexec that rank 0's does not understand; start the "
                    "same version on machines of one kind",
                    from));
  }
  if (hello.ranks != ranks) {
    throw input_error(
        fmt::format("rank {}, at {}, was started as one of {}, and rank 0 as one of {}; give all "
                    "the same number",
                    hello.rank, from, hello.ranks, ranks));
  }
  if (hello.rank <= 0 || hello.rank >= ranks) {
    throw input_error(
        fmt::format("a process at {} came as rank {} of {}; ranks other than 0 are 1 to {}", from,
                    hello.rank, ranks, ranks - 1));
  }
  if (!same_rank_from.empty()) {
    throw input_error(
        fmt::format("two processes, at {} and at {}, both came as rank {}; start each once",
                    same_rank_from, from, hello.rank));
  }
}

HelloAnswer::Kind kind_of(const Error& error) {
  return error.cause() == Error::Cause::input ? HelloAnswer::Kind::contradiction
                                              : HelloAnswer::Kind::absence;
}

Error error_of(HelloAnswer::Kind kind, const std::string& why) {
  return kind == HelloAnswer::Kind::contradiction ? input_error(why) : work_error(why);
}

std::string named_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > most) {
    return fmt::format("ranks {} and {} more", fmt::join(std::span(ranks).first(most), ", "),
                       ranks.size() - most);
  }
  return fmt::format("ranks {} and {}", fmt::join(std::span(ranks).first(ranks.size() - 1), ", "),
                     ranks.back());
}

}  // namespace pipesim::exec
