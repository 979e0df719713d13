// A stage's actions: one backward or two, kept or recomputed, out of order; and
// what they leave in memory.
#include "exec/run/stage.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/errors.h"
#include "tests/layers.h"

namespace pipesim::exec {
namespace {

using testing::bits;
using testing::error_of;
using testing::Example;
using testing::fused;
using testing::gpt_example;
using testing::llama_example;
using testing::mlp_example;
using testing::no_error;
using testing::read;
using testing::Tokens;

constexpr int microbatches = 3;

// One rank that holds all stages.
class Rank {
 public:
  // `layout`: the layers of each stage.
  Rank(const Example& example, const std::vector<int>& layout, bool recompute)
      : example_(example),
        device_(testing::make_test_device()),
        pool_(*device_),
        recorder_(*device_, Clock(), true) {
    recorder_.start_iteration(true);
    int first = 0;
    for (const int count : layout) {
      Stage::Setup setup{layer_setup()};
      setup.stage = static_cast<int>(stages_.size());
      setup.first_layer = first;
      setup.layer_count = count;
      setup.microbatches = microbatches;
      setup.layers.recompute.full = recompute;
      stages_.push_back(std::make_unique<Stage>(setup, recorder_, [this] { ++pauses_; }));
      first += count;
      for (const auto& layer : stages_.back()->layers()) {
        testing::strengthen(*device_, *layer, example.model);
      }
    }
    for (std::uint32_t j = 0; j < microbatches; ++j) {
      tokens_.push_back(std::make_unique<Tokens>(*device_, example, 2, j));
    }
  }

  Microbatch microbatch(int j) { return tokens_[static_cast<std::size_t>(j)]->microbatch(); }

  void forward(int j) {
    Tensor x;
    for (auto& stage : stages_) x = stage->forward(microbatch(j), std::move(x));
  }
  void backward(int j) {
    Tensor dy;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      dy = stages_[i]->backward(microbatch(j), std::move(dy));
    }
  }
  void backward_input(int j) {
    Tensor dy;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      dy = stages_[i]->backward_input(microbatch(j), std::move(dy));
    }
  }
  void backward_weight(int j) {
    for (std::size_t i = stages_.size(); i-- > 0;) stages_[i]->backward_weight(microbatch(j));
  }

  // Losses and gradients, as bits.
  std::vector<std::vector<std::uint32_t>> results() {
    std::vector<std::vector<std::uint32_t>> all;
    for (auto& tokens : tokens_) all.push_back(bits(tokens->losses()));
    for (const auto& stage : stages_) {
      for (const auto& layer : stage->layers()) {
        for (const Parameter& parameter : layer->parameters()) {
          all.push_back(bits(read(*device_, parameter.gradient)));
        }
      }
    }
    return all;
  }

  LayerSetup layer_setup() {
    return {*device_,          pool_,
            example_.model,    example_.batch,
            example_.sequence, testing::example_seed,
            Number::float32,   example_.attention};
  }
  Stage& stage(int i) { return *stages_[static_cast<std::size_t>(i)]; }
  Pool& pool() { return pool_; }
  Device& device() { return *device_; }
  Recorder& recorder() { return recorder_; }
  int pauses() const { return pauses_; }

 private:
  Example example_;
  std::unique_ptr<Device> device_;
  Pool pool_;
  Recorder recorder_;
  std::vector<std::unique_ptr<Tokens>> tokens_;
  std::vector<std::unique_ptr<Stage>> stages_;
  int pauses_ = 0;
};

// With two blocks and more: the whole model, and cut in the middle.
const std::vector<int> whole{4};
const std::vector<int> halves{2, 2};

