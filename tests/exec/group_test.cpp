// Groups of ranks as transports: a rank reaches others by their places in the group.
#include "exec/transport/group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "exec/device/devices.h"
#include "exec/run/ranks.h"
#include "exec/run/session.h"
#include "exec/run/worker.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/errors.h"
#include "tests/local_run.h"

namespace pipesim::exec {
namespace {

// Sends on what it has received; at the ends it makes it: a mark of its replica, which
// whatever arrives must have.
class Marking final : public Workload {
 public:
  Marking(Pool& pool, float mark, int last_stage)
      : pool_(pool), mark_(mark), last_stage_(last_stage) {}

  void start_iteration(int /*iteration*/) override {}
  Tensor run(const Action& action, Tensor input) override {
    const bool forward = action.kind == Kind::F;
    if (!input.empty()) {
      EXPECT_EQ(*input.floats(), mark_) << to_text(action);
    }
    if (action.stage == (forward ? last_stage_ : 0)) return {};
    Tensor output = pool_.take(1, Use::activations);
    *output.floats() = mark_;
    return output;
  }
  void reduce(int /*stage*/, std::int64_t /*number*/, std::int64_t /*count*/) override {}
  void reduce_tied(int /*stage*/) override {}
  Outcome find_norm(int /*stage*/) override { return {}; }
  void step(int /*stage*/, double /*gradient_norm*/) override {}

 private:
  Pool& pool_;
  float mark_;
  int last_stage_;
};

TEST(GroupTransport, ReplicasOfAPipelineRunSideBySide) {
  for (const char* name : {"1f1b", "interleaved", "zb-h1"}) {
    SCOPED_TRACE(name);
    TrainingJob training;
    training.program = lower(generate({.name = name, .ranks = 3, .microbatches = 6}));
    StageCosts costs;
    costs.output_bytes = sizeof(float);
    training.costs.emplace().stages.assign(static_cast<std::size_t>(training.program.stages()),
                                           costs);
    const Mesh mesh({.data = 2, .pipeline = 3});
    run_as_threads(6, {}, [&](Transport& transport) {
      transport.set_patience(std::chrono::seconds(20));  // for messages that go astray
      const int rank = transport.rank();
      const int replica = static_cast<int>(mesh.coordinates_of(rank).data);
      GroupTransport pipeline(transport, mesh.group_of(rank, Axis::pipeline));
      EXPECT_EQ(pipeline.ranks(), 3);
      EXPECT_EQ(pipeline.rank(), rank / 2);
      EXPECT_EQ(pipeline.on_below(rank / 2), rank);
      const auto device = make_device("cpu");
      Worker worker(
          training, *device, pipeline, Clock(),
          [&](Pool& pool, Recorder&, OverlappedCollectives&, const std::function<void()>&) {
            return std::make_unique<Marking>(pool, static_cast<float>(replica),
                                             training.program.stages() - 1);
          });
      for (int i = 0; i < training.warmup + 1; ++i) worker.run(i);
      std::multiset<std::string> did;
      for (const Span& span : worker.recorder().iterations().front().spans) {
        did.insert(to_text(span.action));
      }
      std::multiset<std::string> planned;
      for (const Action& action : training.program.actions[rank / 2]) {
        planned.insert(to_text(action));
      }
      EXPECT_EQ(did, planned);
    });
  }
}

TEST(GroupTransport, ATransportOfAnotherNumberOfRanksIsRefused) {
  const TrainingJob training = testing::tiny_training(
      generate({.name = "1f1b", .ranks = 3, .microbatches = 2}), testing::tiny_model(4));
  for (const int ranks : {1, 2, 4}) {
    EXPECT_EQ(
        testing::input_error_of([&] {
          run_as_threads(ranks, {}, [&](Transport& transport) {
            const auto device = make_device("cpu");
            run_session(
                training, *device, transport, [](int, const std::optional<Outcome>&) {}, nullptr);
          });
        }),
        training.program.name + " needs 3 ranks, and transport local has " + std::to_string(ranks) +
            "; start as many");
  }
}

}  // namespace
}  // namespace pipesim::exec
