// The operators that layers are made of, except those made of matrix products, against plain loops
// in double and against central differences of those.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <functional>
#include <memory>
#include <numeric>

#include "tests/operators.h"

namespace pipesim::exec {
namespace {

using testing::at;
using testing::choices;
using testing::differences;
using testing::every_index;
using testing::expect_close;
using testing::Floats;
using testing::normals;
using testing::on_every_device;
using testing::on_every_shape;
using testing::wide;
using Doubles = std::vector<double>;

// ---- gelu

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST(LayerOperators, Gelu) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    const auto x = normals(rows * columns, 1, 3);
    const auto bias = normals(columns, 2);
    const auto dy = normals(rows * columns, 3);
    Floats a(device, x);
    Floats b(device, bias);
    Floats d(device, dy);
    Floats y(device, rows * columns);
    device.bias_gelu(rows, columns, b.data(), a.data(), y.data());
    const auto biased = a.values();
    device.gelu_backward(rows * columns, a.data(), d.data(), d.data());
    Doubles want;
    Doubles slopes;
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(biased[i], x[i] + bias[i % bias.size()]);
      want.push_back(gelu(biased[i]));
      slopes.push_back(dy[i] * (gelu(biased[i] + 1e-5) - gelu(biased[i] - 1e-5)) / 2e-5);
    }
    expect_close(y.values(), want, 1e-6, 1e-7, "gelu");
    expect_close(d.values(), slopes, 1e-6, 1e-6, "its gradient");
  });
}

TEST(LayerOperators, GeluOfLargeNumbersAndNaN) {
  on_every_device([](Device& device) {
    const std::vector<float> x{11, 50, 1e4F, 1e20F, 3e38F, -11, -50, -1e4F, -1e20F, -3e38F, 0, NAN};
    const auto count = static_cast<std::int64_t>(x.size());
    Floats a(device, x);
    Floats bias(device, std::vector<float>(x.size(), 0));
    Floats y(device, count);
    Floats dx(device, std::vector<float>(x.size(), 1));
    device.bias_gelu(1, count, bias.data(), a.data(), y.data());
    device.gelu_backward(count, a.data(), dx.data(), dx.data());
    const auto values = y.values();
    const auto slopes = dx.values();
    for (std::size_t i = 0; i + 2 < x.size(); ++i) {
      EXPECT_EQ(values[i], x[i] > 0 ? x[i] : 0) << x[i];
      EXPECT_NEAR(slopes[i], x[i] > 0 ? 1 : 0, 1e-30) << x[i];
    }
    EXPECT_EQ(values[10], 0);
    EXPECT_FLOAT_EQ(slopes[10], 0.5F);
    EXPECT_TRUE(std::isnan(values[11]));
    EXPECT_TRUE(std::isnan(slopes[11]));
  });
}

// ---- silu

double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(LayerOperators, GatedSilu) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    const auto x = normals(2 * rows * columns, 1, 3);
    const auto dy = normals(rows * columns, 2);
    Floats a(device, x);
    Floats d(device, dy);
    Floats y(device, rows * columns);
    Floats dx(device, 2 * rows * columns);
    device.gated_silu(rows, columns, a.data(), y.data());
    device.gated_silu_backward(rows, columns, a.data(), d.data(), dx.data());
    Doubles want;
    Doubles slopes(x.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::size_t gate = at(2 * row * columns + i);
        const std::size_t up = gate + at(columns);
        const double slope = dy[at(row * columns + i)];
        want.push_back(silu(x[gate]) * x[up]);
        slopes[gate] = slope * x[up] * (silu(x[gate] + 1e-5) - silu(x[gate] - 1e-5)) / 2e-5;
        slopes[up] = slope * silu(x[gate]);
      }
    }
    expect_close(y.values(), want, 1e-6, 1e-7, "gated silu");
    expect_close(dx.values(), slopes, 2e-6, 1e-6, "its gradient");
    device.gated_silu_backward(rows, columns, a.data(), d.data(), a.data());
    EXPECT_EQ(a.values(), dx.values()) << "in place";
  });
}

