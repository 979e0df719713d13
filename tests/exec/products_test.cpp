// Matrix products and attention against plain loops in double; and that every
// operator gives the same bits again, wherever its arrays lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tests/devices.h"

namespace pipesim::exec {
namespace {

using testing::bits;
using testing::choices;
using testing::differences;
using testing::every_device;
using testing::every_index;
using testing::expect_close;
using testing::Floats;
using testing::normals;
using testing::wide;
using Doubles = std::vector<double>;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

// ---- Matrix products

TEST(Products, AreThoseOfPlainLoops) {
  struct Shape {
    std::int64_t m, n, k;
  };
  // Nothing; ones; beside tiles; beside blocks of rows, columns and depth.
  const std::vector<Shape> shapes{{0, 3, 4},    {3, 0, 4},     {3, 4, 0},     {1, 1, 1},
                                  {1, 40, 9},   {37, 1, 5},    {6, 32, 16},   {7, 33, 17},
                                  {64, 64, 64}, {97, 31, 260}, {20, 530, 40}, {193, 65, 513}};
  for (const auto& [m, n, k] : shapes) {
    for (const Transpose transpose : {Transpose::none, Transpose::a, Transpose::b}) {
      const auto a = normals(m * k, 1);
      const auto b = normals(k * n, 2);
      const auto before = normals(m * n, 3);
      Doubles want;
      Doubles size;  // of what is summed, which bounds the error
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          want.push_back(0);
          size.push_back(1);
          for (std::int64_t p = 0; p < k; ++p) {
            const double term =
                static_cast<double>(a[place(transpose == Transpose::a ? p * m + i : i * k + p)]) *
                b[place(transpose == Transpose::b ? j * k + p : p * n + j)];
            want.back() += term;
            size.back() += std::abs(term);
          }
        }
      }
      for (const auto& device : every_device()) {
        Floats left(*device, a, 1);
        Floats right(*device, b, 2);
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(device->description() + ", " + std::to_string(m) + " x " +
                       std::to_string(n) + " x " + std::to_string(k) + ", transpose " +
                       std::to_string(static_cast<int>(transpose)) + (accumulate ? ", added" : ""));
          Floats c(*device, accumulate ? before : std::vector<float>(before.size(), NAN));
          device->matrix_product(transpose, m, n, k, left.data(), right.data(), c.data(),
                                 accumulate);
          const auto got = c.values();
          for (std::size_t i = 0; i < got.size(); ++i) {
            const double expected = want[i] + (accumulate ? before[i] : 0);
            ASSERT_TRUE(std::abs(got[i] - expected) <= 1e-6 * size[i])
                << i << ": " << got[i] << " instead of " << expected;
          }
        }
      }
    }
  }
}

// ---- Attention

struct Attended {
  Doubles probabilities;
  Doubles y;
};

Attended attend(const AttentionShape& shape, const Doubles& qkv) {
  const std::int64_t s = shape.sequence;
  const std::int64_t d = shape.head_size;
  const std::int64_t hidden = shape.hidden();
  const std::int64_t width = hidden + 2 * (hidden / shape.group);  // of a row of qkv
  Attended result;
  result.probabilities.resize(place(shape.batch * shape.heads * s * s));
  result.y.resize(place(shape.rows() * hidden));
  for (std::int64_t pair = 0; pair < shape.batch * shape.heads; ++pair) {
    const std::int64_t start = pair / shape.heads * s;
    const std::int64_t head = pair % shape.heads;
    const double* q = qkv.data() + start * width + head * d;
    const double* k = qkv.data() + start * width + hidden + head / shape.group * d;
    const double* v = k + hidden / shape.group;
    for (std::int64_t i = 0; i < s; ++i) {
      double* p = result.probabilities.data() + (pair * s + i) * s;
      double* y = result.y.data() + (start + i) * hidden + head * d;
      double sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        const double score =
            std::inner_product(q + i * width, q + i * width + d, k + j * width, 0.0);
        p[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        sum += p[j];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        p[j] /= sum;
        for (std::int64_t c = 0; c < d; ++c) y[c] += p[j] * v[j * width + c];
      }
    }
  }
  return result;
}

