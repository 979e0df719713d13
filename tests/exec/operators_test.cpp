// What a device is, its memory, and its operators that are of no layer, against plain loops in
// double.
#include "tests/operators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/errors.h"

namespace pipesim::exec {
namespace {

using testing::at;
using testing::expect_close;
using testing::Floats;
using testing::normals;
using testing::on_every_device;
using testing::on_every_shape;
using testing::wide;
using Doubles = std::vector<double>;

// ---- The device

TEST(CpuDevice, SaysWhatItIsAndKnowsItsInstructionSets) {
  const auto sets = cpu_instruction_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.back(), "baseline");
  EXPECT_EQ(make_cpu_device()->description(),
            make_cpu_device({sets.front(), false})->description());
  EXPECT_EQ(make_cpu_device({"baseline", true})->description(),
            "cpu (baseline, GEMMs by its own kernel)");
  EXPECT_EQ(testing::input_error_of([] {
              make_cpu_device({"basline", false});
            }).find("unknown instruction set 'basline'; known, nearest first: baseline"),
            0U);
}

TEST(CpuDevice, MemoryIsAlignedAndEnds) {
  const auto device = make_cpu_device();
  for (const std::int64_t bytes : {0, 1, 63, 64, 1000}) {
    void* memory = device->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    device->release(memory);
  }
  device->release(nullptr);
  EXPECT_NE(testing::error_of([&] {
              device->allocate(std::int64_t{1} << 60);
            }).find("cpu: no memory left for"),
            std::string::npos);
}

// ---- Elements

TEST(Operators, Elements) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    const std::int64_t count = rows * columns;
    const auto x = normals(count, 1);
    const auto y = normals(count, 2);
    Floats a(device, x);
    Floats b(device, y);
    Floats sum(device, count);
    device.add(count, a.data(), b.data(), sum.data());
    device.add(count, a.data(), b.data(), b.data());
    Floats copied(device, count);
    device.copy(count, a.data(), copied.data());
    std::vector<float> added(x.size());
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      added[i] = x[i] + y[i];
      squares += static_cast<double>(x[i]) * x[i];
    }
    EXPECT_EQ(sum.values(), added);
    EXPECT_EQ(b.values(), added);
    EXPECT_EQ(copied.values(), x);
    EXPECT_NEAR(testing::sum_of_squares(device, count, a.data()), squares, 1e-14 * squares);
    device.fill(count, sum.data(), -0.5F);
    EXPECT_EQ(sum.values(), std::vector<float>(x.size(), -0.5F));
  });
}

TEST(Operators, RowsAndColumns) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    const auto x = normals(rows * columns, 1);
    const auto bias = normals(columns, 2);
    const auto before = normals(columns, 3);
    Floats a(device, x);
    Floats b(device, bias);
    Floats sums(device, before);
    device.add_column_sums(rows, columns, a.data(), sums.data());
    device.add_bias(rows, columns, b.data(), a.data());
    Doubles want = wide(before);
    std::vector<float> biased(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      want[i % bias.size()] += x[i];
      biased[i] += bias[i % bias.size()];
    }
    expect_close(sums.values(), want, 1e-6, 1e-6, "column sums");
    EXPECT_EQ(a.values(), biased);
  });
}

// ---- Random numbers

TEST(Random, PhiloxGivesThePublishedAnswers) {  // kat_vectors of Random123
  const auto words = [](RandomWords counter, std::uint32_t key0, std::uint32_t key1) {
    const RandomWords w = philox(counter, key0, key1);
    return std::vector<std::uint32_t>(w.word, w.word + 4);
  };
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(words({{0, 0, 0, 0}}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, KeysAreDifferentStreams) {
  const RandomKey key{.seed = 7, .site = 1, .layer = 2, .step = 3};
  std::vector<RandomKey> keys(7, key);
  keys[1].seed += std::uint64_t{1} << 32;
  keys[2].purpose = Purpose::batch;
  keys[3].site = 2;
  keys[4].layer = 3;
  keys[5].step = 4;
  keys[6].step = 5;
  for (std::size_t i = 1; i < keys.size(); ++i) {
    EXPECT_NE(random_words(keys[i], 5).word[0], random_words(key, 5).word[0]) << i;
  }
}

// The scalar definition of dropout.
std::vector<float> dropped(std::vector<float> x, const Dropout& dropout) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t element = static_cast<std::size_t>(dropout.key.first) + i;
    const std::uint32_t word = random_words(dropout.key, element / 4).word[element % 4];
    const bool kept = word >= static_cast<double>(dropout.probability) * 4294967296.0;
    if (dropout.probability > 0) x[i] = kept ? x[i] / (1 - dropout.probability) : 0;
  }
  return x;
}