TEST(LayerOperators, SiluOfLargeNumbersAndNaN) {
  on_every_device([](Device& device) {
    const std::vector<float> gates{89, 1e4F, 3e38F, -89, -1e4F, -3e38F, 0, NAN};
    const auto count = static_cast<std::int64_t>(gates.size());
    std::vector<float> x = gates;
    x.resize(2 * gates.size(), 1);
    Floats a(device, x);
    Floats y(device, count);
    Floats dy(device, std::vector<float>(gates.size(), 1));
    Floats dx(device, 2 * count);
    device.gated_silu(1, count, a.data(), y.data());
    device.gated_silu_backward(1, count, a.data(), dy.data(), dx.data());
    const auto values = y.values();
    const auto slopes = dx.values();
    for (std::size_t i = 0; i + 2 < gates.size(); ++i) {
      EXPECT_NEAR(values[i], gates[i] > 0 ? gates[i] : 0, 1e-30) << gates[i];
      EXPECT_NEAR(slopes[i], gates[i] > 0 ? 1 : 0, 1e-30) << gates[i];
      EXPECT_NEAR(slopes[i + gates.size()], values[i], 1e-30) << gates[i];
    }
    EXPECT_EQ(values[6], 0);
    EXPECT_EQ(slopes[6], 0.5F);
    EXPECT_TRUE(std::isnan(values[7]));
    EXPECT_TRUE(std::isnan(slopes[7]));
  });
}

// ---- Norms

// x, gamma and beta one after another, as differences() needs them.
Doubles layer_norm(std::int64_t rows, std::int64_t columns, const Doubles& all) {
  const double* gamma = all.data() + rows * columns;
  const double* beta = gamma + columns;
  Doubles y;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* x = all.data() + row * columns;
    const double mean = std::accumulate(x, x + columns, 0.0) / static_cast<double>(columns);
    double variance = 0;
    for (std::int64_t i = 0; i < columns; ++i) variance += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(variance / static_cast<double>(columns) + 1e-5);
    for (std::int64_t i = 0; i < columns; ++i)
      y.push_back((x[i] - mean) * rstd * gamma[i] + beta[i]);
  }
  return y;
}

TEST(LayerOperators, LayerNormAndItsGradients) {
  for (const testing::Shape& shape : {testing::Shape{1, 2}, {3, 5}, {2, 16}, {5, 37}, {2, 130}}) {
    const std::int64_t rows = shape.rows;
    const std::int64_t columns = shape.columns;
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const std::int64_t count = rows * columns;
    auto x = normals(count, 1);
    for (float& value : x) value += 3;
    const auto gamma = normals(columns, 2);
    const auto beta = normals(columns, 3);
    const auto dy = normals(count, 4);
    const auto residual = normals(count, 5);
    Doubles all = wide(x);
    all.insert(all.end(), gamma.begin(), gamma.end());
    all.insert(all.end(), beta.begin(), beta.end());
    const Doubles want = layer_norm(rows, columns, all);
    const Doubles slopes = differences(all, every_index(all.size()), [&](const Doubles& values) {
      const Doubles y = layer_norm(rows, columns, values);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    });
    const Doubles want_dx(slopes.begin(), slopes.begin() + count);
    const Doubles want_dgamma(slopes.begin() + count, slopes.begin() + count + columns);
    const Doubles want_dbeta(slopes.begin() + count + columns, slopes.end());
    Doubles want_sum = want_dx;
    for (std::size_t i = 0; i < want_sum.size(); ++i) want_sum[i] += residual[i];

    on_every_device([&](Device& device) {
      Floats a(device, x);
      Floats g(device, gamma);
      Floats b(device, beta);
      Floats d(device, dy);
      Floats r(device, residual);
      Floats y(device, count);
      Floats mean(device, rows);
      Floats rstd(device, rows);
      Floats dx(device, count);
      Floats dgamma(device, columns);
      Floats dbeta(device, columns);
      device.layer_norm(rows, columns, a.data(), g.data(), b.data(), y.data(), mean.data(),
                        rstd.data());
      expect_close(y.values(), want, 2e-6, 2e-5, "y");
      device.layer_norm_backward(rows, columns, d.data(), a.data(), g.data(), mean.data(),
                                 rstd.data(), nullptr, dx.data(), dgamma.data(), dbeta.data());
      expect_close(dx.values(), want_dx, 1e-4, 1e-4, "dx");
      expect_close(dgamma.values(), want_dgamma, 1e-5, 1e-5, "dgamma");
      expect_close(dbeta.values(), want_dbeta, 1e-6, 1e-6, "dbeta");
      device.layer_norm_backward(rows, columns, d.data(), a.data(), g.data(), mean.data(),
                                 rstd.data(), r.data(), r.data(), dgamma.data(), dbeta.data());
      expect_close(r.values(), want_sum, 1e-4, 1e-4, "dx with a residual, in place");
    });
  }
}

