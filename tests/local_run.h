// A training run with its ranks as threads of the test.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/run/session.h"
#include "exec/transport/transport.h"

namespace pipesim::testing {

// A model small enough for hundreds of runs, with that many layers.
Model tiny_model(int layers, Architecture architecture = Architecture::gpt);

// One measured iteration and no warm-up of that schedule, verified, on layers
// dealt out evenly. A schedule without transfers is lowered.
exec::TrainingJob tiny_training(const Schedule& schedule, const Model& model);

// What rank 0 reports. `wrap`, where given, puts another transport before each
// rank's own, which outlives it. `clocks`, where given, are those of the ranks.
// A training that resumes goes on as pipeexec's would.
using Wrap = std::function<std::unique_ptr<exec::Transport>(exec::Transport& own)>;
exec::RunResult run_locally(const exec::TrainingJob& training,
                            std::optional<std::int64_t> eager_limit_bytes = {},
                            const Wrap& wrap = {}, OutputFile* trace = nullptr,
                            const std::vector<exec::Clock>& clocks = {},
                            const exec::Checkpointing& checkpointing = {});

// That a run was verified, and has the bits of the reference.
void expect_bitwise(const exec::RunResult& result);

}  // namespace pipesim::testing
