// The operators of GPUs against those of the CPU (tests/gpu/gpu_parity.h); and that the
// same call gives the same bits again.
//
// gpu_device_test [FOLDER]: of the modules in that folder, else of those beside
// pipeexec. Exits with 77, as skipped, where no folder is named and no module
// finds a GPU.
#include <cstdio>
#include <optional>
#include <sstream>

#include "tests/command.h"
#include "tests/gpu/gpu_parity.h"

namespace pipesim::exec::parity {
namespace {

// ---- The device

TEST(Gpu, MemoryIsAlignedServesAgainAndEnds) {
  on_every_gpu([](Device& gpu, bool) {
    EXPECT_FALSE(gpu.host_reaches_memory());
    for (const std::int64_t bytes : {0, 1, 63, 64, 1000, 1 << 20, 3 << 20}) {
      void* memory = gpu.allocate(bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
      void* other = gpu.allocate(bytes);
      EXPECT_NE(memory, other);
      gpu.release(memory);
      EXPECT_EQ(gpu.allocate(bytes), memory);
      gpu.release(memory);
      gpu.release(other);
    }
    gpu.release(nullptr);
    EXPECT_NE(
        testing::error_of([&] { gpu.allocate(std::int64_t{1} << 49); }).find("no memory left for"),
        std::string::npos);
    const auto x = normals(1000, 1);
    Floats after(gpu, x);  // and the device still works
    gpu.add(1000, after.data(), after.data(), after.data());
    EXPECT_EQ(after.values()[999], 2 * x[999]);
  });
}

// ---- Elements

TEST(Gpu, Elements) {
  on_every_shape("add, copy, fill", same_bits,
                 [](const Place& p, std::int64_t rows, std::int64_t columns) {
                   const std::int64_t count = rows * columns;
                   Tensor a(p, p.normals(count, 1));
                   Tensor b(p, p.normals(count, 2), 2);
                   Tensor sum(p, count, 3);
                   Tensor copied(p, count);
                   Tensor filled(p, count);
                   p.device.add(count, a.data(), b.data(), sum.data());
                   p.device.add(count, a.data(), b.data(), b.data());
                   p.device.copy(count, sum.data(), copied.data());
                   p.device.fill(count, filled.data(), -1 / 3.0F);
                   return Results{joined(joined(b.values(), copied.values()), filled.values())};
                 });
}

// All bfloat16 numbers, the middle between each and the next, and the neighbours of that.
TEST(Gpu, CopiesConvert) {
  std::vector<float> every;
  std::vector<float> others;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    every.push_back(std::bit_cast<float>(half << 16));
    for (const std::uint32_t below : {1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      others.push_back(std::bit_cast<float>(half << 16 | below));
    }
  }
  const auto is_same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : bits({a}) == bits({b});
  };
  on_every_gpu([&](Device& gpu, bool) {
    for (const int offset : {0, 1, 2, 4}) {
      const Place halves{gpu, Number::bfloat16, Number::bfloat16, offset};
      const Place floats{gpu, Number::float32, Number::float32, offset};
      for (const std::vector<float>& x : {every, others}) {
        const auto count = static_cast<std::int64_t>(x.size());
        Tensor from(floats, x);
        Tensor half(halves, count, 3);
        Tensor back(floats, count, 2);
        gpu.copy(count, from.data(), half.data());
        gpu.copy(count, half.data(), back.data());
        const auto got = half.values();
        ASSERT_EQ(bits(back.values()), bits(got));
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_PRED2(is_same, nearest_bfloat16(x[i]), got[i]) << i;
        }
      }
      for (const std::int64_t count : {0, 1, 3, 5, 9}) {
        Tensor from(floats, std::vector<float>(at(count), 1 / 3.0F));
        Tensor half(halves, count);
        gpu.copy(count, from.data(), half.data());
        ASSERT_EQ(half.values(), std::vector<float>(at(count), nearest_bfloat16(1 / 3.0F)));
      }
    }
  });
}

TEST(Gpu, MixedTypesAreRefused) {
  on_every_gpu([](Device& gpu, bool) {
    Tensor x({gpu}, std::vector<float>(16, 1));
    Tensor y({gpu, Number::bfloat16, Number::bfloat16}, std::vector<float>(16, 1));
    const auto refused = [](const std::string& operation, const std::function<void()>& call) {
      const std::string error = testing::error_of(call);
      EXPECT_NE(error.find(": " + operation + " was given both float32 and bfloat16; give it"),
                std::string::npos)
          << error;
    };
    refused("add", [&] { gpu.add(16, x.data(), y.data(), y.data()); });
    refused("dropout", [&] { gpu.dropout(16, x.data(), {}, y.data()); });
    refused("layer_norm_backward", [&] {
      float* f = static_cast<float*>(x.data().data);
      gpu.layer_norm_backward(1, 16, y.data(), y.data(), y.data(), f, f, x.data(), y.data(), f, f);
    });
    refused("gated_silu", [&] { gpu.gated_silu(1, 8, x.data(), y.data()); });
    refused("gated_silu_backward",
            [&] { gpu.gated_silu_backward(1, 8, x.data(), y.data(), x.data()); });
    refused("rms_norm", [&] {
      gpu.rms_norm(1, 16, x.data(), y.data(), x.data(), static_cast<float*>(x.data().data));
    });
    refused("rms_norm_backward", [&] {
      float* f = static_cast<float*>(x.data().data);
      gpu.rms_norm_backward(1, 16, y.data(), y.data(), y.data(), f, x.data(), y.data(), f);
    });
    const auto multiply = [&](Tensor& a, Tensor& b, Tensor& c) {
      gpu.matrix_product(Transpose::none, 4, 4, 4, a.data(), b.data(), c.data(), false);
    };
    refused("matrix_product", [&] { multiply(x, y, y); });
    refused("matrix_product", [&] { multiply(y, x, x); });
    refused("matrix_product", [&] { multiply(x, x, y); });
    EXPECT_EQ(x.values(), std::vector<float>(16, 1));
    EXPECT_EQ(y.values(), std::vector<float>(16, 1));
  });
}

TEST(Gpu, SumsOfSquares) {
  for (const std::int64_t count : {0, 1, 3, 1000, 4097, 1'000'003, 5'000'000}) {
    const auto x = normals(count, 1);
    long double wide_sum = 0;
    for (const float value : x) wide_sum += static_cast<long double>(value) * value;
    const auto want = static_cast<double>(wide_sum);
    on_every_gpu([&](Device& gpu, bool) {
      std::optional<double> first;
      for (const int offset : {0, 0, 1, 2}) {
        Floats a(gpu, x, offset);
        const double got = testing::sum_of_squares(gpu, count, a.data());
        EXPECT_NEAR(got, want, 1e-13 * want) << count;
        EXPECT_EQ(got, first.value_or(got)) << count << ", at offset " << offset;
        first = got;
      }
    });
  }
}

TEST(Gpu, DropoutHasTheMasksOfTheCpu) {
  for (const float probability : {0.0F, 1e-9F, 0.1F, 0.5F, 0.999F, 1.0F}) {
    Dropout dropout{key, probability};
    dropout.key.first += probability < 0.5F ? 3 : 0;  // within four words that belong together
    on_every_shape("dropout " + std::to_string(probability), same_bits,
                   [&](const Place& p, std::int64_t rows, std::int64_t columns) {
                     const std::int64_t count = rows * columns;
                     Tensor x(p, p.normals(count, 1));
                     Tensor bias(p, p.normals(columns, 2), 2);
                     Tensor residual(p, p.normals(count, 3), 3);
                     Tensor y(p, count);
                     p.device.dropout(count, x.data(), dropout, y.data());
                     Tensor plain(p, count, 2);
                     p.device.bias_dropout_add(rows, columns, p.none(), x.data(), residual.data(),
                                               dropout, plain.data());
                     p.device.bias_dropout_add(rows, columns, bias.data(), x.data(),
                                               residual.data(), dropout, x.data());
                     return Results{joined(joined(x.values(), y.values()), plain.values())};
                   });
  }
}

// Logarithm, sine and cosine in double may differ in their last bit: then a
// float may, too.
TEST(Gpu, NormalNumbersAreThoseOfTheCpu) {
  for (const std::int64_t count : {1, 7, 40'001}) {
    expect_parity("fill_normal " + std::to_string(count), {2 * u, 0}, [&](Device& d, int o) {
      Floats x(d, count, o);
      d.fill_normal(count, x.data(), key, 0.02F);
      return x.values();
    });
  }
}

TEST(Gpu, AdamW) {
  on_every_shape(
      "adamw", within(8 * u, 8 * u), [](const Place& p, std::int64_t rows, std::int64_t columns) {
        const std::int64_t count = rows * columns;
        Floats g(p.device, normals(count, 1), p.offset);
        Floats w(p.device, normals(count, 2), 2 * p.offset);
        Floats m(p.device, normals(count, 3), 3 * p.offset);
        Floats v(p.device, std::vector<float>(at(count), 0.1F), p.offset);
        Tensor weights(p, count, 3);
        AdamStep step{.learning_rate = 0.1F, .weight_decay = 0.1F};
        step.correction1 = 0.3F;
        step.correction2 = 0.1F;
        step.gradient_scale = 0.7F;
        p.device.adamw(count, step, g.data(), w.data(), m.data(), v.data(), {});
        p.device.adamw(count, step, g.data(), w.data(), m.data(), v.data(), weights.data());
        EXPECT_EQ(bits(weights.values()), bits(rounded(p.stored, w.values())));
        return Results{weights.values(), joined(w.values(), joined(m.values(), v.values()))};
      });
}

// ---- Rows and columns

TEST(Gpu, Bias) {
  on_every_shape("add_bias", same_bits,
                 [](const Place& p, std::int64_t rows, std::int64_t columns) {
                   Tensor x(p, p.normals(rows * columns, 1));
                   Tensor bias(p, p.normals(columns, 2), 2);
                   p.device.add_bias(rows, columns, bias.data(), x.data());
                   return Results{x.values()};
                 });
}

TEST(Gpu, ColumnSums) {
  on_every_shape(
      "add_column_sums",
      [](std::int64_t rows, std::int64_t) {
        return Close{0, 8 * u * static_cast<double>(rows + 1)};
      },
      [](const Place& p, std::int64_t rows, std::int64_t columns) {
        Tensor x(p, p.normals(rows * columns, 1));
        Floats sums(p.device, normals(columns, 2), 2 * p.offset);
        p.device.add_column_sums(rows, columns, x.data(), sums.data());
        return Results{{}, sums.values()};
      });
}

TEST(Gpu, Gelu) {
  // Of sums that are numbers of either type, since of others it is that of what is kept.
  const auto halves = [](std::vector<float> all) {
    for (float& value : all) value = std::nearbyint(2 * value) / 2;
    return all;
  };
  on_every_shape("gelu", within(64 * u, 8 * u),
                 [&](const Place& p, std::int64_t rows, std::int64_t columns) {
                   const std::int64_t count = rows * columns;
                   Tensor x(p, halves(p.normals(count, 1, 3)));
                   Tensor bias(p, halves(p.normals(columns, 2)), 2);
                   Tensor y(p, count, 3);
                   Tensor again(p, count);
                   Tensor dy(p, p.normals(count, 3));
                   p.device.gelu_backward(count, x.data(), dy.data(), dy.data());
                   p.device.bias_gelu(rows, columns, bias.data(), x.data(), y.data());
                   p.device.bias_gelu(rows, columns, p.none(), x.data(), again.data());
                   EXPECT_EQ(bits(again.values()), bits(y.values())) << "of what has its bias";
                   return Results{joined(joined(x.values(), y.values()), dy.values())};
                 });
}

TEST(Gpu, GeluOfLargeNumbersAndNaN) {
  for (const Number type : {Number::float32, Number::bfloat16}) {
    const auto x =
        rounded(type, {11, 50, 1e4F, 1e20F, 3e38F, -11, -50, -1e4F, -1e20F, -3e38F, NAN});
    on_every_gpu([&](Device& gpu, bool) {
      const Place p{gpu, type, type};
      const auto count = static_cast<std::int64_t>(x.size());
      Tensor a(p, x);
      Tensor bias(p, std::vector<float>(x.size(), 0));
      Tensor y(p, count);
      Tensor dx(p, std::vector<float>(x.size(), 1));
      gpu.bias_gelu(1, count, bias.data(), a.data(), y.data());
      gpu.gelu_backward(count, a.data(), dx.data(), dx.data());
      const auto values = y.values();
      const auto slopes = dx.values();
      for (std::size_t i = 0; i + 1 < x.size(); ++i) {
        EXPECT_EQ(values[i], x[i] > 0 ? x[i] : 0) << x[i];
        EXPECT_NEAR(slopes[i], x[i] > 0 ? 1 : 0, 1e-30) << x[i];
      }
      EXPECT_TRUE(std::isnan(values.back()));
      EXPECT_TRUE(std::isnan(slopes.back()));
    });
  }
}

TEST(Gpu, GatedSilu) {
  on_every_shape("gated_silu", within(64 * u, 8 * u),
                 [](const Place& p, std::int64_t rows, std::int64_t columns) {
                   Tensor x(p, p.normals(2 * rows * columns, 1, 3));
                   Tensor y(p, rows * columns, 3);
                   Tensor dy(p, p.normals(rows * columns, 2), 2);
                   Tensor dx(p, 2 * rows * columns, 2);
                   p.device.gated_silu(rows, columns, x.data(), y.data());
                   p.device.gated_silu_backward(rows, columns, x.data(), dy.data(), dx.data());
                   p.device.gated_silu_backward(rows, columns, x.data(), dy.data(), x.data());
                   EXPECT_EQ(bits(x.values()), bits(dx.values())) << "in place";
                   return Results{joined(y.values(), dx.values())};
                 });
}

TEST(Gpu, SiluOfLargeNumbersAndNaN) {
  for (const Number type : {Number::float32, Number::bfloat16}) {
    auto x = rounded(type, {89, 1e4F, 3e38F, -89, -1e4F, -3e38F, NAN});
    const std::vector<float> gates = x;
    x.resize(2 * gates.size(), 1);
    on_every_gpu([&](Device& gpu, bool) {
      const Place p{gpu, type, type};
      const auto count = static_cast<std::int64_t>(gates.size());
      Tensor a(p, x);
      Tensor y(p, count);
      Tensor dy(p, std::vector<float>(gates.size(), 1));
      gpu.gated_silu(1, count, a.data(), y.data());
      gpu.gated_silu_backward(1, count, a.data(), dy.data(), a.data());
      const auto values = y.values();
      const auto slopes = a.values();
      for (std::size_t i = 0; i + 1 < gates.size(); ++i) {
        EXPECT_NEAR(values[i], gates[i] > 0 ? gates[i] : 0, 1e-30) << gates[i];
        EXPECT_NEAR(slopes[i], gates[i] > 0 ? 1 : 0, 1e-30) << gates[i];
        EXPECT_NEAR(slopes[i + gates.size()], gates[i] > 0 ? gates[i] : 0, 1e-30) << gates[i];
      }
      EXPECT_TRUE(std::isnan(values.back()));
      EXPECT_TRUE(std::isnan(slopes[gates.size() - 1]));
    });
  }
}

// dgamma sums over rows.
TEST(Gpu, RmsNorm) {
  on_every_shape(
      "rms_norm",
      [](std::int64_t rows, std::int64_t) {
        return Close{1e-5, 1e-5 + 16 * u * static_cast<double>(rows)};
      },
      [](const Place& p, std::int64_t rows, std::int64_t columns) {
        const std::int64_t count = rows * columns;
        Tensor x(p, p.normals(count, 1));
        Tensor gamma(p, p.normals(columns, 2), 2);
        Tensor dy(p, p.normals(count, 4), 3);
        Tensor residual(p, p.normals(count, 5));
        Tensor y(p, count);
        Floats rstd(p.device, rows, p.offset);
        Tensor dx(p, count);
        Floats dgamma(p.device, columns, 2 * p.offset);
        p.device.rms_norm(rows, columns, x.data(), gamma.data(), y.data(), rstd.data());
        p.device.rms_norm_backward(rows, columns, dy.data(), x.data(), gamma.data(), rstd.data(),
                                   p.none(), dx.data(), dgamma.data());
        p.device.rms_norm_backward(rows, columns, dy.data(), x.data(), gamma.data(), rstd.data(),
                                   residual.data(), residual.data(), dgamma.data());
        return Results{joined(y.values(), joined(dx.values(), residual.values())),
                       joined(rstd.values(), dgamma.values())};
      });
}

// Powers, sines and cosines in double may differ in their last bit, and with them an
// angle's sine as a float.
TEST(Gpu, RotatedPositions) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 1, 2}, AttentionShape{2, 5, 3, 6}, AttentionShape{3, 17, 4, 10, 2},
        AttentionShape{1, 300, 6, 34, 6}, AttentionShape{2, 33, 2, 64},
        AttentionShape{1, 70, 8, 128, 4}}) {
    for (const float base : {10'000.0F, 500'000.0F}) {
      expect_typed_parity("rotate heads of " + std::to_string(shape.head_size), {4 * u, 4 * u},
                          [&](const Place& p) {
                            const std::int64_t count = shape.rows() * shape.qkv_size();
                            Tensor there(p, p.normals(count, 1));
                            Tensor back(p, p.normals(count, 2), 2);
                            p.device.rotate(shape, base, false, there.data());
                            p.device.rotate(shape, base, true, back.data());
                            return Results{joined(there.values(), back.values())};
                          });
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// dgamma and dbeta sum over rows.
TEST(Gpu, LayerNorm) {
  on_every_shape(
      "layer_norm",
      [](std::int64_t rows, std::int64_t columns) {
        // Of a row of one, x - mean is nothing but rounding, and rstd large.
        if (columns < 3) return Close{1e-4, 1e-4};
        return Close{1e-5, 1e-5 + 16 * u * static_cast<double>(rows)};
      },
      [](const Place& p, std::int64_t rows, std::int64_t columns) {
        const std::int64_t count = rows * columns;
        Tensor x(p, p.normals(count, 1));
        Tensor gamma(p, p.normals(columns, 2), 2);
        Tensor beta(p, p.normals(columns, 3), 2);
        Tensor dy(p, p.normals(count, 4), 3);
        Tensor residual(p, p.normals(count, 5));
        Tensor y(p, count);
        Floats mean(p.device, rows, p.offset);
        Floats rstd(p.device, rows, p.offset);
        Tensor dx(p, count);
        Floats dgamma(p.device, columns, 2 * p.offset);
        Floats dbeta(p.device, columns, 3 * p.offset);
        p.device.layer_norm(rows, columns, x.data(), gamma.data(), beta.data(), y.data(),
                            mean.data(), rstd.data());
        const auto backward = [&](ConstArray from, exec::Array to) {
          p.device.layer_norm_backward(rows, columns, dy.data(), x.data(), gamma.data(),
                                       mean.data(), rstd.data(), from, to, dgamma.data(),
                                       dbeta.data());
        };
        backward(nullptr, dx.data());
        backward(residual.data(), residual.data());
        Results all{joined(y.values(), joined(dx.values(), residual.values()))};
        for (Floats* array : {&mean, &rstd, &dgamma, &dbeta}) {
          all.sums = joined(std::move(all.sums), array->values());
        }
        return all;
      });
}

// ---- Products

// What rounding a sum of k products of normal numbers, six deviations at most, to bfloat16 changes.
double rounded_before(std::int64_t k) {
  return 6 * std::sqrt(static_cast<double>(k)) * std::ldexp(1.0, -8);
}

TEST(Gpu, MatrixProducts) {
  struct Size {
    std::int64_t m, n, k;
  };
  const std::vector<Size> sizes{{0, 3, 4},    {3, 0, 4},       {3, 4, 0},     {1, 1, 1},
                                {1, 40, 9},   {37, 1, 5},      {7, 33, 17},   {64, 64, 64},
                                {65, 63, 16}, {129, 130, 131}, {17, 1000, 3}, {200, 96, 1000}};
  for (const auto& [m, n, k] : sizes) {
    for (const Transpose transpose : {Transpose::none, Transpose::a, Transpose::b}) {
      for (const bool accumulate : {false, true}) {
        expect_typed_parity(
            "product " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                ", transpose " + std::to_string(static_cast<int>(transpose)),
            {0, 8 * u * static_cast<double>(k + 1), true, accumulate ? rounded_before(k) : 0},
            [&, m = m, n = n, k = k](const Place& p) {
              Tensor a(p, p.normals(m * k, 1));
              Tensor b(p, p.normals(n * k, 2), 2);
              const auto before =
                  accumulate ? p.normals(m * n, 3) : std::vector<float>(at(m * n), NAN);
              Tensor c(p, before, 3);
              Floats sums(p.device, before, 3 * p.offset);
              for (const exec::Array to : {c.data(), exec::Array(sums.data())}) {
                p.device.matrix_product(transpose, m, n, k, a.data(), b.data(), to, accumulate);
              }
              return Results{c.values(), sums.values()};
            });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// ---- Ends of a model

TEST(Gpu, EmbeddingAndItsGradientInTheOrderOfRows) {
  for (const std::int32_t words : {1, 5, 500}) {
    on_every_shape("embed of " + std::to_string(words) + " words", same_bits,
                   [&](const Place& p, std::int64_t rows, std::int64_t columns) {
                     const std::int64_t sequence = 19;
                     auto chosen = choices(rows, words + 1, 1);
                     for (std::int32_t& token : chosen) --token;  // some of no row of the table
                     const Numbers tokens(p.device, chosen);
                     Tensor table(p, p.normals(words * columns, 2));
                     Tensor positions(p, p.normals(sequence * columns, 3), 2);
                     Tensor dy(p, p.normals(rows * columns, 4), 3);
                     Tensor y(p, rows * columns);
                     Floats dtable(p.device, normals(words * columns, 5), p.offset);
                     Floats dpositions(p.device, normals(sequence * columns, 6), 2 * p.offset);
                     p.device.embed(rows, columns, sequence, tokens.data(), table.data(),
                                    positions.data(), y.data());
                     p.device.embed_backward(rows, columns, sequence, tokens.data(), dy.data(),
                                             dtable.data(), dpositions.data());
                     // And without positions.
                     Tensor plain(p, rows * columns, 2);
                     Floats of_words(p.device, normals(words * columns, 7), 3 * p.offset);
                     p.device.embed(rows, columns, sequence, tokens.data(), table.data(), p.none(),
                                    plain.data());
                     p.device.embed_backward(rows, columns, sequence, tokens.data(), dy.data(),
                                             of_words.data(), nullptr);
                     return Results{
                         joined(y.values(), plain.values()),
                         joined(joined(dtable.values(), dpositions.values()), of_words.values())};
                   });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gpu, CrossEntropy) {
  on_every_shape("cross_entropy", within(1e-5, 1e-5),
                 [](const Place& p, std::int64_t rows, std::int64_t classes) {
                   const Numbers targets(p.device,
                                         choices(rows, static_cast<std::int32_t>(classes), 2));
                   Tensor x(p, p.normals(rows * classes, 1, 4));
                   Floats losses(p.device, rows, 2 * p.offset);
                   p.device.cross_entropy(rows, classes, targets.data(), x.data(), losses.data());
                   return Results{x.values(), losses.values()};
                 });
  on_every_shape(
      "cross_entropy_of_part, join_cross_entropy", within(1e-5, 1e-5),
      [](const Place& p, std::int64_t rows, std::int64_t classes) {
        auto chosen = choices(rows, static_cast<std::int32_t>(classes) + 1, 2);
        for (std::int32_t& target : chosen) --target;
        const Numbers targets(p.device, chosen);
        const std::int64_t part = cross_entropy_part * rows;
        Tensor x(p, p.normals(rows * classes, 1, 4));
        Tensor other(p, p.normals(rows * classes, 3, 4));
        Floats parts(p.device, 2 * part, 2 * p.offset);
        Floats losses(p.device, rows, p.offset);
        p.device.cross_entropy_of_part(rows, classes, targets.data(), x.data(), parts.data());
        p.device.cross_entropy_of_part(rows, classes, targets.data(), other.data(),
                                       parts.data() + part);
        p.device.join_cross_entropy(rows, classes, 2, parts.data(), other.data(), losses.data());
        return Results{other.values(), losses.values()};
      });
  on_every_shape("cross_entropy_backward", same_bits,
                 [](const Place& p, std::int64_t rows, std::int64_t classes) {
                   auto chosen = choices(rows, static_cast<std::int32_t>(classes) + 1, 2);
                   for (std::int32_t& target : chosen) --target;
                   const Numbers targets(p.device, chosen);
                   Tensor x(p, p.normals(rows * classes, 1));
                   p.device.cross_entropy_backward(rows, classes, targets.data(), x.data());
                   return Results{x.values()};
                 });
}

// ---- Training

TEST(Gpu, PipelinesHaveTheBitsOfOneRank) {
  for (const char* kind : kinds) {
    if (left_out(kind) != testing::no_error) continue;
    for (const char* what :
         {"--schedule gpipe --stages 1", "--schedule 1f1b --stages 2",
          "--schedule zb-h1 --stages 4", "--schedule interleaved --stages 2 --recompute full",
          "--schedule zb-h1 --stages 2 --precision bf16",
          "--schedule interleaved --stages 2 --recompute full --precision bf16"}) {
      std::string line = std::string(what) + " --microbatches 4 --iterations 2 --verify --quiet";
      std::vector<std::string> argv{modules() + "/pipeexec", "--transport", "local", "--device",
                                    kind};
      std::istringstream words(line);
      for (std::string word; words >> word;) argv.push_back(word);
      const testing::Outcome outcome = testing::run_command(argv);
      EXPECT_EQ(outcome.status, 0) << kind << " " << line << ": " << outcome.err;
    }
  }
}

}  // namespace
}  // namespace pipesim::exec::parity

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) pipesim::exec::parity::modules() = argv[1];
  bool there = false;
  std::string reasons;
  for (const char* kind : pipesim::exec::parity::kinds) {
    const std::string reason = pipesim::exec::parity::left_out(kind);
    there = there || reason == pipesim::testing::no_error;
    reasons += (reasons.empty() ? "" : "; ") + std::string(kind) + ": " + reason;
  }
  if (!there && argc > 1) {
    std::fprintf(stderr, "gpu_device_test: no GPU (%s)\n", reasons.c_str());
    return 1;
  }
  if (!there) {
    std::printf("skipped: gpu_device_test, operators on GPUs (%s)\n", reasons.c_str());
    return 77;
  }
  const auto& tried = pipesim::exec::parity::shapes_tried();
  std::printf("tries %zu of %zu shapes\n", tried.size(), pipesim::exec::parity::shapes.size());
  return RUN_ALL_TESTS();
}