// x and gamma one after another.
Doubles rms_norm(std::int64_t rows, std::int64_t columns, const Doubles& all) {
  const double* gamma = all.data() + rows * columns;
  Doubles y;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* x = all.data() + row * columns;
    const double squares = std::inner_product(x, x + columns, x, 0.0);
    const double rms = std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (std::int64_t i = 0; i < columns; ++i) y.push_back(x[i] / rms * gamma[i]);
  }
  return y;
}

TEST(LayerOperators, RmsNormAndItsGradients) {
  for (const testing::Shape& shape : {testing::Shape{1, 1}, {3, 5}, {2, 16}, {5, 37}, {2, 130}}) {
    const std::int64_t rows = shape.rows;
    const std::int64_t columns = shape.columns;
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const std::int64_t count = rows * columns;
    auto x = normals(count, 1);
    for (float& value : x) value += 3;
    const auto gamma = normals(columns, 2);
    const auto dy = normals(count, 4);
    const auto residual = normals(count, 5);
    Doubles all = wide(x);
    all.insert(all.end(), gamma.begin(), gamma.end());
    const Doubles want = rms_norm(rows, columns, all);
    const Doubles slopes = differences(all, every_index(all.size()), [&](const Doubles& values) {
      const Doubles y = rms_norm(rows, columns, values);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    });
    const Doubles want_dx(slopes.begin(), slopes.begin() + count);
    const Doubles want_dgamma(slopes.begin() + count, slopes.end());
    Doubles want_rstd;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* of_row = all.data() + row * columns;
      const double squares = std::inner_product(of_row, of_row + columns, of_row, 0.0);
      want_rstd.push_back(1 / std::sqrt(squares / static_cast<double>(columns) + 1e-5));
    }
    Doubles want_sum = want_dx;
    for (std::size_t i = 0; i < want_sum.size(); ++i) want_sum[i] += residual[i];

    on_every_device([&](Device& device) {
      Floats a(device, x);
      Floats g(device, gamma);
      Floats d(device, dy);
      Floats r(device, residual);
      Floats y(device, count);
      Floats rstd(device, rows);
      Floats dx(device, count);
      Floats dgamma(device, columns);
      device.rms_norm(rows, columns, a.data(), g.data(), y.data(), rstd.data());
      expect_close(y.values(), want, 2e-6, 1e-6, "y");
      expect_close(rstd.values(), want_rstd, 2e-6, 0, "rstd");
      device.rms_norm_backward(rows, columns, d.data(), a.data(), g.data(), rstd.data(), {},
                               dx.data(), dgamma.data());
      expect_close(dx.values(), want_dx, 1e-5, 2e-6, "dx");
      expect_close(dgamma.values(), want_dgamma, 1e-5, 1e-5, "dgamma");
      device.rms_norm_backward(rows, columns, d.data(), a.data(), g.data(), rstd.data(), r.data(),
                               r.data(), dgamma.data());
      expect_close(r.values(), want_sum, 1e-5, 2e-6, "dx with a residual, in place");
      expect_close(dgamma.values(), want_dgamma, 1e-5, 1e-5, "dgamma, overwritten");
    });
  }
}

