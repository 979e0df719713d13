// Real runs, ranks as threads: every schedule gives what one rank gives, bit
// by bit, and holds what was predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "exec/device/devices.h"
#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/receives.h"
#include "tests/delayed_transport.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/forwarding_transport.h"
#include "tests/local_run.h"
#include "tests/random_schedule.h"

namespace pipesim {
namespace {

using exec::RunResult;
using exec::TrainingJob;
using testing::run_locally;
using testing::tiny_model;
using testing::tiny_training;

std::vector<std::int64_t> peaks(const Metrics& metrics) {
  std::vector<std::int64_t> chunks;
  for (const RankMetrics& rank : metrics.ranks) chunks.push_back(rank.peak_activation_chunks);
  return chunks;
}

// That a run is right: the bits of one rank, the peaks of the prediction, and
// every action of the program once.
void expect_right(const Schedule& schedule, const TrainingJob& training, const RunResult& result) {
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(result.verification->bitwise) << result.verification->worst;
  EXPECT_EQ(result.verification->max_abs_error, 0);
  EXPECT_EQ(result.verification->max_rel_error, 0);
  const Costs costs = testing::costs_of(schedule.stages(), 10, 20);
  EXPECT_EQ(peaks(result.metrics), peaks(simulate(schedule, costs)));

  std::vector<std::string> planned;
  std::vector<std::string> done;
  const std::vector<Closing> closing(static_cast<std::size_t>(schedule.ranks()),
                                     {true, training.model.tied_head, true, true});
  const Schedule whole = with_closing(training.program, closing);
  for (const Action& action : whole.actions.all()) {
    if (action.kind == Kind::IDLE) continue;
    planned.push_back(to_text(make_action(action.stage, action.kind, action.microbatch)));
  }
  for (const Span& span : result.run.spans) {
    done.push_back(to_text(span.action));
    EXPECT_LE(span.start_ns, span.end_ns);
  }
  std::ranges::sort(planned);
  std::ranges::sort(done);
  EXPECT_EQ(done, planned);
}

void run_and_expect_right(const Schedule& schedule, bool recompute,
                          std::optional<std::int64_t> eager_limit_bytes = {}) {
  TrainingJob training = tiny_training(schedule, tiny_model(std::max(4, schedule.stages())));
  training.recompute.full = recompute;
  expect_right(schedule, training, run_locally(training, eager_limit_bytes));
}

// Every family, recomputation on and off, 1 to 4 ranks, fewer and more
// microbatches than ranks.
TEST(Run, EverySchedule) {
  int runs = 0;
  for (const Family& family : all_families()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const int microbatches : {1, 2, 3, 4, 7}) {
        ScheduleRequest request{std::string(family.name), ranks, microbatches};
        Schedule schedule;
        try {
          schedule = generate(request);
          if (find_deadlock(schedule, SendMode::buffered)) continue;
        } catch (const Error& error) {
          // A shape that the family's definition leaves out.
          EXPECT_EQ(error.exit_status(), 2);
          continue;
        }
        for (const bool recompute : {false, true}) {
          SCOPED_TRACE(::testing::Message() << family.name << " p=" << ranks
                                            << " m=" << microbatches << " recompute=" << recompute);
          run_and_expect_right(schedule, recompute);
          ++runs;
        }
      }
    }
  }
  EXPECT_GE(runs, 360) << "of 400: few shapes are outside a family's definition";
}

TEST(Run, ManyChunksAndOtherPlacements) {
  const std::vector<ScheduleRequest> requests{
      {.name = "interleaved", .ranks = 2, .microbatches = 5, .chunks = 3, .group = 3},
      {.name = "interleaved-zb", .ranks = 2, .microbatches = 4, .chunks = 3},
      {.name = "bfs", .ranks = 3, .microbatches = 2, .chunks = 2, .placement = "v"},
      {.name = "naive", .ranks = 2, .microbatches = 3, .chunks = 2, .placement = "0,1,1,0"},
      {.name = "bfs", .ranks = 3, .microbatches = 3, .chunks = 1, .placement = "2,0,1"},
  };
  for (const ScheduleRequest& request : requests) {
    SCOPED_TRACE(request.name);
    run_and_expect_right(generate(request), false);
    run_and_expect_right(generate(request), true);
  }
}

