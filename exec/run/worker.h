// Runs one rank: interprets its row of the program, iteration by iteration.
// It never asks which schedule it runs. An asynchronous device may be a few actions behind. All
// ranks make a worker of the same training and call run() for the same iterations. A worker belongs
// to its rank's thread; device and transport must outlive it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/run/mailbox.h"
#include "exec/run/recorder.h"
#include "exec/run/training.h"
#include "exec/run/workload.h"
#include "traces/action_key.h"
#include "traces/memory.h"

namespace pipesim::exec {

// Makes the rank's workload from its memory, its recorder and its overlapped collectives; `poll`
// advances the transport, and may be called often.
using MakeWorkload = std::function<std::unique_ptr<Workload>(Pool& pool, Recorder& recorder,
                                                             OverlappedCollectives& beside,
                                                             const std::function<void()>& poll)>;

class Worker {
 public:
  // `transport` has the ranks of the pipeline. Buffers are in the memory of that device.
  Worker(const TrainingJob& training, Device& memory, Transport& transport, const Clock& clock,
         const MakeWorkload& make_workload);

  // Runs one iteration, counted from 0; recorded after the warm-up. Returns the outcome of the step
  // that it ends; nothing if gradients are still accumulated. `save_of`, if given, is called at its
  // end: the function that it returns, if any, is run as the rank's SAVE.
  using Save = std::function<std::int64_t()>;  // returns the number of bytes
  using SaveOf = std::function<Save(const std::optional<Outcome>& outcome)>;
  std::optional<Outcome> run(int iteration, const SaveOf& save_of = {});

  // Sets a function to call between actions, which must not block.
  void between_actions(std::function<void()> work) { between_actions_ = std::move(work); }

  // The save at the end of an iteration has been written; recorded if that iteration was.
  void note_written(int iteration, std::int64_t bytes, std::int64_t start_monotonic_ns,
                    std::int64_t end_monotonic_ns);

  const Recorder& recorder() const { return recorder_; }
  // Of the measured iterations. A peak has no time, since there are several iterations.
  std::int64_t peak_chunks() const { return peak_chunks_; }
  RankMemory peak_memory() const;

 private:
  // A rank's actions in an iteration.
  struct List {
    explicit List(std::vector<Action> list);
    std::vector<Action> actions;
    std::int64_t reductions;  // among them
  };
  List whole_list(int rank) const;
  List list_without_step() const;
  std::optional<Outcome> run_in_time(int iteration, const SaveOf& save_of);
  Outcome run_list();
  Instant run_compute(const Action& action, Instant reached);  // returns its end
  Instant run_cell(const Cell& cell, Instant reached);         // the same for an overlapped cell
  void post_ahead(std::size_t index);
  // Waits for what the program says beside what every action needs.
  void await_others(const Action& action);
  void do_together(const Action& action, Outcome& outcome);
  void note_memory(Instant time);
  void keep_up(Mark end);
  void poll();
  // Tells the workload which stages are reduced directly after the action at an index.
  void announce_reductions(std::size_t index);
  // Notes a new peak of memory, if it is one, and that `action` caused it.
  void note_peak(const Action& action);

  const TrainingJob& training_;
  Device& device_;
  Transport& transport_;
  List with_step_;
  List without_step_;
  const List* list_ = &with_step_;  // of the current iteration
  Pool pool_;
  Recorder recorder_;
  OverlappedCollectives beside_;
  Mailbox mailbox_;
  std::unique_ptr<Workload> workload_;
  std::function<void()> between_actions_;

  const char* phase_ = "";                            // for the error if it takes too long
  std::size_t posted_ = 0;                            // receives of actions up to here are posted
  std::map<ActionKey, std::vector<Action>> awaited_;  // the program's own dependencies here
  std::deque<Mark> asked_;  // ends of compute actions that the device may not have reached
  std::int64_t chunks_ = 0;
  std::int64_t peak_chunks_ = 0;
  std::int64_t peak_bytes_ = 0;
  Action peak_action_;
};

}  // namespace pipesim::exec
