// Whole iterations of a worker on one rank against the definitions: loss, norm
// and gradients by the oracle's differences, then AdamW in double.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "exec/run/trainer.h"
#include "exec/run/worker.h"
#include "exec/transport/local.h"
#include "sim/schedule/family.h"
#include "sim/schedule/lower.h"
#include "tests/files.h"
#include "tests/layers.h"

namespace pipesim::exec {
namespace {

using testing::differences;
using testing::Doubles;
using testing::every_index;
using testing::Example;
using testing::expect_near_as_a_whole;
using testing::oracle_losses;
using testing::OracleBatch;
using testing::read;
using testing::Weights;
using testing::wide;

constexpr int iterations = 4;
constexpr int microbatches_a_step = 3;
constexpr double learning_rate = 0.01;

struct Case {
  const char* schedule;
  int chunks;
  std::vector<int> layout;
  bool recompute;
};

// Bytes below the vocabulary of a tiny example.
Text tiny_text(const testing::TemporaryFolder& folder) {
  std::ofstream file(folder / "text", std::ios::binary);
  for (const std::int32_t token : testing::choices(500, 6, 1)) file << static_cast<char>(token);
  file.close();
  return Text::read(folder / "text");
}

TrainingJob training_by(const Case& which, const Example& example, const Text& text) {
  TrainingJob training;
  ScheduleRequest request{which.schedule, 1, microbatches_a_step};
  if (which.chunks > 1) request.chunks = which.chunks;
  training.program = lower(generate(request));
  training.model = example.model;
  training.layout = which.layout;
  training.text = text;
  training.micro_batch_size = example.batch;
  training.sequence_length = example.sequence;
  training.iterations = iterations;
  training.warmup = 0;
  training.seed = testing::example_seed;
  training.learning_rate = static_cast<float>(learning_rate);
  training.recompute.full = which.recompute;
  training.record_details = true;
  return training;
}

Weights read_all(Device& device, const Trainer& trainer, Slice Parameter::*which) {
  Weights all;
  for (const auto& stage : trainer.stages()) {
    for (const auto& layer : stage->layers()) {
      for (const Parameter& parameter : layer->parameters()) {
        all[parameter.name] = wide(read(device, parameter.*which));
      }
    }
  }
  return all;
}

std::vector<OracleBatch> batches_of(const TrainingJob& training, int iteration) {
  std::vector<OracleBatch> batches;
  for (std::uint32_t j = 0; j < microbatches_a_step; ++j) {
    const auto step = static_cast<std::uint32_t>(iteration);
    const std::int64_t first = j * training.micro_batch_size;
    const Sample sample = draw_sample(training.text, training.seed, step, first,
                                      training.micro_batch_size, training.sequence_length);
    batches.push_back(
        {training.sequence_length, sample.tokens, sample.targets, training.seed, step, first});
  }
  return batches;
}

// The mean over all tokens of the iteration.
double oracle_loss(const TrainingJob& training, const Weights& weights, int iteration) {
  double sum = 0;
  std::int64_t tokens = 0;
  for (const OracleBatch& batch : batches_of(training, iteration)) {
    for (const double loss : oracle_losses(training.model, weights, batch)) {
      sum += loss;
      ++tokens;
    }
  }
  return sum / static_cast<double>(tokens);
}

// Of the mean loss, by each parameter; a shared matrix is moved in both places.
Weights oracle_gradients(const TrainingJob& training, const Weights& weights, int iteration) {
  Weights gradients;
  for (const auto& parameter : weights) {
    const std::string& name = parameter.first;
    const Doubles& values = parameter.second;
    Weights changed = weights;
    const bool shared =
        training.model.tied_head && (name == "embedding table" || name == "head matrix");
    gradients[name] = differences(values, every_index(values.size()), [&](const Doubles& x) {
      changed.at(name) = x;
      if (shared) changed.at("embedding table") = changed.at("head matrix") = x;
      return oracle_loss(training, changed, iteration);
    });
  }
  return gradients;
}

// A parameter of a tied model counts once.
double norm_of(const Weights& gradients, bool tied) {
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    if (tied && name == "head matrix") continue;
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

// AdamW with decoupled weight decay and bias correction, in double.
class Adam {
 public:
  void step(Weights& weights, const Weights& gradients, double scale) {
    ++steps_;
    for (auto& [name, w] : weights) {
      const bool decays = name.ends_with("matrix") || name.ends_with("table");
      Doubles& first = first_[name];
      Doubles& second = second_[name];
      first.resize(w.size());
      second.resize(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double g = gradients.at(name)[i] * scale;
        first[i] = 0.9 * first[i] + 0.1 * g;
        second[i] = 0.95 * second[i] + 0.05 * g * g;
        const double mean = first[i] / (1 - std::pow(0.9, steps_));
        const double square = second[i] / (1 - std::pow(0.95, steps_));
        w[i] -= learning_rate * (mean / (std::sqrt(square) + 1e-8) + (decays ? 0.1 * w[i] : 0));
      }
    }
  }

  const Doubles& first(const std::string& name) const { return first_.at(name); }
  const Doubles& second(const std::string& name) const { return second_.at(name); }

 private:
  int steps_ = 0;
  Weights first_;
  Weights second_;
};

// What is left at the end of each iteration: states, and the arrays that the
// rank has for its samples and losses.
void expect_nothing_left(const TrainingJob& training, const Worker& worker) {
  std::int64_t parameters = 0;
  for (int i = 0; i < training.model.layers(); ++i) {
    parameters += training.model.layer_parameters(i);
  }
  UsedBytes want;
  want[Use::weights] = 4 * parameters;
  want[Use::gradients] = 4 * parameters;
  want[Use::optimizer] = 8 * parameters;
  want[Use::receive_buffer] = training.tokens() * 4 * 3;
  ASSERT_EQ(worker.recorder().iterations().size(), std::size_t{iterations});
  const RankMemory peak = worker.peak_memory();
  for (const IterationRecord& record : worker.recorder().iterations()) {
    for (const MemorySample& end : {record.samples.front(), record.samples.back()}) {
      EXPECT_EQ(end.states, want.states());
      EXPECT_EQ(end.working, want.working());
    }
    EXPECT_EQ(record.samples.back().chunks, 0);
    for (const MemorySample& sample : record.samples) {
      EXPECT_LE(sample.states.total() + sample.working.total(), peak.total());
    }
  }
  EXPECT_EQ(peak.states.total(), 16 * parameters);
}

// Trains and compares step by step. Gradients of `strong` weights are always
// clipped, those of initial ones sometimes or never.
void check(const Case& which, const Example& example, bool strong) {
  SCOPED_TRACE(std::string(which.schedule) + ", " + example.model.name);
  const testing::TemporaryFolder folder;
  const TrainingJob training = training_by(which, example, tiny_text(folder));
  const auto device = testing::make_test_device();
  LocalWorld world(1);
  const Trainer* trainer = nullptr;
  RankGroups groups(world.transport(0), Mesh(), 1);
  Worker worker(training, *device, world.transport(0), Clock(),
                [&](Pool& pool, Recorder& recorder, OverlappedCollectives& beside,
                    const std::function<void()>& poll) {
                  auto own = std::make_unique<Trainer>(training, *device, groups, pool, recorder,
                                                       beside, poll);
                  trainer = own.get();
                  return own;
                });
  if (strong) {
    for (const auto& stage : trainer->stages()) {
      for (const auto& layer : stage->layers()) {
        testing::strengthen(*device, *layer, example.model);
      }
    }
  }
  Adam adam;
  int clipped = 0;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    SCOPED_TRACE("iteration " + std::to_string(iteration));
    Weights weights = read_all(*device, *trainer, &Parameter::weight);
    const Outcome outcome = worker.run(iteration).value();
    EXPECT_NEAR(outcome.loss, oracle_loss(training, weights, iteration), 5e-6);

    const Weights want = oracle_gradients(training, weights, iteration);
    Weights gradients = read_all(*device, *trainer, &Parameter::gradient);
    for (auto& [name, sums] : gradients) {
      for (double& sum : sums) sum /= static_cast<double>(training.tokens());
      expect_near_as_a_whole(sums, want.at(name), 2e-5, 1e-6, name);
    }
    const double norm = norm_of(want, training.model.tied_head);
    EXPECT_NEAR(outcome.gradient_norm, norm, 2e-5 * norm);
    clipped += norm > 1 ? 1 : 0;

    // From the layers' own gradients, which were just found right: AdamW makes
    // much of those that are nearly 0.
    adam.step(weights, gradients, norm > 1 ? 1 / norm : 1);
    for (const auto& [name, got] : read_all(*device, *trainer, &Parameter::weight)) {
      expect_near_as_a_whole(got, weights.at(name), 1e-6, 1e-6, name);
    }
    // Weights hardly change with the size of all gradients; moments do.
    for (const auto& [name, got] : read_all(*device, *trainer, &Parameter::first)) {
      expect_near_as_a_whole(got, adam.first(name), 2e-5, 1e-12, name);
    }
    for (const auto& [name, got] : read_all(*device, *trainer, &Parameter::second)) {
      expect_near_as_a_whole(got, adam.second(name), 4e-5, 1e-15, name);
    }
    if (training.model.tied_head) {
      const Weights after = read_all(*device, *trainer, &Parameter::weight);
      EXPECT_EQ(after.at("embedding table"), after.at("head matrix"));
    }
  }
  EXPECT_EQ(clipped == iterations, strong) << clipped;
  expect_nothing_left(training, worker);
}

Example mlp() {
  Example example = testing::tiny_example(false);
  example.model.shape_as(Architecture::mlp);
  example.model.name = "mlp";
  example.model.heads = 1;
  example.model.kv_heads = 1;
  example.model.mlp_size = example.model.hidden_size;
  return example;
}

Example llama() {
  Example example = testing::tiny_example(false);
  example.model.shape_as(Architecture::llama);
  example.model.name = "llama";
  example.model.hidden_size = 8;
  example.model.kv_heads = 1;
  example.model.biases.qkv = true;
  return example;
}

TEST(Step, IsTheDefinitionsWhereGradientsAreAlwaysClipped) {
  for (const Example& example :
       {testing::tiny_example(true), testing::tiny_example(false), llama()}) {
    check({"1f1b", 1, {3}, false}, example, true);
  }
}

TEST(Step, IsTheDefinitionsFromInitialWeights) {
  for (const Example& example :
       {testing::tiny_example(true), testing::tiny_example(false), mlp(), llama()}) {
    check({"gpipe", 1, {3}, false}, example, false);
  }
}

TEST(Step, IsTheSameWithIAndWWithChunksAndWithRecomputation) {
  check({"zb-h1", 1, {3}, false}, testing::tiny_example(true), true);
  check({"interleaved", 2, {2, 1}, false}, testing::tiny_example(true), true);
  check({"interleaved-zb", 3, {1, 1, 1}, true}, testing::tiny_example(false), true);
}

}  // namespace
}  // namespace pipesim::exec
