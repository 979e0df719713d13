// One rank at work: interprets its row of the program, iteration by iteration.
//
// It never asks which schedule it runs. All ranks make a worker of the same
// training and call run() for the same iterations. A worker belongs to its
// rank's thread; device and transport outlive it.
#pragma once

#include <memory>
#include <vector>

#include "exec/run/mailbox.h"
#include "exec/run/optimizer.h"
#include "exec/run/recorder.h"
#include "exec/run/stage.h"
#include "exec/run/training.h"
#include "traces/memory.h"

namespace pipesim::exec {

class Worker {
 public:
  Worker(const Training& training, Device& device, Transport& transport);

  // One iteration, counted from 0, on all ranks together; recorded from the
  // end of the warm-up on. Gradients stay as they are until the next one.
  Outcome run(int iteration);

  const Recorder& recorder() const { return recorder_; }
  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  Device& device() const { return device_; }
  // Of the measured iterations. A peak's time is not known: they have several.
  std::int64_t peak_chunks() const { return peak_chunks_; }
  RankMemory peak_memory() const;

 private:
  void load_samples(int iteration);
  std::vector<float> read_losses() const;
  Microbatch microbatch(const Action& action) const;
  Stage& stage_of(const Action& action) const;
  void run_list();
  void run_compute(const Action& action, std::int64_t reached_ns);
  void post_ahead(std::size_t index);
  void note_memory();
  // Whether memory has never been fuller: then `action` has filled it.
  void note_peak(const Action& action);

  const Training& training_;
  Device& device_;
  Transport& transport_;
  Pool pool_;
  Recorder recorder_;
  Mailbox mailbox_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by chunk
  Optimizer optimizer_;

  bool has_embedding_ = false;
  bool has_head_ = false;
  Tensor tokens_;   // of all microbatches, where a stage needs them; as int32
  Tensor targets_;  // likewise
  Tensor losses_;   // of all tokens, where the head is
  int iteration_ = 0;
  std::size_t posted_ = 0;  // actions up to here have their receives posted
  std::int64_t chunks_ = 0;
  std::int64_t peak_chunks_ = 0;
  std::int64_t peak_bytes_ = 0;
  Action peak_action_;
};

}  // namespace pipesim::exec
