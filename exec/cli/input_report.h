// The report after a run of an input pipeline, and the same as JSON.
#pragma once

#include <string>

#include "exec/input_pipeline/input_session.h"
#include "traces/print/terminal.h"

namespace pipesim::exec {

std::string input_run_report(const InputJob& job, const InputResult& result,
                             const Terminal& terminal);
// `pipeexec-result`, in traces/FORMAT.md.
std::string input_result_json(const InputJob& job, const InputResult& result);

}  // namespace pipesim::exec
