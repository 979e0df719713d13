// A whole run of an input pipeline on one rank: train or emulate; verify; collect the results.
//
// Every rank calls run_input_session() with the same job; what comes back is rank 0's to report.
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
#include "traces/input_pipeline/input_run.h"

namespace pipesim::exec {

// Plain values.
struct InputJob {
  InputProgram program;  // without a fault
  int epochs = 1;        // times that it is done, with the same batches; shown is the last
  // What is trained, and with what ...
  std::optional<RecommendationTraining> training{};
  std::shared_ptr<const BatchSource> source{};
  int evaluate = 0;  // batches per rank, beyond the training ones, after each epoch
  bool verify = false;
  // Saves are between programs: an epoch is cut after every so many of its batches.
  std::optional<SavePlan> saves{};
  std::string resume{};                            // the folder to resume from, if any
  std::function<InputProgram(int batches)> cut{};  // the program for fewer; null where it has none
  // ... or else how long it takes.
  std::optional<InputCosts> costs{};

  // Differs where what ranks do would not fit together.
  std::string fingerprint() const;

  // Batches that one program does.
  struct Segment {
    int epoch = 0;
    int first = 0;
    int batches = 0;
    bool ends_epoch = true;
  };
  // All that is left to do from a state on.
  std::vector<Segment> segments(const InputState& start) const;
};

// What the ranks of one process share: one, or all of them as threads. Any thread.
class InputProcess {
 public:
  // The job outlives it.
  InputProcess(const InputJob& job, bool has_all_ranks);

  bool has_all_ranks() const { return has_all_ranks_; }
  EmulatedNetwork& network() { return network_; }
  // What one rank makes of the job, by the first who asks, for whom the others wait.
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
  InputRun run;                     // of the last program; without spans where nothing was left
  std::vector<double> losses;       // of all epochs, one a batch, the mean over ranks
  std::vector<double> evaluations;  // one an epoch
  std::optional<std::int64_t> resumed_at;  // so many batches had been done
  std::optional<std::int64_t> stopped_at;  // where ranks were asked to stop
  int processors = 0;                      // that the ranks may run on
  // Where it was verified: the first bit that one rank has otherwise, and where; or empty.
  std::optional<std::string> difference;
};

// Called on rank 0 after each epoch, counted from 0, with the mean loss of its last batch.
using OnEpoch = std::function<void(int epoch, double loss)>;

// Called on rank 0 where batches are trained on, and saved where that is asked for: from the first
// of them, counted over all epochs, to behind the last.
using OnBatches = std::function<void(std::int64_t from, std::int64_t done)>;

// How a run begins and is saved.
struct InputCheckpointing {
  std::function<void(const std::string&)> warn;  // of a checkpoint that is passed over, rank 0's
  std::function<bool()> is_to_stop;              // called after a save, which then is the last
  OnBatches on_batches;
};

// `clock` is the rank's own.
InputResult run_input_session(const InputJob& job, InputProcess& process, Transport& transport,
                              const OnEpoch& on_epoch, const Clock& clock = {},
                              const InputCheckpointing& checkpointing = {});

}  // namespace pipesim::exec