std::vector<Example> examples() {
  Example mlp = mlp_example(false, 250'000);
  mlp.model.blocks = 2;
  return {gpt_example(true, 0),
          gpt_example(true, 300'000),
          gpt_example(false, 300'000),
          mlp,
          llama_example(false, 0, 2, true),
          llama_example(true, 300'000, 1, false),
          fused(llama_example(true, 0, 2, false))};
}

// ---- The same bits

std::vector<std::vector<std::uint32_t>> trained(const Example& example,
                                                const std::vector<int>& layout, bool split,
                                                bool recompute) {
  Rank rank(example, layout, recompute);
  for (int iteration = 0; iteration < 2; ++iteration) {  // the second on used memory
    for (int s = 0; s < static_cast<int>(layout.size()); ++s) rank.stage(s).start_step();
    for (int j = 0; j < microbatches; ++j) rank.forward(j);
    // Microbatches need not come back in order; but sums are made in one.
    const std::vector<int> order{1, 0, 2};
    if (split) {
      for (const int j : {2, 1, 0}) rank.backward_input(j);
      for (const int j : order) rank.backward_weight(j);
    } else {
      for (const int j : order) rank.backward(j);
    }
  }
  return rank.results();
}

TEST(Stage, OneBackwardOrTwoKeptOrRecomputedInOneStageOrTwoHaveTheSameBits) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.model.name);
    const auto want = trained(example, whole, false, false);
    for (const auto& layout : {whole, halves}) {
      for (const bool split : {false, true}) {
        for (const bool recompute : {false, true}) {
          EXPECT_EQ(trained(example, layout, split, recompute), want)
              << layout.size() << " stages, I and W: " << split << ", recompute: " << recompute;
        }
      }
    }
  }
}

// ---- Out of order

void expect_refused(const std::function<void()>& work, const std::string& action) {
  const std::string message = error_of(work);
  EXPECT_EQ(message.find(action + ": "), 0U) << message;
}

TEST(Stage, RefusesWhatIsOutOfOrderAndNamesIt) {
  for (const bool recompute : {false, true}) {
    const Example example = gpt_example(true, 100'000);
    Rank rank(example, whole, recompute);
    Stage& stage = rank.stage(0);
    const Microbatch first = rank.microbatch(0);
    const Microbatch second = rank.microbatch(1);
    expect_refused([&] { stage.backward_input(first, {}); }, "0I0");
    expect_refused([&] { stage.backward(second, {}); }, "0B1");
    expect_refused([&] { stage.backward_weight(second); }, "0W1");
    stage.forward(second, {});
    expect_refused([&] { stage.forward(second, {}); }, "0F1");
    expect_refused([&] { stage.backward_weight(second); }, "0W1");
    expect_refused([&] { stage.backward_input(first, {}); }, "0I0");
    EXPECT_NE(error_of([&] { stage.start_step(); }).find("stage 0: microbatch 1"),
              std::string::npos);
    stage.backward_input(second, {});
    expect_refused([&] { stage.forward(second, {}); }, "0F1");
    expect_refused([&] { stage.backward_input(second, {}); }, "0I1");
    expect_refused([&] { stage.backward(second, {}); }, "0B1");
    EXPECT_NE(error_of([&] { stage.start_step(); }).find("stage 0: microbatch 1"),
              std::string::npos);
    stage.backward_weight(second);
    expect_refused([&] { stage.backward_weight(second); }, "0W1");
    EXPECT_EQ(error_of([&] { stage.start_step(); }), no_error);

    // What was refused has left no trace.
    stage.forward(first, {});
    stage.backward(first, {});
    Rank fresh(example, whole, recompute);
    fresh.forward(1);
    fresh.backward(1);
    fresh.stage(0).start_step();
    fresh.forward(0);
    fresh.backward(0);
    EXPECT_EQ(rank.results().back(), fresh.results().back());
  }
}

TEST(Stage, NotesEachLayersPartAndPausesAfterIt) {
  for (const bool recompute : {false, true}) {
    Rank rank(gpt_example(true, 0), whole, recompute);
    rank.forward(0);
    EXPECT_EQ(rank.pauses(), 4);
    rank.backward(0);
    rank.forward(1);
    rank.backward_input(1);
    rank.backward_weight(1);
    rank.recorder().finish_iteration();
    const auto& records = rank.recorder().iterations().front().layers;
    EXPECT_EQ(rank.pauses(), static_cast<int>(records.size()));
    int again = 0;
    std::int64_t before = 0;
    std::multiset<std::string> parts;
    for (const LayerSpan& record : records) {
      EXPECT_LE(before, record.start_ns);
      EXPECT_LE(record.start_ns, record.end_ns);
      before = record.end_ns;
      if (record.again) {
        ++again;
        EXPECT_EQ(record.kind, Kind::F);
        EXPECT_TRUE(is_backward(record.action.kind));
        continue;
      }
      parts.insert(to_text(record.action) + "/" + std::string(kind_name(record.kind)) +
                   std::to_string(record.layer));
    }
    EXPECT_EQ(again, recompute ? 2 * 2 : 0);  // of two blocks
    std::multiset<std::string> want;
    for (const char* part : {"0F0/F", "0B0/I", "0B0/W", "0F1/F", "0I1/I", "0W1/W"}) {
      for (int layer = 0; layer < 4; ++layer) want.insert(part + std::to_string(layer));
    }
    EXPECT_EQ(parts, want);
  }
}

// ---- Memory

// What a layer keeps from F to I, in numbers, counted by hand.
std::int64_t kept(const Example& example, int layer) {
  const Model& model = example.model;
  const std::int64_t h = model.hidden_size;
  const std::int64_t n = example.rows();
  const bool is_mlp = model.architecture == Architecture::mlp;
  const std::int64_t stats = model.architecture == Architecture::llama ? 1 : 2;  // mean, rstd
  if (model.is_embedding(layer)) return 0;
  if (model.is_head(layer)) {  // the input, the logits; normed, and of each row how
    return n * (h + model.vocabulary_size) + (is_mlp ? 0 : n * (h + stats));
  }
  if (is_mlp) return n * 2 * h;  // the input, and what the GELU gets
  // The input, normed, q, k, v, mixed, the sum; normed, and before and after
  // the GELU, or gates and what they let through; how the rows were normed, twice;
  // the shares of attention, or how large they are together.
  std::int64_t scores = example.attention == Attention::fused ? 2 : example.sequence;
  if (testing::tests_a_gpu()) scores = 1;
  const std::int64_t inner = (model.architecture == Architecture::llama ? 3 : 2) * model.mlp_size;
  const std::int64_t heads = model.heads * model.head_size();
  return n * (4 * h + 2 * heads + 2 * model.kv_heads * model.head_size() + inner + 2 * stats) +
         n * model.heads * scores;
}

// And from I to W.
std::int64_t residue(const Example& example, int layer) {
  const Model& model = example.model;
  const std::int64_t h = model.hidden_size;
  const std::int64_t n = example.rows();
  const bool is_mlp = model.architecture == Architecture::mlp;
  const std::int64_t norm = (model.architecture == Architecture::llama ? 1 : 2) * h;
  if (model.is_embedding(layer)) return n * h;
  if (model.is_head(layer)) return n * (h + model.vocabulary_size) + (is_mlp ? 0 : norm);
  if (is_mlp) return n * 2 * h;
  // Of four matrices what goes in, and the gradient of what comes out; of two
  // norms the gradients of gamma and, of a layer norm, beta.
  const std::int64_t inner = (model.architecture == Architecture::llama ? 3 : 2) * model.mlp_size;
  const std::int64_t heads = model.heads * model.head_size();
  return n * (4 * h + 2 * heads + 2 * model.kv_heads * model.head_size() + inner) + 2 * norm;
}

std::int64_t over_layers(const Example& example, int first, int count,
                         std::int64_t (*part)(const Example&, int)) {
  std::int64_t numbers = 0;
  for (int layer = first; layer < first + count; ++layer) numbers += part(example, layer);
  return 4 * numbers;
}

UsedBytes states(const Model& model) {
  std::int64_t numbers = 0;
  for (int layer = 0; layer < model.layers(); ++layer) numbers += model.layer_parameters(layer);
  UsedBytes used;
  used[Use::weights] = 4 * numbers;
  used[Use::gradients] = 4 * numbers;
  used[Use::optimizer] = 8 * numbers;
  return used;
}

void expect_used(const Pool& pool, const UsedBytes& want, const char* when) {
  EXPECT_EQ(pool.used().by_use, want.by_use) << when;
  EXPECT_GE(pool.peak().total(), pool.used().total()) << when;
}

TEST(StageMemory, KeepsWhatItsLayersKeepAndGivesAllBack) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.model.name);
    Rank rank(example, whole, false);
    const UsedBytes before = states(example.model);
    expect_used(rank.pool(), before, "at first");
    for (int iteration = 0; iteration < 2; ++iteration) {
      rank.pool().reset_peak();
      EXPECT_EQ(rank.pool().peak().total(), before.total());
      UsedBytes want = before;
      rank.forward(0);
      want[Use::activations] += over_layers(example, 0, 4, kept);
      expect_used(rank.pool(), want, "after F0");
      rank.forward(1);
      want[Use::activations] += over_layers(example, 0, 4, kept);
      expect_used(rank.pool(), want, "after F1");
      EXPECT_GE(rank.pool().peak().total(), want.total());

      rank.backward_input(0);
      want[Use::activations] -= over_layers(example, 0, 4, kept);
      want[Use::residue] += over_layers(example, 0, 4, residue);
      expect_used(rank.pool(), want, "after I0");
      rank.backward(1);
      want[Use::activations] = 0;
      expect_used(rank.pool(), want, "after B1");
      rank.backward_weight(0);
      expect_used(rank.pool(), before, "after W0");
      rank.stage(0).start_step();
    }
  }
}

