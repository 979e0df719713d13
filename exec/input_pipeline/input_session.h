// A whole run of an input pipeline on one rank: train or emulate; verify; collect the results.
// Every rank calls run_input_session() with the same job; rank 0 reports the result.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/input_pipeline/emulated_input.h"
#include "exec/input_pipeline/input_batch.h"
#include "exec/input_pipeline/input_reference.h"
#include "exec/input_pipeline/recommendation_training.h"
#include "exec/input_pipeline/saved_input.h"
#include "exec/run/clock.h"
#include "exec/transport/transport.h"
#include "sim/input_pipeline/input_costs.h"
#include "traces/input_run.h"

namespace pipesim::exec {

// Plain values.
struct InputJob {
  InputProgram program;  // without a fault
  int epochs = 1;        // repetitions with the same batches; the last one is shown
  // The training and its data ...
  std::optional<RecommendationTraining> training{};
  std::shared_ptr<const BatchSource> source{};
  int evaluate = 0;  // batches per rank, beyond the training ones, after each epoch
  bool verify = false;
  // Saves are between programs: an epoch is cut after every `every` of its batches.
  std::optional<SavePlan> saves{};
  std::string resume{};                            // the folder to resume from, if any
  std::function<InputProgram(int batches)> cut{};  // the program for fewer; null if there is none
  // ... or its costs.
  std::optional<InputCosts> costs{};

  // Differs if ranks' jobs are incompatible.
  std::string fingerprint() const;

  // Batches run by one program.
  struct Segment {
    int epoch = 0;
    int first = 0;
    int batches = 0;
    bool ends_epoch = true;
  };
  // Everything left to do from a state on.
  std::vector<Segment> segments(const InputState& start) const;
};

// Shared by the ranks of one process: one, or all of them as threads. Any thread.
class InputProcess {
 public:
  // The job must outlive it.
  InputProcess(const InputJob& job, bool has_all_ranks);

  bool has_all_ranks() const { return has_all_ranks_; }
  EmulatedNetwork& network() { return network_; }
  // The job on one rank, computed by the first caller; the others wait.
  struct Trained {
    InputReference reference;
    std::vector<std::vector<double>> losses;  // by batch of all epochs, by rank
  };
  const Trained& reference();

 private:
  const InputJob& job_;
  bool has_all_ranks_;
  EmulatedNetwork network_;
  std::mutex mutex_;
  std::optional<Trained> trained_;
};

struct InputResult {
  InputRun run;                     // of the last program; without spans if nothing was left to do
  std::vector<double> losses;       // of all epochs, one per batch, the mean over ranks
  std::vector<double> evaluations;  // one per epoch
  std::optional<std::int64_t> resumed_at;  // batches done before
  std::optional<std::int64_t> stopped_at;  // if ranks were asked to stop
  int processors = 0;                      // available to the ranks
  // If verified: the first difference from one rank, and where; or empty.
  std::optional<std::string> difference;
};

// Called on rank 0 after each epoch, counted from 0, with the mean loss of its last batch.
using OnEpoch = std::function<void(int epoch, double loss)>;

// Called on rank 0 after training on batches, and saving if requested: the first of them, counted
// over all epochs, and one past the last.
using OnBatches = std::function<void(std::int64_t from, std::int64_t done)>;

// How a run begins and is saved.
struct InputCheckpointing {
  std::function<void(const std::string&)> warn;  // for a skipped checkpoint, on rank 0
  std::function<bool()> is_to_stop;              // called after a save; if true, that is the last
  OnBatches on_batches;
};

// `clock` is the rank's own.
InputResult run_input_session(const InputJob& job, InputProcess& process, Transport& transport,
                              const OnEpoch& on_epoch, const Clock& clock = {},
                              const InputCheckpointing& checkpointing = {});

}  // namespace pipesim::exec
