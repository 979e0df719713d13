#include "exec/cli/place.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

constexpr int max_ranks = 1024;

// --rank counts from 0.
int parse_rank(std::string_view text, int ranks) {
  int rank = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (status != std::errc() || end != text.data() + text.size() || rank < 0 || rank >= ranks) {
    throw input_error(fmt::format(
        "--rank: {} is not a whole number from 0 below --ranks, which is {}", quote(text), ranks));
  }
  return rank;
}

}  // namespace

std::optional<TcpPlace> find_place(const Flags& flags, const std::optional<Launch>& launch,
                                   const std::string& transport) {
  const std::pair<const Flag*, std::string_view> own[] = {{&flags.rank, "--rank"},
                                                          {&flags.ranks, "--ranks"},
                                                          {&flags.master, "--master"},
                                                          {&flags.token, "--token"}};
  if (transport != "tcp") {
    for (const auto& [flag, name] : own) {
      const bool counts_threads =
          flag == &flags.ranks && flags.input.pipeline && transport == "local";
      if (*flag && !counts_threads) {
        throw input_error(fmt::format("{}: only --transport tcp {}; that of this run is {}", name,
                                      flag == &flags.token ? "takes one" : "is told its ranks",
                                      transport));
      }
    }
    return std::nullopt;
  }
  if (flags.rank.has_value() != flags.ranks.has_value()) {
    throw input_error(flags.rank ? "--ranks is missing: give it with --rank"
                                 : "--rank is missing: give it with --ranks");
  }
  TcpPlace place;
  if (flags.rank) {
    place.ranks = parse_count(*flags.ranks, "--ranks");
    place.rank = parse_rank(*flags.rank, place.ranks);
  } else if (launch) {
    place.rank = launch->rank;
    place.ranks = launch->ranks;
  } else {
    throw input_error(
        "--transport tcp: which rank is this? Give --rank R --ranks P --master HOST:PORT, or start "
        "it with torchrun or srun");
  }
  if (place.ranks > max_ranks) {
    throw input_error(fmt::format("--transport tcp: {} ranks; at most {}", place.ranks, max_ranks));
  }
  std::optional<Master> master;
  if (flags.master) {
    master = parse_master(*flags.master, "--master");
  } else {
    master = find_master(std::getenv);
  }
  if (master) {
    place.host = master->host;
    place.port = master->port;
  } else if (place.ranks > 1) {
    throw input_error(
        "--master is missing: give rank 0's HOST:PORT, or set MASTER_ADDR and MASTER_PORT");
  }
  place.token = token_of(flags.token ? parse_token(*flags.token, "--token")
                                     : find_token(std::getenv, flags.rank ? std::nullopt : launch));
  return place;
}

}  // namespace pipesim::exec