TEST(Random, DropoutIsItsScalarDefinition) {
  on_every_shape([&](Device& device, std::int64_t rows, std::int64_t columns) {
    // Also within four words that belong together, and where their number's lower half ends.
    const RandomKey key{.seed = 0x123456789abcdef,
                        .site = 3,
                        .layer = 9,
                        .step = 77,
                        .first = rows % 2 == 0 ? rows + 5 : (std::int64_t{1} << 34) - 17};
    const auto x = normals(rows * columns, 1);
    const auto bias = normals(columns, 2);
    const auto residual = normals(rows * columns, 3);
    for (const float probability : {0.0F, 1e-9F, 0.1F, 0.5F, 0.999F, 1.0F}) {
      const Dropout dropout{key, probability};
      Floats a(device, x);
      Floats b(device, bias);
      Floats r(device, residual);
      Floats y(device, rows * columns);
      device.dropout(rows * columns, a.data(), dropout, y.data());
      EXPECT_EQ(y.values(), dropped(x, dropout)) << probability;

      std::vector<float> want(x);
      for (std::size_t i = 0; i < x.size(); ++i) want[i] += bias[i % bias.size()];
      want = dropped(want, dropout);
      for (std::size_t i = 0; i < x.size(); ++i) want[i] += residual[i];
      device.bias_dropout_add(rows, columns, b.data(), a.data(), r.data(), dropout, y.data());
      EXPECT_EQ(y.values(), want) << probability;
      device.bias_dropout_add(rows, columns, b.data(), a.data(), r.data(), dropout, a.data());
      EXPECT_EQ(a.values(), want) << probability << ", in place";

      want = dropped(x, dropout);
      for (std::size_t i = 0; i < x.size(); ++i) want[i] += residual[i];
      Floats plain(device, x);
      device.bias_dropout_add(rows, columns, {}, plain.data(), r.data(), dropout, y.data());
      EXPECT_EQ(y.values(), want) << probability << ", without a bias";
      device.bias_dropout_add(rows, columns, {}, plain.data(), r.data(), dropout, plain.data());
      EXPECT_EQ(plain.values(), want) << probability << ", without a bias, in place";
    }
  });
}

TEST(Random, DropoutKeepsTheAskedFraction) {
  const std::int64_t count = 100'000;
  const auto device = make_cpu_device();
  Floats x(*device, std::vector<float>(at(count), 1));
  device->dropout(count, x.data(), {{.seed = 5}, 0.1F}, x.data());
  const auto y = x.values();
  const auto kept = static_cast<double>(count - std::ranges::count(y, 0.0F));
  EXPECT_NEAR(kept / count, 0.9, 4 * std::sqrt(0.09 / count));
  EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0) / count, 1, 0.005);
}

TEST(Random, NormalNumbersDependOnKeyAndElementAlone) {
  const RandomKey key{.seed = 3, .purpose = Purpose::initial_weights, .layer = 4};
  on_every_device([&](Device& device) {
    const std::int64_t count = 40'001;
    Floats x(device, count);
    Floats start(device, 7);
    device.fill_normal(count, x.data(), key, 0.02F);
    device.fill_normal(7, start.data(), key, 0.02F);
    const auto all = x.values();
    EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 7), start.values());
    double moments[5] = {};
    for (const double value : all) {
      for (int power = 1; power <= 4; ++power)
        moments[power] += std::pow(value / 0.02, power) / count;
    }
    EXPECT_NEAR(moments[1], 0, 0.02);
    EXPECT_NEAR(moments[2], 1, 0.03);
    EXPECT_NEAR(moments[3], 0, 0.06);
    EXPECT_NEAR(moments[4], 3, 0.2);
  });
}

// ---- The optimizer

TEST(Operators, AdamW) {
  const AdamStep step{.learning_rate = 0.01F,
                      .beta1 = 0.9F,
                      .beta2 = 0.95F,
                      .epsilon = 1e-8F,
                      .weight_decay = 0.1F,
                      .correction1 = 0.19F,
                      .correction2 = 0.0975F,
                      .gradient_scale = 0.7F};
  on_every_shape([&](Device& device, std::int64_t rows, std::int64_t columns) {
    const std::int64_t count = rows * columns;
    const auto g = normals(count, 1);
    const auto w = normals(count, 2);
    const auto m = normals(count, 3, 0.1F);
    auto v = normals(count, 4, 0.1F);
    for (float& value : v) value = std::abs(value);
    Floats gradients(device, g);
    Floats weights(device, w);
    Floats first(device, m);
    Floats second(device, v);
    device.adamw(count, step, gradients.data(), weights.data(), first.data(), second.data(), {});
    Doubles want_w;
    Doubles want_m;
    Doubles want_v;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double scaled = static_cast<double>(g[i]) * step.gradient_scale;
      want_m.push_back(step.beta1 * m[i] + (1.0 - step.beta1) * scaled);
      want_v.push_back(step.beta2 * v[i] + (1.0 - step.beta2) * scaled * scaled);
      want_w.push_back(w[i] * (1.0 - step.learning_rate * step.weight_decay) -
                       step.learning_rate * (want_m.back() / step.correction1) /
                           (std::sqrt(want_v.back() / step.correction2) + step.epsilon));
    }
    EXPECT_EQ(gradients.values(), g);
    expect_close(first.values(), want_m, 1e-6, 1e-7, "first moments");
    expect_close(second.values(), want_v, 1e-6, 1e-7, "second moments");
    expect_close(weights.values(), want_w, 1e-6, 1e-6, "weights");
  });
}

}  // namespace
}  // namespace pipesim::exec