void check_linear_attention(Device& device, const AttentionShape& shape,
                            const std::vector<float>& qkv, const std::vector<float>& dy,
                            const Attended& want, const std::vector<std::size_t>& places,
                            const Doubles& slopes) {
  Floats x(device, qkv);
  Floats d(device, dy);
  ASSERT_EQ(device.attention_state(shape), 2 * shape.rows() * shape.heads);
  Floats state(device, device.attention_state(shape));
  Floats y(device, shape.rows() * shape.hidden());
  Floats dqkv(device, shape.rows() * shape.qkv_size());
  device.attention(shape, x.data(), state.data(), y.data());
  expect_close(y.values(), want.y, 1e-5, 2e-6, "y, linear");
  device.attention_backward(shape, x.data(), state.data(), y.data(), d.data(), dqkv.data());
  const auto all = dqkv.values();
  EXPECT_EQ(std::ranges::count_if(all, [](float value) { return std::isnan(value); }), 0);
  std::vector<float> got;
  for (const std::size_t i : places) got.push_back(all[i]);
  expect_close(got, slopes, 2e-5, 2e-5, "dqkv, linear");
}

// The gradient at some elements, spread over all.
void check_attention(const AttentionShape& shape, std::size_t samples) {
  SCOPED_TRACE("sequence " + std::to_string(shape.sequence) + ", groups of " +
               std::to_string(shape.group));
  const auto qkv = normals(shape.rows() * shape.qkv_size(), 1);
  const auto dy = normals(shape.rows() * shape.hidden(), 2);
  const Attended want = attend(shape, wide(qkv));
  std::vector<std::size_t> places = every_index(qkv.size());
  std::shuffle(places.begin(), places.end(), std::mt19937(3));
  places.resize(std::min(samples, places.size()));
  const Doubles slopes = differences(wide(qkv), places, [&](const Doubles& values) {
    const Doubles y = attend(shape, values).y;
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  });
  for (const auto& device : every_device()) {
    SCOPED_TRACE(device->description());
    AttentionShape linear = shape;
    linear.linear = true;
    check_linear_attention(*device, linear, qkv, dy, want, places, slopes);
    Floats x(*device, qkv);
    Floats d(*device, dy);
    Floats p(*device, static_cast<std::int64_t>(want.probabilities.size()));
    Floats y(*device, shape.rows() * shape.hidden());
    Floats dqkv(*device, shape.rows() * shape.qkv_size());
    device->attention(shape, x.data(), p.data(), y.data());
    expect_close(p.values(), want.probabilities, 1e-5, 0, "probabilities");  // exact zeros
    expect_close(y.values(), want.y, 1e-5, 2e-6, "y");
    device->attention_backward(shape, x.data(), p.data(), y.data(), d.data(), dqkv.data());
    const auto all = dqkv.values();
    EXPECT_EQ(std::ranges::count_if(all, [](float value) { return std::isnan(value); }), 0);
    std::vector<float> got;
    for (const std::size_t i : places) got.push_back(all[i]);
    expect_close(got, slopes, 2e-5, 2e-5, "dqkv");
  }
}

TEST(Attention, IsThatOfPlainLoopsAndItsGradientThatOfDifferences) {
  check_attention({1, 1, 1, 1}, 3);
  check_attention({2, 5, 2, 3}, 180);
  check_attention({1, 64, 1, 8}, 40);
  check_attention({1, 65, 2, 5}, 40);
  check_attention({2, 150, 2, 20}, 40);
  check_attention({2, 5, 4, 3, 2}, 240);
  check_attention({1, 7, 3, 2, 3}, 70);  // all heads share one
  check_attention({2, 130, 6, 5, 3}, 60);
}

