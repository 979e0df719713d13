// The layout of a task, for pictures.
#pragma once

#include "exec/cli/options.h"
#include "traces/pipeline_layout.h"

namespace pipesim::exec {

// Pure; any thread.
PipelineLayout layout_of(const Task& task);

}  // namespace pipesim::exec
