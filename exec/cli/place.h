// Which rank of --transport tcp this process is, and where ranks meet.
#pragma once

#include <optional>
#include <string>

#include "exec/cli/options.h"

namespace pipesim::exec {

// From --rank and --ranks, or else from the launcher; the master from --master, or else from
// MASTER_ADDR and MASTER_PORT. Nothing for another transport, which refuses these flags, except
// --ranks as the number of threads of an input pipeline.
std::optional<TcpPlace> find_place(const Flags& flags, const std::optional<Launch>& launch,
                                   const std::string& transport);

}  // namespace pipesim::exec
