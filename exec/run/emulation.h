// The workload that only takes time: every action lasts as long as its cost, while messages are
// real, except over links that the costs describe (emulated_links.h). Paced by the wall clock, an
// action starts when its rank and its input are ready and takes its time from then on: the real
// cost of transfers and waking up shows. Anchored, it ends when it would end by the costs alone:
// each message carries the time at which its sender should have ended, and actions count from
// there. Then the ranks compute a prediction and merely keep to it, so an anchored run proves no
// more than that. Exchanges of replicas are real messages, too, of arrays that are never computed.
// They progress while an action takes its time, and gradients become ready evenly over the action
// that makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "exec/run/emulated_states.h"
#include "exec/run/faults.h"
#include "exec/run/precise_sleep.h"
#include "exec/run/recorder.h"
#include "exec/run/replicas.h"
#include "exec/run/workload.h"
#include "exec/transport/transport.h"
#include "sim/cost/costs.h"
#include "sim/schedule/schedule.h"

namespace pipesim::exec {

enum class EmulationPace : std::uint8_t { wall, anchored };
std::string_view pace_name(EmulationPace pace);

struct TrainingJob;

class Emulation final : public Workload {
 public:
  // `training` must have costs; all must outlive it. Activations are counted in `pool`, not
  // allocated.
  Emulation(const TrainingJob& training, RankGroups& groups, Pool& pool, Recorder& recorder,
            OverlappedCollectives& beside);

  void start_iteration(int iteration) override;
  void await_start(const Action& action, const Tensor& input) override;
  Tensor run(const Action& action, Tensor input) override;
  // If costs have a time for the cell, in addition to those of its two actions.
  bool overlaps(const Action& forward) const override {
    return costs_of(forward.stage).overlap_ns.has_value();
  }
  void await_cell(const Cell& cell, const std::array<Tensor, 2>& inputs) override;
  std::array<Tensor, 2> run_cell(const Cell& cell, std::array<Tensor, 2> inputs) override;
  void will_reduce(int stage) override;
  bool unshard(int stage) override;
  bool reshard(int stage) override;
  void reduce(int stage, std::int64_t number, std::int64_t count) override;
  void reduce_tied(int stage) override { meet(Kind::REDUCE_TIED, stage); }
  Outcome find_norm(int stage) override {
    meet(Kind::GRAD_NORM, stage);
    return {};
  }
  void step(int stage, double gradient_norm) override;

  // Bytes that each virtual stage sends to the next; anchored messages have room for a time.
  static std::vector<std::int64_t> message_bytes(const Costs& costs, EmulationPace pace);

 private:
  // Of the rank's own copy.
  const StageCosts& costs_of(int stage) const {
    const Placement& placement = program_.placement;
    return costs_.of(stage, placement.rank_of(stage) == rank_ ? 0 : placement.copies() - 1,
                     placement);
  }
  std::int64_t ready_ns(const Action& action, const Tensor& input) const;
  void close(Kind kind, int stage, std::int64_t duration_ns);
  EmulatedStates& states_of(int stage);
  // Advances exchanges until then.
  void pass_until(std::int64_t monotonic_ns);
  // Waits until an action may start that, anchored, would start then.
  void start_at(const Action& action, std::int64_t ready_ns);
  // Its actual start.
  std::int64_t started_ns() const;
  // Waits for exchanges with its stage's replicas.
  void await_replicas(const Action& action);
  // Counts the memory held from its start on, and from its end on; returns its result.
  void charge_start(const Action& action);
  Tensor finish(const Action& action);
  // Lets the time of an action pass, with gradients becoming ready.
  void pass(const Action& action, std::int64_t start_ns, std::int64_t end_ns);
  // A blocking collective: the latest end of the ranks of its group counts.
  void meet(Kind kind, int stage);

  const TrainingJob& training_;
  const Schedule& program_;
  const Costs& costs_;
  EmulationPace pace_;
  int rank_;
  Transport& transport_;  // of the pipeline
  Transport& whole_;
  Pool& pool_;
  Recorder& recorder_;
  OverlappedCollectives& beside_;
  Pool arrays_;  // for exchanged arrays
  Replicas replicas_;
  std::vector<std::unique_ptr<EmulatedStates>> states_;  // by chunk, if there are replicas
  int reduced_next_ = -1;  // the stage to be reduced after the next action
  int iteration_ = 0;
  PreciseSleep sleep_;
  std::int64_t start_ns_ = 0;  // if anchored: of the running action
  std::int64_t end_ns_ = 0;    // when the rank's last action should have ended
};

}  // namespace pipesim::exec