// ---- Rotary positions

// Numbers i and i + head_size / 2 as a complex number, times e^(i angle).
Doubles rotated(const AttentionShape& shape, double base, bool back, Doubles qkv) {
  const std::int64_t half = shape.head_size / 2;
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads(); ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double share = static_cast<double>(i) / static_cast<double>(half);
        const double angle = static_cast<double>(row % shape.sequence) / std::pow(base, share);
        double& a = qkv[at(row * shape.qkv_size() + head * shape.head_size + i)];
        double& b = qkv[at(row * shape.qkv_size() + head * shape.head_size + i + half)];
        const std::complex<double> turned =
            std::complex<double>(a, b) * std::polar(1.0, back ? -angle : angle);
        a = turned.real();
        b = turned.imag();
      }
    }
  }
  return qkv;
}

TEST(LayerOperators, RotateTurnsQueriesAndKeysByTheirPositions) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 1, 2}, AttentionShape{2, 5, 3, 6}, AttentionShape{3, 7, 4, 10, 2},
        AttentionShape{1, 9, 6, 34, 6}, AttentionShape{2, 3, 2, 64},
        AttentionShape{1, 2, 3, 130}}) {
    SCOPED_TRACE("heads of " + std::to_string(shape.head_size) + ", groups of " +
                 std::to_string(shape.group));
    const auto qkv = normals(shape.rows() * shape.qkv_size(), 1);
    on_every_device([&](Device& device) {
      for (const float base : {1.0F, 10'000.0F, 500'000.0F}) {
        Floats x(device, qkv);
        device.rotate(shape, base, false, x.data());
        const auto turned = x.values();
        expect_close(turned, rotated(shape, base, false, wide(qkv)), 1e-6, 1e-6, "rotated");
        for (std::int64_t row = 0; row < shape.rows(); ++row) {
          for (std::int64_t i = 0; i < shape.qkv_size(); ++i) {
            const bool stays = row % shape.sequence == 0 || i >= shape.hidden() + shape.kv_size();
            if (!stays) continue;
            ASSERT_EQ(turned[at(row * shape.qkv_size() + i)], qkv[at(row * shape.qkv_size() + i)])
                << "values, and the first position, stay as they are";
          }
        }
        device.rotate(shape, base, true, x.data());
        expect_close(x.values(), wide(qkv), 1e-6, 1e-6, "and back");
        Floats y(device, qkv);
        device.rotate(shape, base, true, y.data());
        expect_close(y.values(), rotated(shape, base, true, wide(qkv)), 1e-6, 1e-6, "back");
      }
    });
  }
}

// Far positions turn by thousands of radians, which float32 could not tell apart.
TEST(LayerOperators, RotateIsAccurateAtFarPositions) {
  const AttentionShape shape{1, 40'000, 1, 4};
  const auto qkv = normals(shape.rows() * shape.qkv_size(), 1);
  const Doubles want = rotated(shape, 10'000, false, wide(qkv));
  on_every_device([&](Device& device) {
    Floats x(device, qkv);
    device.rotate(shape, 10'000, false, x.data());
    expect_close(x.values(), want, 1e-6, 1e-6, "rotated");
  });
}

// ---- Embedding

TEST(LayerOperators, Embedding) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    const std::int32_t words = 4;
    const std::int64_t sequence = 3;
    const auto tokens = choices(rows, words, 1);
    const auto table = normals(words * columns, 2);
    const auto positions = normals(sequence * columns, 3);
    const auto dy = normals(rows * columns, 4);
    Floats t(device, table);
    Floats p(device, positions);
    Floats d(device, dy);
    Floats y(device, rows * columns);
    device.embed(rows, columns, sequence, tokens.data(), t.data(), p.data(), y.data());
    device.embed_backward(rows, columns, sequence, tokens.data(), d.data(), t.data(), p.data());
    std::vector<float> want;
    std::vector<float> dtable = table;
    std::vector<float> dpositions = positions;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::size_t word = at(tokens[at(row)] * columns + i);
        const std::size_t position = at(row % sequence * columns + i);
        want.push_back(table[word] + positions[position]);
        dtable[word] += dy[at(row * columns + i)];
        dpositions[position] += dy[at(row * columns + i)];
      }
    }
    EXPECT_EQ(y.values(), want);
    EXPECT_EQ(t.values(), dtable);
    EXPECT_EQ(p.values(), dpositions);

    Floats words_alone(device, table);
    device.embed(rows, columns, sequence, tokens.data(), words_alone.data(), {}, y.data());
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      want[at(i)] = table[at(tokens[at(i / columns)] * columns + i % columns)];
    }
    EXPECT_EQ(y.values(), want) << "without positions";
    device.embed_backward(rows, columns, sequence, tokens.data(), d.data(), words_alone.data(),
                          nullptr);
    EXPECT_EQ(words_alone.values(), dtable) << "without positions";
  });
}