// Lengths near blocks of rows and of columns, which are 64 and 512.
TEST(Attention, LinearIsTheOtherToRounding) {
  for (const std::int64_t sequence : {63, 64, 65, 511, 512, 513, 577, 1100}) {
    for (const std::int64_t group : {1, 3}) {
      AttentionShape shape{2, sequence, 3, 10, group};
      SCOPED_TRACE("sequence " + std::to_string(sequence) + ", groups of " + std::to_string(group));
      const auto qkv = normals(shape.rows() * shape.qkv_size(), 1);
      const auto dy = normals(shape.rows() * shape.hidden(), 2);
      for (const auto& device : every_device()) {
        SCOPED_TRACE(device->description());
        std::vector<std::vector<float>> both;
        for (const bool linear : {false, true}) {
          shape.linear = linear;
          Floats x(*device, qkv);
          Floats d(*device, dy);
          Floats state(*device, device->attention_state(shape));
          Floats y(*device, shape.rows() * shape.hidden());
          Floats dqkv(*device, shape.rows() * shape.qkv_size());
          device->attention(shape, x.data(), state.data(), y.data());
          device->attention_backward(shape, x.data(), state.data(), y.data(), d.data(),
                                     dqkv.data());
          both.push_back(y.values());
          both.push_back(dqkv.values());
        }
        expect_close(both[2], wide(both[0]), 1e-5, 2e-6, "y");
        expect_close(both[3], wide(both[1]), 1e-5, 1e-5, "dqkv");
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// The first block of columns has scores far below those of the next, or above.
TEST(Attention, LinearFollowsTheLargestScoreFromBlockToBlock) {
  for (const float first : {-90.0F, 90.0F}) {
    AttentionShape shape{1, 1030, 1, 1};
    std::vector<float> qkv;
    for (std::int64_t row = 0; row < shape.rows(); ++row) {
      qkv.insert(qkv.end(), {1, row < 512 ? first : 0.25F * static_cast<float>(row % 3),
                             static_cast<float>(row % 7)});
    }
    const Attended want = attend(shape, wide(qkv));
    shape.linear = true;
    for (const auto& device : every_device()) {
      Floats x(*device, qkv);
      Floats state(*device, 2 * shape.rows());
      Floats y(*device, shape.rows());
      device->attention(shape, x.data(), state.data(), y.data());
      expect_close(y.values(), want.y, 1e-5, 1e-6, "y");
    }
  }
}

// A matrix of scores would take 4 GiB, more than all that is allocated here by far.
TEST(Attention, LinearKeepsTwoNumbersForEachRowOfALongSequence) {
  const AttentionShape shape{1, 32'768, 1, 2, 1, true};
  const auto device = make_cpu_device();
  EXPECT_EQ(device->attention_state(shape), 2 * 32'768);
  Floats x(*device, normals(shape.rows() * shape.qkv_size(), 1));
  Floats state(*device, device->attention_state(shape));
  Floats y(*device, shape.rows() * shape.hidden());
  device->attention(shape, x.data(), state.data(), y.data());
  for (const float value : y.values()) ASSERT_LE(std::abs(value), 6);
}

TEST(Attention, OfLargeScoresStaysFinite) {
  for (const auto& device : every_device()) {
    const AttentionShape shape{1, 70, 1, 4};
    Floats qkv(*device, normals(70 * 12, 1, 100));
    Floats p(*device, 70 * 70);
    Floats y(*device, 70 * 4);
    device->attention(shape, qkv.data(), p.data(), y.data());
    const auto probabilities = p.values();
    for (std::int64_t row = 0; row < 70; ++row) {
      const auto first = probabilities.begin() + row * 70;
      EXPECT_NEAR(std::accumulate(first, first + 70, 0.0), 1, 1e-5);
    }
    for (const float value : y.values()) EXPECT_TRUE(std::isfinite(value));
    const AttentionShape linear{1, 70, 1, 4, 1, true};
    Floats state(*device, 2 * 70);
    Floats again(*device, 70 * 4);
    Floats dqkv(*device, 70 * 12);
    device->attention(linear, qkv.data(), state.data(), again.data());
    expect_close(again.values(), wide(y.values()), 1e-4, 1e-3, "y, linear");
    device->attention_backward(linear, qkv.data(), state.data(), again.data(), y.data(),
                               dqkv.data());
    for (const float value : dqkv.values()) EXPECT_TRUE(std::isfinite(value));
  }
}

// ---- Again

constexpr std::int64_t rows = 70;
constexpr std::int64_t columns = 83;
constexpr std::int64_t count = rows * columns;
const Dropout tenth{{.seed = 9}, 0.1F};

// An operator on fresh arrays, `offset` floats past an aligned address; all
// that it wrote, one array after the other.
struct Call {
  const char* name;
  std::function<std::vector<float>(Device&, int offset)> run;
};

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<float> product(Device& device, int offset, Transpose transpose, std::int64_t m,
                           std::int64_t n, std::int64_t k, bool accumulate) {
  Floats a(device, normals(m * k, 1), offset);
  Floats b(device, normals(n * k, 2), 2 * offset);
  Floats c(device, normals(m * n, 3), 3 * offset);
  device.matrix_product(transpose, m, n, k, a.data(), b.data(), c.data(), accumulate);
  return c.values();
}

const std::vector<Call> calls{
    {"product", [](Device& d, int o) { return product(d, o, Transpose::none, 70, 83, 91, false); }},
    {"product a", [](Device& d, int o) { return product(d, o, Transpose::a, 128, 96, 300, true); }},
    {"product b", [](Device& d, int o) { return product(d, o, Transpose::b, 64, 256, 64, false); }},
    {"large product",
     [](Device& d, int o) { return product(d, o, Transpose::none, 200, 512, 384, false); }},
    {"narrow product",
     [](Device& d, int o) { return product(d, o, Transpose::none, 1, 200, 77, true); }},
    {"column product",
     [](Device& d, int o) { return product(d, o, Transpose::none, 200, 1, 77, false); }},
    {"sum_of_squares",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       const double sum = testing::sum_of_squares(d, count, x.data());
       return std::vector<float>{static_cast<float>(sum), static_cast<float>(sum * 0x1p24)};
     }},
    {"add_column_sums",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats sums(d, normals(columns, 2), o);
       d.add_column_sums(rows, columns, x.data(), sums.data());
       return sums.values();
     }},
    {"gelu",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats bias(d, normals(columns, 2), 2 * o);
       Floats y(d, count, 3 * o);
       d.bias_gelu(rows, columns, bias.data(), x.data(), y.data());
       d.gelu_backward(count, x.data(), y.data(), x.data());
       return joined(x.values(), y.values());
     }},
    {"bias_dropout_add",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats bias(d, normals(columns, 2), 2 * o);
       Floats residual(d, normals(count, 3), 3 * o);
       d.bias_dropout_add(rows, columns, bias.data(), x.data(), residual.data(), tenth, x.data());
       return x.values();
     }},
    {"layer_norm",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats gamma(d, normals(columns, 2), 2 * o);
       Floats beta(d, normals(columns, 3), 3 * o);
       Floats y(d, count, o);
       Floats dx(d, count, 2 * o);
       Floats mean(d, rows, o);
       Floats rstd(d, rows, o);
       d.layer_norm(rows, columns, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                    rstd.data());
       const auto forward = y.values();
       Floats dgamma(d, columns, o);
       d.layer_norm_backward(rows, columns, y.data(), x.data(), gamma.data(), mean.data(),
                             rstd.data(), {}, dx.data(), dgamma.data(), beta.data());
       return joined(joined(forward, dx.values()), joined(dgamma.values(), beta.values()));
     }},
    {"attention",
     [](Device& d, int o) {
       const AttentionShape shape{2, 100, 3, 8};
       Floats qkv(d, normals(200 * 72, 1), o);
       Floats p(d, 6 * 100 * 100, 2 * o);
       Floats y(d, 200 * 24, 3 * o);
       Floats dqkv(d, 200 * 72, o);
       d.attention(shape, qkv.data(), p.data(), y.data());
       d.attention_backward(shape, qkv.data(), p.data(), y.data(), y.data(), dqkv.data());
       return joined(y.values(), dqkv.values());
     }},
    {"grouped attention",
     [](Device& d, int o) {
       const AttentionShape shape{2, 100, 4, 8, 2};
       Floats qkv(d, normals(200 * 64, 1), o);
       Floats p(d, 8 * 100 * 100, 2 * o);
       Floats y(d, 200 * 32, 3 * o);
       Floats dqkv(d, 200 * 64, o);
       d.attention(shape, qkv.data(), p.data(), y.data());
       d.attention_backward(shape, qkv.data(), p.data(), y.data(), y.data(), dqkv.data());
       return joined(y.values(), dqkv.values());
     }},
    {"linear attention",
     [](Device& d, int o) {
       const AttentionShape shape{1, 600, 4, 8, 2, true};
       Floats qkv(d, normals(600 * 64, 1), o);
       Floats state(d, 2 * 4 * 600, 2 * o);
       Floats y(d, 600 * 32, 3 * o);
       Floats dqkv(d, 600 * 64, o);
       d.attention(shape, qkv.data(), state.data(), y.data());
       d.attention_backward(shape, qkv.data(), state.data(), y.data(), y.data(), dqkv.data());
       return joined(joined(y.values(), state.values()), dqkv.values());
     }},
    {"rotate",
     [](Device& d, int o) {
       Floats qkv(d, normals(rows * 72, 1), o);
       d.rotate({2, rows / 2, 4, 12, 4}, 10'000, false, qkv.data());
       return qkv.values();
     }},
    {"gated_silu",
     [](Device& d, int o) {
       Floats x(d, normals(2 * count, 1), o);
       Floats y(d, count, 3 * o);
       d.gated_silu(rows, columns, x.data(), y.data());
       d.gated_silu_backward(rows, columns, x.data(), y.data(), x.data());
       return joined(x.values(), y.values());
     }},
    {"rms_norm",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats gamma(d, normals(columns, 2), 2 * o);
       Floats y(d, count, o);
       Floats dx(d, count, 2 * o);
       Floats rstd(d, rows, o);
       Floats dgamma(d, columns, 3 * o);
       d.rms_norm(rows, columns, x.data(), gamma.data(), y.data(), rstd.data());
       d.rms_norm_backward(rows, columns, y.data(), x.data(), gamma.data(), rstd.data(), {},
                           dx.data(), dgamma.data());
       return joined(joined(y.values(), dx.values()), dgamma.values());
     }},
    {"cross_entropy",
     [](Device& d, int o) {
       Floats x(d, normals(count, 1), o);
       Floats losses(d, rows, o);
       const auto targets = choices(rows, columns, 2);
       d.cross_entropy(rows, columns, targets.data(), x.data(), losses.data());
       return joined(x.values(), losses.values());
     }},
    {"adamw",
     [](Device& d, int o) {
       Floats g(d, normals(count, 1), o);
       Floats w(d, normals(count, 2), 2 * o);
       Floats m(d, normals(count, 3), 3 * o);
       Floats v(d, std::vector<float>(place(count), 0.1F), o);
       d.adamw(count, {.learning_rate = 0.1F, .weight_decay = 0.1F}, g.data(), w.data(), m.data(),
               v.data(), {});
       return joined(w.values(), joined(m.values(), v.values()));
     }},
    {"fill_normal",
     [](Device& d, int o) {
       Floats x(d, count, o);
       d.fill_normal(count, x.data(), tenth.key, 1);
       return x.values();
     }},
};

TEST(Again, SameBitsAtEveryAlignmentAfterAnyCallsOnAnyDeviceOfTheKind) {
  const auto others = every_device();
  for (std::size_t kind = 0; kind < others.size(); ++kind) {
    SCOPED_TRACE(others[kind]->description());
    const auto devices = every_device();  // the first calls of a fresh device, in another order
    std::vector<std::vector<std::uint32_t>> first;
    for (const Call& call : calls) first.push_back(bits(call.run(*devices[kind], 0)));
    for (const int offset : {0, 1, 3, 4, 8, 15}) {
      for (std::size_t i = calls.size(); i-- > 0;) {
        EXPECT_EQ(bits(calls[i].run(*others[kind], offset)), first[i])
            << calls[i].name << " at offset " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace pipesim::exec
