// What every transport must do, checked by all of its ranks together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/transport/transport.h"

namespace pipesim::testing {

// What is left to each transport.
struct Promises {
  // Sends are done ...
  std::optional<std::int64_t> waits_from;  // of so many bytes or more: with their receiver
  std::optional<std::int64_t> done_below;  // of fewer bytes: without
  // Messages larger than their receiver expects leave its memory alone up to here.
  std::size_t largest_misfit = std::size_t{1} << 30;
};

// As the eager limit of a transport that has none, where a parameter says which.
inline constexpr std::int64_t no_limit = -1;

// What is wrong, as this rank sees it. Called on every rank with the same
// promises; where ranks lose step, it may hang or throw.
std::vector<std::string> check_transport(exec::Transport& transport, const Promises& promises);

// Its parts: single messages, what collectives.h and agreement.h make of them, and what
// exchange.h does with the memory of a device.
std::vector<std::string> check_messages(exec::Transport& transport, const Promises& promises);
std::vector<std::string> check_collectives(exec::Transport& transport);
std::vector<std::string> check_exchanges(exec::Transport& transport, exec::Device& device);

}  // namespace pipesim::testing