// Whatever a file says: PyTorch's DualPipeV and zero-bubble orders, programs
// with transfers, one that deadlocks where a receive holds up what follows it.
TEST(Run, ScheduleFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::golden(""))) {
    if (entry.path().extension() != ".csv") continue;
    SCOPED_TRACE(entry.path().filename());
    const Schedule schedule = read_csv(entry.path().string());
    if (find_deadlock(schedule, SendMode::buffered)) continue;
    run_and_expect_right(schedule, false);
    run_and_expect_right(schedule, true, 0);
    ++files;
  }
  EXPECT_GE(files, 12);
}

// Receives are posted, so that none holds up what stands behind it.
TEST(Run, WhereverReceivesStand) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE(i);
    const Schedule program = lower(i < 4 ? generate({.name = i % 2 == 0 ? "1f1b" : "interleaved-zb",
                                                     .ranks = 2 + i / 2,
                                                     .microbatches = 4 + 2 * (i / 2)})
                                         : testing::random_schedule(random));
    for (const Receives where : all_receives()) {
      SCOPED_TRACE(receives_name(where));
      const auto by_number = [](const Action& first) {
        return CellTimes{first.microbatch, first.microbatch + 1};
      };
      run_and_expect_right(place_receives(program, where, {{}, by_number}), i % 4 < 2,
                           i % 3 == 0 ? std::optional<std::int64_t>(0) : std::nullopt);
    }
  }
}

TEST(Run, RandomSchedulesAndShuffledPrograms) {
  std::mt19937_64 random(7);
  int runs = 0;
  for (int i = 0; i < 90; ++i) {
    SCOPED_TRACE(i);
    Schedule schedule = testing::random_schedule(random);
    if (i % 2 == 1) {
      schedule = lower(schedule);
      testing::shuffle(schedule, random);
      if (find_deadlock(schedule, SendMode::buffered)) continue;
    }
    run_and_expect_right(schedule, i % 4 < 2,
                         i % 3 == 0 ? std::optional<std::int64_t>(0) : std::nullopt);
    ++runs;
  }
  EXPECT_GE(runs, 45);
}

TEST(Run, OtherModels) {
  const Schedule schedule = generate({.name = "zb-h1", .ranks = 3, .microbatches = 4});
  for (const Architecture architecture :
       {Architecture::gpt, Architecture::llama, Architecture::mlp}) {
    for (const bool tied : {false, true}) {
      for (const std::vector<int>& layout : {std::vector{1, 4, 1}, {4, 1, 1}, {1, 1, 4}}) {
        SCOPED_TRACE(::testing::Message() << "tied " << tied << " first " << layout.front());
        Model model = tiny_model(6, architecture);
        model.tied_head = tied;
        TrainingJob training = tiny_training(schedule, model);
        training.layout = layout;
        training.iterations = 3;
        expect_right(schedule, training, run_locally(training));
      }
    }
  }
}

// Rows and columns of scores come in blocks of 64 and 512.
TEST(Run, FusedAttention) {
  for (const Architecture architecture : {Architecture::gpt, Architecture::llama}) {
    for (const std::int64_t sequence : {3, 65, 530}) {
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(::testing::Message() << sequence << " tokens, recompute " << recompute);
        const Schedule schedule = generate({.name = "zb-h1", .ranks = 2, .microbatches = 3});
        Model model = tiny_model(4, architecture);
        model.max_sequence_length = sequence;
        TrainingJob training = tiny_training(schedule, model);
        training.sequence_length = sequence;
        training.attention = Attention::fused;
        training.recompute.full = recompute;
        expect_right(schedule, training, run_locally(training));
      }
    }
  }
}

// Whatever the transport is slow at, only time changes.
TEST(Run, RandomDelaysChangeNothing) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h2", "bfs"}) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(::testing::Message() << name << " " << seed);
      const Schedule schedule = generate({.name = name, .ranks = 4, .microbatches = 5});
      TrainingJob training = tiny_training(schedule, tiny_model(8));
      training.iterations = 2;
      const testing::Wrap wrap = [&](exec::Transport& own) {
        const auto drawn = 100 * seed + static_cast<unsigned>(own.rank());
        return std::make_unique<testing::DelayedTransport>(own, drawn);
      };
      const auto limit = seed % 2 == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
      expect_right(schedule, training, run_locally(training, limit, wrap));
    }
  }
}

