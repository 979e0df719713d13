// The workload that only takes time: every action lasts as long as costs say,
// while messages are real, but for the links that costs describe (emulated_links.h).
//
// Paced by the wall clock, an action starts when its rank and its input are
// there and takes its time from then on: what transfers and waking up cost
// shows. Anchored, it ends when it would end if they cost nothing but what the
// costs say: each message carries when its sender should have ended, and
// actions count from there. Then the ranks compute a prediction and merely
// keep to it, so an anchored run proves no more than that.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "exec/run/faults.h"
#include "exec/run/precise_sleep.h"
#include "exec/run/recorder.h"
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
  // `training` has costs and outlives it, as the transport of the pipeline does. Activations are
  // counted in `pool`, not taken.
  Emulation(const TrainingJob& training, Transport& transport, Pool& pool, Recorder& recorder);

  void start_iteration(int iteration) override;
  void await_start(const Action& action, const Tensor& input) override;
  Tensor run(const Action& action, Tensor input) override;
  void reduce(int stage, std::int64_t number, std::int64_t count) override;
  void reduce_tied(int stage) override { meet(Kind::REDUCE_TIED, stage); }
  Outcome find_norm(int stage) override {
    meet(Kind::GRAD_NORM, stage);
    return {};
  }
  void step(int stage, double gradient_norm) override;

  // What each virtual stage sends to the next; anchored messages have room for
  // a time.
  static std::vector<std::int64_t> message_bytes(const Costs& costs, EmulationPace pace);

 private:
  const StageCosts& costs_of(int stage) const {
    return costs_.stages[static_cast<std::size_t>(stage)];
  }
  std::int64_t ready_ns(const Action& action, const Tensor& input) const;
  void close(Kind kind, int stage, std::int64_t duration_ns);
  // A blocking collective: the latest end of the ranks of its group counts.
  void meet(Kind kind, int stage);

  const TrainingJob& training_;
  const Schedule& program_;
  const Costs& costs_;
  EmulationPace pace_;
  int rank_;
  Transport& transport_;
  Pool& pool_;
  Recorder& recorder_;
  int iteration_ = 0;
  PreciseSleep sleep_;
  std::int64_t start_ns_ = 0;  // anchored, of the action that runs
  std::int64_t end_ns_ = 0;    // of the rank's last action, as it should have been
};

}  // namespace pipesim::exec