// Of each block its input; what the layers at both ends keep, which are not computed again.
TEST(StageMemory, WithRecomputationItKeepsTheInputsOfBlocks) {
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.model.name);
    Rank rank(example, halves, true);
    const UsedBytes before = states(example.model);
    const std::int64_t passing = 4 * example.rows() * example.model.hidden_size;
    const std::int64_t first = over_layers(example, 0, 1, kept) + passing;
    const std::int64_t last = over_layers(example, 3, 1, kept) + passing;
    UsedBytes want = before;
    {
      Tensor x = rank.stage(0).forward(rank.microbatch(0), {});
      want[Use::activations] = first + passing;
      expect_used(rank.pool(), want, "the first stage, and its output");
      rank.stage(1).forward(rank.microbatch(0), std::move(x));
      want[Use::activations] = first + last;
      expect_used(rank.pool(), want, "both");
    }
    rank.backward_input(0);
    want[Use::activations] = 0;
    want[Use::residue] = over_layers(example, 0, 4, residue);
    expect_used(rank.pool(), want, "after I");
    rank.backward_weight(0);
    expect_used(rank.pool(), before, "after W");
    for (int j = 0; j < microbatches; ++j) rank.forward(j);
    want = before;
    want[Use::activations] = microbatches * (first + last);
    expect_used(rank.pool(), want, "after all F");
    for (int j = 0; j < microbatches; ++j) rank.backward(j);
    expect_used(rank.pool(), before, "after all B");
  }
}

