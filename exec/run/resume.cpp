#include "exec/run/resume.h"

#include "exec/run/agreement.h"
#include "exec/run/newest_checkpoint.h"
#include "traces/base/error.h"

namespace pipesim::exec {

std::optional<Resumed> find_start(const TrainingJob& training, Transport& transport,
                                  const std::function<void(const std::string&)>& warn) {
  const CheckpointFolders folders{training.resume, training.saves ? training.saves->folder : ""};
  std::optional<Resumed> start;
  std::optional<std::int64_t> iteration;
  if (!training.resume.empty()) {
    TrainingState state;
    const auto check = [&](const FoundCheckpoint& found) { state = state_of(found, training); };
    if (const auto newest = find_newest_checkpoint(folders, transport, check, warn)) {
      start = Resumed{state, newest->reader};
      iteration = state.iteration;
    }
  }
  check_saved_folder(folders, transport, iteration);
  agree(transport, [&] {
    if (!start || start->state.passes == 0 || !training.verify) return;
    throw input_error(
        "--verify: the checkpoint is within a step, whose first passes one rank's run lacks; "
        "omit the flag");
  });
  return start;
}

}  // namespace pipesim::exec
