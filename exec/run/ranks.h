// Ranks at work, as threads or as a process each, and how an error on one of
// them ends all.
//
// Errors that ranks have agreed on (agreement.h) end every rank by itself. Any
// other is one rank's alone, while the rest wait for messages of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exec/transport/transport.h"

namespace pipesim::exec {

using RankWork = std::function<void(Transport&)>;

// Does `work` for every rank on a thread of its own. Throws the error of the
// lowest rank that is not merely about another's. Where there are as many processors as ranks,
// each thread keeps to one of its own; threads that a rank starts itself would then share it.
enum class Processors : std::uint8_t { one_each, shared };
void run_as_threads(int ranks, std::optional<std::int64_t> eager_limit_bytes, const RankWork& work,
                    Processors processors = Processors::one_each);

// Does `work` for the rank that this process is. Throws what ranks have agreed on; another
// error ends the whole job, once `last_words` has told of it: then this returns false, where
// the transport has not ended the process.
bool run_as_process(Transport& transport, const RankWork& work,
                    const std::function<void(const std::string& error)>& last_words);

}  // namespace pipesim::exec
