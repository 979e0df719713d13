// Which rank of --transport tcp this process is, and where ranks meet.
#pragma once

#include <optional>
#include <string>

#include "exec/cli/options.h"

namespace pipesim::exec {

// By --rank and --ranks, or else by the launcher; the master by --master, or else by
// MASTER_ADDR and MASTER_PORT. Nothing for another transport, which refuses these flags, but for
// --ranks where it counts the threads of an input pipeline.
std::optional<TcpPlace> find_place(const Flags& flags, const std::optional<Launch>& launch,
                                   const std::string& transport);

}  // namespace pipesim::exec
