// Runs ranks, as threads or as a process each; an error on one of them ends all.
// Errors that ranks have agreed on (agreement.h) end every rank by itself. Any other is one rank's
// alone, while the others wait for messages from it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

using RankWork = std::function<void(Transport&)>;

// Runs `work` for every rank on its own thread. Throws the error of the lowest rank that is not
// merely about another rank's. If there are as many processors as ranks, each thread is pinned to
// one; threads that a rank starts itself would then share it.
enum class Processors : std::uint8_t { one_each, shared };
void run_as_threads(int ranks, std::optional<std::int64_t> eager_limit_bytes, const RankWork& work,
                    Processors processors = Processors::one_each);

// Runs `work` for this process's rank. Throws agreed errors; any other ends the whole job, after a
// call of `last_words`: then this returns it, unless the transport has ended the process.
std::optional<Error> run_as_process(
    Transport& transport, const RankWork& work,
    const std::function<void(const std::string& error)>& last_words);

}  // namespace pipesim::exec
