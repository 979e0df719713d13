// One rank at work: interprets its row of the program, iteration by iteration.
//
// It never asks which schedule it runs. A device of its own pace may be a few
// actions behind. All ranks make a worker of the same
// training and call run() for the same iterations. A worker belongs to its
// rank's thread; device and transport outlive it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/run/mailbox.h"
#include "exec/run/recorder.h"
#include "exec/run/training.h"
#include "exec/run/workload.h"
#include "traces/memory.h"

namespace pipesim::exec {

// Makes the rank's workload from its memory, its recorder and what goes on beside it; `poll`
// gives the transport time, and may be called often.
using MakeWorkload = std::function<std::unique_ptr<Workload>(
    Pool& pool, Recorder& recorder, Beside& beside, const std::function<void()>& poll)>;

class Worker {
 public:
  // `transport` has the ranks of the pipeline. Buffers lie in the memory of that device.
  Worker(const TrainingJob& training, Device& memory, Transport& transport, const Clock& clock,
         const MakeWorkload& make_workload);

  // One iteration, counted from 0; recorded from the end of the warm-up on. Its outcome is that
  // of the step that it ends with; nothing where gradients go on to be added up.
  // `save_of`, where given, is asked at its end whether something is to be saved: what it returns
  // is done as the rank's SAVE.
  using Save = std::function<std::int64_t()>;  // returns how many bytes it has
  using SaveOf = std::function<Save(const std::optional<Outcome>& outcome)>;
  std::optional<Outcome> run(int iteration, const SaveOf& save_of = {});

  // Called between actions: what else goes on beside them, and does not wait.
  void between_actions(std::function<void()> work) { between_actions_ = std::move(work); }

  // What was saved at the end of an iteration is written now; where that was recorded, this is.
  void note_written(int iteration, std::int64_t bytes, std::int64_t start_monotonic_ns,
                    std::int64_t end_monotonic_ns);

  const Recorder& recorder() const { return recorder_; }
  // Of the measured iterations. A peak's time is not known: they have several.
  std::int64_t peak_chunks() const { return peak_chunks_; }
  RankMemory peak_memory() const;

 private:
  // What a rank does in an iteration.
  struct List {
    explicit List(std::vector<Action> list);
    std::vector<Action> actions;
    std::int64_t reductions;  // among them
  };
  List whole_list(int rank) const;
  List list_without_step() const;
  std::optional<Outcome> run_in_time(int iteration, const SaveOf& save_of);
  Outcome run_list();
  Instant run_compute(const Action& action, Instant reached);  // its end
  Instant run_cell(const Cell& cell, Instant reached);         // likewise, of one that overlaps
  void post_ahead(std::size_t index);
  void do_together(const Action& action, Outcome& outcome);
  void note_memory(Instant time);
  void keep_up(Mark end);
  void poll();
  // Tells the workload which stages are reduced straight behind the action at a place.
  void announce_reductions(std::size_t index);
  // Whether memory has never been fuller: then `action` has filled it.
  void note_peak(const Action& action);

  const TrainingJob& training_;
  Device& device_;
  Transport& transport_;
  List with_step_;
  List without_step_;
  const List* list_ = &with_step_;  // of the iteration that runs
  Pool pool_;
  Recorder recorder_;
  Beside beside_;
  Mailbox mailbox_;
  std::unique_ptr<Workload> workload_;
  std::function<void()> between_actions_;

  const char* phase_ = "";  // for whom it took too long
  std::size_t posted_ = 0;  // actions up to here have their receives posted
  std::deque<Mark> asked_;  // ends of compute actions that the device may not have reached
  std::int64_t chunks_ = 0;
  std::int64_t peak_chunks_ = 0;
  std::int64_t peak_bytes_ = 0;
  Action peak_action_;
};

}  // namespace pipesim::exec