// As tensor-parallel ranks have words: those of others have zeros, and no gradient.
TEST(LayerOperators, EmbeddingOfWordsThatAreOthers) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t columns) {
    constexpr std::int32_t words = 4;
    constexpr std::int64_t sequence = 3;
    auto tokens = choices(rows, words + 1, 1);
    for (std::int32_t& token : tokens) --token;
    const auto table = normals(words * columns, 2);
    const auto positions = normals(sequence * columns, 3);
    const auto dy = normals(rows * columns, 4);
    Floats t(device, table);
    Floats p(device, positions);
    Floats d(device, dy);
    for (const bool adds_positions : {false, true}) {
      Floats y(device, rows * columns);
      Floats dtable(device, table);
      Floats dpositions(device, positions);
      device.embed(rows, columns, sequence, tokens.data(), t.data(),
                   adds_positions ? p.data() : nullptr, y.data());
      device.embed_backward(rows, columns, sequence, tokens.data(), d.data(), dtable.data(),
                            adds_positions ? dpositions.data() : nullptr);
      std::vector<float> want;
      std::vector<float> want_table = table;
      std::vector<float> want_positions = positions;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int32_t token = tokens[at(row)];
        for (std::int64_t i = 0; i < columns; ++i) {
          const std::size_t position = at(row % sequence * columns + i);
          float value = token < 0 ? 0 : table[at(token * columns + i)];
          if (adds_positions) value += positions[position];
          want.push_back(value);
          if (token >= 0) want_table[at(token * columns + i)] += dy[at(row * columns + i)];
          if (adds_positions) want_positions[position] += dy[at(row * columns + i)];
        }
      }
      EXPECT_EQ(y.values(), want);
      EXPECT_EQ(dtable.values(), want_table);
      EXPECT_EQ(dpositions.values(), want_positions);
    }
  });
}

// ---- Cross entropy

double cross_entropy(const double* x, std::int64_t classes, std::int32_t target) {
  const double most = *std::max_element(x, x + classes);
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(x[i] - most);
  return std::log(sum) + most - x[target];
}

TEST(LayerOperators, CrossEntropyAndItsGradient) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t classes) {
    const auto x = normals(rows * classes, 1, 4);
    const auto targets = choices(rows, static_cast<std::int32_t>(classes), 2);
    Floats a(device, x);
    Floats losses(device, rows);
    device.cross_entropy(rows, classes, targets.data(), a.data(), losses.data());
    device.cross_entropy_backward(rows, classes, targets.data(), a.data());
    Doubles want;
    Doubles slopes;
    for (std::int64_t row = 0; row < rows; ++row) {
      const Doubles logits(x.begin() + row * classes, x.begin() + (row + 1) * classes);
      const auto loss = [&](const Doubles& values) {
        return cross_entropy(values.data(), classes, targets[at(row)]);
      };
      want.push_back(loss(logits));
      const Doubles slope = differences(logits, every_index(logits.size()), loss);
      slopes.insert(slopes.end(), slope.begin(), slope.end());
    }
    expect_close(losses.values(), want, 1e-6, 1e-6, "losses");
    expect_close(a.values(), slopes, 2e-6, 1e-6, "gradient");
  });
}