// A transport that spoils one bit of the first message of a size.
class SpoilingTransport final : public testing::ForwardingTransport {
 public:
  SpoilingTransport(exec::Transport& inner, std::size_t size)
      : ForwardingTransport(inner), size_(size) {}

  exec::Ticket send(int to, int tag, std::span<const std::byte> bytes) override {
    if (bytes.size() != size_ || !spoilt_.empty()) return ForwardingTransport::send(to, tag, bytes);
    spoilt_.assign(bytes.begin(), bytes.end());
    spoilt_.front() ^= std::byte{1};  // the last bit of a float
    return ForwardingTransport::send(to, tag, spoilt_);
  }

 private:
  std::size_t size_;
  std::vector<std::byte> spoilt_;
};

TEST(Run, VerificationSeesASingleBit) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 3});
  const TrainingJob training = tiny_training(schedule, tiny_model(4));
  const auto size = static_cast<std::size_t>(training.rows() * training.model.hidden_size) * 4;
  const RunResult result = run_locally(training, {}, [&](exec::Transport& own) {
    return std::make_unique<SpoilingTransport>(own, size);
  });
  EXPECT_FALSE(result.verification->bitwise);
  EXPECT_GT(result.verification->max_rel_error, 0);
  EXPECT_LT(result.verification->max_rel_error, 1e-3);
  EXPECT_NE(result.verification->worst.find(" of "), std::string::npos);
}

// Schedules with the same order of microbatches on every stage have the same
// losses to the last bit; others nearly.
TEST(Run, LossFallsAlikeOnRealText) {
  Model model = tiny_model(6);
  model.hidden_size = 32;
  model.heads = 4;
  model.kv_heads = 4;
  model.mlp_size = 64;
  model.max_sequence_length = 32;
  model.dropout_ppm = 0;
  std::vector<std::vector<double>> all;
  for (const char* name : {"1f1b", "zb-h1", "gpipe", "naive", "interleaved", "bfs"}) {
    TrainingJob training =
        tiny_training(generate({.name = name, .ranks = 2, .microbatches = 4}), model);
    training.micro_batch_size = 2;
    training.sequence_length = 32;
    training.iterations = 200;
    training.learning_rate = 3e-3F;
    training.verify = false;
    const RunResult result = run_locally(training);
    EXPECT_NEAR(result.losses.front(), std::log(128), 0.1) << name;
    EXPECT_LT(result.losses.back(), 3) << name;
    all.push_back(result.losses);
  }
  for (std::size_t i = 1; i + 1 < all.size(); ++i) EXPECT_EQ(all[i], all[0]) << i;
  // Breadth-first sums gradients from the last microbatch to the first.
  EXPECT_NE(all.back(), all[0]);
  double largest = 0;
  for (std::size_t k = 0; k < all[0].size(); ++k) {
    largest = std::max(largest, std::abs(all.back()[k] - all[0][k]));
  }
  EXPECT_LT(largest, 1e-3);
}

// A training that diverges alike everywhere is the same, though no number is.
TEST(Run, VerificationOfWhatIsNotANumber) {
  const Schedule schedule = generate({.name = "1f1b", .ranks = 2, .microbatches = 3});
  TrainingJob training = tiny_training(schedule, tiny_model(4));
  training.learning_rate = 1e30F;
  training.iterations = 4;
  const RunResult result = run_locally(training);
  EXPECT_TRUE(std::isnan(result.losses.back()));
  expect_right(schedule, training, result);
}

// Sums in another order are near, but have other bits: what a verification
// must not take for the same.
TEST(Run, TheReferenceFollowsTheOrderOfTheProgram) {
  const auto training_by = [](const char* name) {
    const ScheduleRequest request{.name = name, .ranks = 2, .microbatches = 5, .chunks = 1};
    return tiny_training(generate(request), tiny_model(4));
  };
  const TrainingJob ascending = training_by("gpipe");
  const TrainingJob descending = training_by("bfs");
  const auto device = exec::make_device("cpu");
  const exec::Outcome one = exec::Reference(ascending, *device).run({});
  const exec::Outcome other = exec::Reference(descending, *device).run({});
  EXPECT_EQ(one.loss, other.loss);
  EXPECT_NE(one.gradient_norm, other.gradient_norm);
  EXPECT_NEAR(one.gradient_norm, other.gradient_norm, 1e-5 * one.gradient_norm);
}

}  // namespace
}  // namespace pipesim