TEST(Pool, CountsByUseAndRemembersTheFirstFullestInstant) {
  const auto device = testing::make_test_device();
  Pool pool(*device);
  Tensor a = pool.take(10, Use::activations);
  Tensor b = pool.take(20, Use::send_buffer);
  EXPECT_EQ(pool.used().total(), 120);
  a.serve_as(Use::residue);
  EXPECT_EQ(pool.used()[Use::activations], 0);
  EXPECT_EQ(pool.used()[Use::residue], 40);
  EXPECT_EQ(pool.peak()[Use::activations], 40);  // not fuller since
  const void* memory = b.memory();
  b = {};
  EXPECT_EQ(pool.used().total(), 40);
  EXPECT_EQ(pool.peak().total(), 120);
  Tensor c = pool.take(20, Use::receive_buffer);
  EXPECT_EQ(c.memory(), memory);
  Tensor d = std::move(c);
  EXPECT_TRUE(c.empty());  // NOLINT(bugprone-use-after-move): what is left is said to be empty
  EXPECT_EQ(pool.used()[Use::receive_buffer], 80);
  d = std::move(a);
  EXPECT_EQ(pool.used().total(), 40);
  EXPECT_EQ(pool.used()[Use::receive_buffer], 0);
  pool.reset_peak();
  EXPECT_EQ(pool.peak().total(), 40);
  EXPECT_TRUE(pool.take(0, Use::weights).empty());
}

}  // namespace
}  // namespace pipesim::exec