// Of classes in shards as of all of them.
TEST(LayerOperators, CrossEntropyOfShards) {
  on_every_shape([](Device& device, std::int64_t rows, std::int64_t classes) {
    constexpr int ranks = 3;
    const std::int64_t whole = ranks * classes;
    const auto x = normals(rows * whole, 1, 4);
    const auto targets = choices(rows, static_cast<std::int32_t>(whole), 2);
    Floats all(device, x);
    Floats want(device, rows);
    device.cross_entropy(rows, whole, targets.data(), all.data(), want.data());
    device.cross_entropy_backward(rows, whole, targets.data(), all.data());
    const auto want_slopes = all.values();
    std::vector<std::vector<std::int32_t>> own_targets(ranks, targets);
    std::vector<std::unique_ptr<Floats>> shards;
    Floats parts(device, ranks * cross_entropy_part * rows);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto first = static_cast<std::int32_t>(rank * classes);
      std::vector<float> own;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto begin = x.begin() + row * whole + first;
        own.insert(own.end(), begin, begin + classes);
        std::int32_t& target = own_targets[static_cast<std::size_t>(rank)][at(row)];
        const bool is_own = first <= target && target < first + classes;
        target = is_own ? target - first : -1;
      }
      shards.push_back(std::make_unique<Floats>(device, own));
      device.cross_entropy_of_part(
          rows, classes, own_targets[static_cast<std::size_t>(rank)].data(), shards.back()->data(),
          parts.data() + rank * cross_entropy_part * rows);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      Floats losses(device, rows);
      float* own = shards[static_cast<std::size_t>(rank)]->data();
      device.join_cross_entropy(rows, classes, ranks, parts.data(), own, losses.data());
      device.cross_entropy_backward(rows, classes,
                                    own_targets[static_cast<std::size_t>(rank)].data(), own);
      expect_close(losses.values(), wide(want.values()), 1e-6, 1e-6, "losses");
      Doubles slopes;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < classes; ++i) {
          slopes.push_back(want_slopes[at(row * whole + rank * classes + i)]);
        }
      }
      expect_close(shards[static_cast<std::size_t>(rank)]->values(), slopes, 2e-6, 1e-6,
                   "gradient");
    }
  });
}

TEST(LayerOperators, ExponentialsAreAccurateOverTheirRange) {
  on_every_device([](Device& device) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-87, 0);
    const std::int64_t rows = 2000;
    std::vector<float> x;
    for (std::int64_t row = 0; row < rows; ++row) x.insert(x.end(), {0.0F, uniform(random)});
    Doubles want;
    for (std::size_t i = 0; i < x.size(); i += 2) {
      want.push_back(1 / (1 + std::exp(static_cast<double>(x[i + 1]))));
      want.push_back(1 / (1 + std::exp(-static_cast<double>(x[i + 1]))));
    }
    Floats a(device, x);
    Floats losses(device, rows);
    const std::vector<std::int32_t> targets(at(rows));
    device.cross_entropy(rows, 2, targets.data(), a.data(), losses.data());
    expect_close(a.values(), want, 4e-7, 1e-38, "softmax of two");
  });
}

TEST(LayerOperators, CrossEntropyOfLargeNumbers) {
  on_every_device([](Device& device) {
    Floats x(device, std::vector<float>{1e30F, -1e30F, 0, 5000, 5000, -5000});
    Floats losses(device, 2);
    const std::vector<std::int32_t> targets{0, 1};
    device.cross_entropy(2, 3, targets.data(), x.data(), losses.data());
    EXPECT_EQ(x.values(), (std::vector<float>{1, 0, 0, 0.5F, 0.5F, 0}));
    EXPECT_EQ(losses.values(), (std::vector<float>{0, std::log(2.0F)}));
  });
}

}  // namespace
}  // namespace pipesim::exec
