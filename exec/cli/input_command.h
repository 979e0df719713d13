// Runs pipeexec with an input pipeline, given its flags.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "exec/cli/options.h"
#include "exec/input_pipeline/input_session.h"
#include "traces/base/files.h"

namespace pipesim::exec {

// For all ranks of this process. Flags, ranks and launch must outlive it.
class InputCommand {
 public:
  InputCommand(const Flags& flags, const Ranks& ranks, const std::optional<Launch>& launch)
      : flags_(flags), ranks_(ranks), launch_(launch) {}

  // On each rank's thread, from flags to the report, which rank 0 prints; stores the signal that
  // stopped the run, the same on all ranks.
  void run_rank(Transport& transport, std::atomic<int>& stopped_by);

 private:
  // Made by the first caller; an input error is thrown to all.
  void make_job(int ranks);
  void tell(const InputResult& result, std::optional<OutputFile>& trace, bool launched) const;

  const Flags& flags_;
  const Ranks& ranks_;
  const std::optional<Launch>& launch_;
  std::mutex mutex_;
  std::optional<InputJob> job_;
  std::optional<InputProcess> process_;
};

}  // namespace pipesim::exec
