#include "exec/cli/input_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "exec/cli/destination.h"
#include "exec/cli/input_report.h"
#include "exec/cli/stop_signal.h"
#include "exec/run/agreement.h"
#include "exec/supervise/progress_file.h"
#include "exec/transport/collectives.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/input_trace.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {

void InputCommand::make_job(int ranks) {
  const std::lock_guard lock(mutex_);
  if (process_) return;
  job_ = make_input_job(flags_, ranks);
  process_.emplace(*job_, !ranks_.by_mpi && !ranks_.tcp);
}

void InputCommand::run_rank(Transport& transport, std::atomic<int>& stopped_by) {
  const bool launched = ranks_.by_mpi && launch_;
  const bool first = transport.rank() == 0;
  std::optional<OutputFile> trace;
  std::unique_ptr<ProgressFile> counted;
  agree(transport, [&] {
    make_job(transport.ranks());
    if (first) counted = asked_progress_file();
    if (first && flags_.trace) trace.emplace(*flags_.trace, flags_.trace->ends_with(".gz"));
  });
  agree_on(transport, "--transport", ranks_.transport);
  std::optional<Progress> progress;
  const Destination standard_error(STDERR_FILENO, launched);
  if (first) progress.emplace(standard_error.descriptor());
  const OnEpoch on_epoch = [&](int epoch, double loss) {
    progress->show(fmt::format("epoch {} of {}, loss {:.4f}", epoch + 1, job_->epochs, loss));
  };
  const InputCheckpointing checkpointing{warn_of_damage, was_told_to_stop,
                                         [&](std::int64_t from, std::int64_t done) {
                                           if (counted) counted->note(from, done);
                                         }};
  const InputResult result =
      run_input_session(*job_, *process_, transport, on_epoch, {}, checkpointing);
  progress.reset();
  if (result.stopped_at) {
    stopped_by = tell_stop(transport, *result.stopped_at, "batch", job_->saves->folder);
    return;
  }
  agree(transport, [&] {
    if (first) tell(result, trace, launched);
  });
}

void InputCommand::tell(const InputResult& result, std::optional<OutputFile>& trace,
                        bool launched) const {
  if (trace) {
    write_input_trace(result.run, *trace);
    trace->commit();
  }
  if (flags_.json) {
    print(input_result_json(*job_, result));
  } else if (!flags_.quiet) {
    const Destination output(STDOUT_FILENO, launched);
    print(input_run_report(*job_, result, terminal_of(output.descriptor())));
    if (trace) {
      print(fmt::format("Trace: {} (open it in ui.perfetto.dev)\n", printable(trace->path())));
    }
  }
  finish_printing();
  if (result.difference && !result.difference->empty()) {
    throw work_error(fmt::format("--verify: {}", *result.difference));
  }
}

}  // namespace pipesim::exec
