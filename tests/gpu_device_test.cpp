// The operators of GPUs against those of the CPU, which plain loops in double
// check elsewhere (operators_test, products_test); and that the same call gives
// the same bits again.
//
// gpu_device_test [FOLDER]: of the modules in that folder, else of those beside
// pipeexec. Exits with 77, as skipped, where no folder is named and no module
// finds a GPU.
//
// Tolerances: u = 2^-24 is the error of one rounding. What is computed without
// sums, other than by exp, has the CPU's bits. Sums of n products of normal
// numbers are off by about 0.3 u n, since partial sums grow as the root; 8 u n
// leaves room for the largest of a million of those, on both sides.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "exec/device/gpu/library.h"
#include "tests/command.h"
#include "tests/devices.h"
#include "tests/errors.h"

namespace pipesim::exec {
namespace {

using testing::Array;
using testing::bits;
using testing::choices;
using testing::expect_close;
using testing::normals;
using testing::wide;

constexpr double u = 0x1p-24;

const char* const kinds[] = {"cuda", "hip"};

std::string& modules() {
  static std::string folder = std::filesystem::path(PIPEEXEC_COMMAND).parent_path().string();
  return folder;
}

const GpuModule& module_of(const std::string& kind) { return load_gpu_module(kind, modules()); }

// Why there is no GPU of that kind, or no_error.
std::string left_out(const std::string& kind) {
  return testing::error_of([&] { module_of(kind).gpus(); });
}

void on_every_gpu(const std::function<void(Device&, bool own_products)>& check) {
  for (const char* kind : kinds) {
    if (left_out(kind) != testing::no_error) continue;
    std::string done;
    for (const bool own : {true, false}) {
      const auto device = module_of(kind).make({.gpu = 0, .own_products = own});
      if (device->description() == done) continue;  // there is no library
      done = device->description();
      SCOPED_TRACE(done);
      check(*device, own);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Whole numbers on a device.
class Numbers {
 public:
  Numbers(Device& device, const std::vector<std::int32_t>& values)
      : device_(device), bytes_(4 * static_cast<std::int64_t>(values.size())) {
    data_ = static_cast<std::int32_t*>(device.allocate(bytes_));
    device.upload(data_, values.data(), bytes_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() { device_.release(data_); }

  const std::int32_t* data() const { return data_; }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::int32_t* data_;
};

// An operator on fresh arrays, `offset` floats past an aligned address.
using Run = std::function<std::vector<float>(Device&, int offset)>;

struct Close {
  double relative = 0;
  double absolute = 0;      // both 0: the same bits
  bool by_library = false;  // bits may depend on alignment
};

// Every GPU gives the CPU's values, and the same bits again, at any alignment.
void expect_parity(const std::string& name, const Close& close, const Run& run) {
  SCOPED_TRACE(name);
  const auto cpu = make_cpu_device();
  const std::vector<float> want = run(*cpu, 0);
  on_every_gpu([&](Device& gpu, bool own_products) {
    const std::vector<float> got = run(gpu, 0);
    if (close.relative == 0 && close.absolute == 0) {
      ASSERT_EQ(bits(got), bits(want));
    } else {
      expect_close(got, wide(want), close.relative, close.absolute, name.c_str());
    }
    ASSERT_EQ(bits(run(gpu, 0)), bits(got)) << "called again";
    if (close.by_library && !own_products) return;
    for (const int offset : {1, 3, 4}) {
      ASSERT_EQ(bits(run(gpu, offset)), bits(got)) << "at offset " << offset;
    }
  });
}

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
};

// Beside and below groups of four, blocks and chunks; many rows, wide rows.
const std::vector<Shape> shapes{{1, 1},   {3, 1},    {1, 3},    {17, 17},   {3, 129},   {129, 3},
                                {65, 64}, {1, 1000}, {1000, 7}, {17, 1024}, {300, 257}, {5, 4099}};

void on_every_shape(
    const std::string& name, const std::function<Close(std::int64_t, std::int64_t)>& close,
    const std::function<std::vector<float>(Device&, int, std::int64_t, std::int64_t)>& run) {
  for (const auto& [rows, columns] : shapes) {
    expect_parity(name + ", " + std::to_string(rows) + " x " + std::to_string(columns),
                  close(rows, columns),
                  [&, rows = rows, columns = columns](Device& device, int offset) {
                    return run(device, offset, rows, columns);
                  });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Close same_bits(std::int64_t /*rows*/, std::int64_t /*columns*/) { return {}; }

std::function<Close(std::int64_t, std::int64_t)> within(double relative, double absolute) {
  return [=](std::int64_t, std::int64_t) { return Close{relative, absolute}; };
}

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const RandomKey key{.seed = 0x123456789abcdef, .site = 3, .layer = 9, .step = 77, .microbatch = 5};

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
    Array after(gpu, x);  // and the device still works
    gpu.add(1000, after.data(), after.data(), after.data());
    EXPECT_EQ(after.values()[999], 2 * x[999]);
  });
}

// ---- Elements

TEST(Gpu, Elements) {
  on_every_shape("add, copy, fill", same_bits,
                 [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                   const std::int64_t count = rows * columns;
                   Array a(d, normals(count, 1), o);
                   Array b(d, normals(count, 2), 2 * o);
                   Array sum(d, count, 3 * o);
                   Array copied(d, count, o);
                   Array filled(d, count, o);
                   d.add(count, a.data(), b.data(), sum.data());
                   d.add(count, a.data(), b.data(), b.data());
                   d.copy(count, sum.data(), copied.data());
                   d.fill(count, filled.data(), -0.5F);
                   return joined(joined(b.values(), copied.values()), filled.values());
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
        Array a(gpu, x, offset);
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
    const Dropout dropout{key, probability};
    on_every_shape("dropout " + std::to_string(probability), same_bits,
                   [&](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                     const std::int64_t count = rows * columns;
                     Array x(d, normals(count, 1), o);
                     Array bias(d, normals(columns, 2), 2 * o);
                     Array residual(d, normals(count, 3), 3 * o);
                     Array y(d, count, o);
                     d.dropout(count, x.data(), dropout, y.data());
                     d.bias_dropout_add(rows, columns, bias.data(), x.data(), residual.data(),
                                        dropout, x.data());
                     return joined(x.values(), y.values());
                   });
  }
}

// Logarithm, sine and cosine in double may differ in their last bit: then a
// float may, too.
TEST(Gpu, NormalNumbersAreThoseOfTheCpu) {
  for (const std::int64_t count : {1, 7, 40'001}) {
    expect_parity("fill_normal " + std::to_string(count), {2 * u, 0}, [&](Device& d, int o) {
      Array x(d, count, o);
      d.fill_normal(count, x.data(), key, 0.02F);
      return x.values();
    });
  }
}

TEST(Gpu, AdamW) {
  on_every_shape("adamw", within(8 * u, 8 * u),
                 [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                   const std::int64_t count = rows * columns;
                   Array g(d, normals(count, 1), o);
                   Array w(d, normals(count, 2), 2 * o);
                   Array m(d, normals(count, 3), 3 * o);
                   Array v(d, std::vector<float>(at(count), 0.1F), o);
                   AdamStep step{.learning_rate = 0.1F, .weight_decay = 0.1F};
                   step.correction1 = 0.3F;
                   step.correction2 = 0.1F;
                   step.gradient_scale = 0.7F;
                   d.adamw(count, step, g.data(), w.data(), m.data(), v.data(), {});
                   return joined(w.values(), joined(m.values(), v.values()));
                 });
}

// ---- Rows and columns

TEST(Gpu, Bias) {
  on_every_shape("add_bias", same_bits,
                 [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                   Array x(d, normals(rows * columns, 1), o);
                   Array bias(d, normals(columns, 2), 2 * o);
                   d.add_bias(rows, columns, bias.data(), x.data());
                   return x.values();
                 });
}

TEST(Gpu, ColumnSums) {
  on_every_shape(
      "add_column_sums",
      [](std::int64_t rows, std::int64_t) {
        return Close{0, 8 * u * static_cast<double>(rows + 1)};
      },
      [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
        Array x(d, normals(rows * columns, 1), o);
        Array sums(d, normals(columns, 2), 2 * o);
        d.add_column_sums(rows, columns, x.data(), sums.data());
        return sums.values();
      });
}

TEST(Gpu, Gelu) {
  on_every_shape("gelu", within(64 * u, 8 * u),
                 [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                   const std::int64_t count = rows * columns;
                   Array x(d, normals(count, 1, 3), o);
                   Array bias(d, normals(columns, 2), 2 * o);
                   Array y(d, count, 3 * o);
                   Array dy(d, normals(count, 3), o);
                   d.bias_gelu(rows, columns, bias.data(), x.data(), y.data());
                   d.gelu_backward(count, x.data(), dy.data(), dy.data());
                   return joined(joined(x.values(), y.values()), dy.values());
                 });
}

TEST(Gpu, GeluOfLargeNumbersAndNaN) {
  const std::vector<float> x{11, 50, 1e4F, 1e20F, 3e38F, -11, -50, -1e4F, -1e20F, -3e38F, NAN};
  on_every_gpu([&](Device& gpu, bool) {
    const auto count = static_cast<std::int64_t>(x.size());
    Array a(gpu, x);
    Array bias(gpu, std::vector<float>(x.size(), 0));
    Array y(gpu, count);
    Array dx(gpu, std::vector<float>(x.size(), 1));
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

// dgamma sums over rows.
TEST(Gpu, LayerNorm) {
  on_every_shape(
      "layer_norm",
      [](std::int64_t rows, std::int64_t columns) {
        // Of a row of one, x - mean is nothing but rounding, and rstd large.
        if (columns < 3) return Close{1e-4, 1e-4};
        return Close{1e-5, 1e-5 + 16 * u * static_cast<double>(rows)};
      },
      [](Device& d, int o, std::int64_t rows, std::int64_t columns) {
        const std::int64_t count = rows * columns;
        Array x(d, normals(count, 1), o);
        Array gamma(d, normals(columns, 2), 2 * o);
        Array beta(d, normals(columns, 3), 2 * o);
        Array dy(d, normals(count, 4), 3 * o);
        Array residual(d, normals(count, 5), o);
        Array y(d, count, o);
        Array mean(d, rows, o);
        Array rstd(d, rows, o);
        Array dx(d, count, o);
        Array dgamma(d, columns, 2 * o);
        Array dbeta(d, columns, 3 * o);
        d.layer_norm(rows, columns, x.data(), gamma.data(), beta.data(), y.data(), mean.data(),
                     rstd.data());
        d.layer_norm_backward(rows, columns, dy.data(), x.data(), gamma.data(), mean.data(),
                              rstd.data(), nullptr, dx.data(), dgamma.data(), dbeta.data());
        d.layer_norm_backward(rows, columns, dy.data(), x.data(), gamma.data(), mean.data(),
                              rstd.data(), residual.data(), residual.data(), dgamma.data(),
                              dbeta.data());
        std::vector<float> all;
        for (Array* array : {&y, &mean, &rstd, &dx, &residual, &dgamma, &dbeta}) {
          all = joined(std::move(all), array->values());
        }
        return all;
      });
}

// ---- Products

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
        expect_parity(
            "product " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                ", transpose " + std::to_string(static_cast<int>(transpose)),
            {0, 8 * u * static_cast<double>(k + 1), true},
            [&, m = m, n = n, k = k](Device& d, int o) {
              Array a(d, normals(m * k, 1), o);
              Array b(d, normals(n * k, 2), 2 * o);
              Array c(d, accumulate ? normals(m * n, 3) : std::vector<float>(at(m * n), NAN),
                      3 * o);
              d.matrix_product(transpose, m, n, k, a.data(), b.data(), c.data(), accumulate);
              return c.values();
            });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// What is summed there is of size 1, and of at most `sequence` terms.
TEST(Gpu, Attention) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 1, 1}, AttentionShape{2, 3, 1, 5}, AttentionShape{1, 17, 3, 8},
        AttentionShape{2, 129, 2, 17}, AttentionShape{3, 64, 4, 64},
        AttentionShape{1, 300, 2, 20}}) {
    expect_parity("attention, sequence " + std::to_string(shape.sequence), {2e-5, 2e-5, true},
                  [&](Device& d, int o) {
                    const std::int64_t count = shape.rows() * shape.hidden();
                    Array qkv(d, normals(3 * count, 1), o);
                    Array state(d, d.attention_state(shape), 2 * o);
                    Array y(d, count, 3 * o);
                    Array dy(d, normals(count, 2), o);
                    Array dqkv(d, 3 * count, o);
                    d.attention(shape, qkv.data(), state.data(), y.data());
                    d.attention_backward(shape, qkv.data(), state.data(), y.data(), dy.data(),
                                         dqkv.data());
                    return joined(y.values(), dqkv.values());
                  });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// ---- Ends of a model

TEST(Gpu, EmbeddingAndItsGradientInTheOrderOfRows) {
  for (const std::int32_t words : {1, 5, 3000}) {
    on_every_shape("embed of " + std::to_string(words) + " words", same_bits,
                   [&](Device& d, int o, std::int64_t rows, std::int64_t columns) {
                     const std::int64_t sequence = 19;
                     const Numbers tokens(d, choices(rows, words, 1));
                     Array table(d, normals(words * columns, 2), o);
                     Array positions(d, normals(sequence * columns, 3), 2 * o);
                     Array dy(d, normals(rows * columns, 4), 3 * o);
                     Array y(d, rows * columns, o);
                     d.embed(rows, columns, sequence, tokens.data(), table.data(), positions.data(),
                             y.data());
                     d.embed_backward(rows, columns, sequence, tokens.data(), dy.data(),
                                      table.data(), positions.data());
                     return joined(joined(y.values(), table.values()), positions.values());
                   });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Gpu, CrossEntropy) {
  on_every_shape("cross_entropy", within(1e-5, 1e-5),
                 [](Device& d, int o, std::int64_t rows, std::int64_t classes) {
                   const Numbers targets(d, choices(rows, static_cast<std::int32_t>(classes), 2));
                   Array x(d, normals(rows * classes, 1, 4), o);
                   Array losses(d, rows, 2 * o);
                   d.cross_entropy(rows, classes, targets.data(), x.data(), losses.data());
                   const auto softmax = x.values();
                   d.cross_entropy_backward(rows, classes, targets.data(), x.data());
                   return joined(joined(softmax, losses.values()), x.values());
                 });
}

// ---- Training

TEST(Gpu, PipelinesHaveTheBitsOfOneRank) {
  for (const char* kind : kinds) {
    if (left_out(kind) != testing::no_error) continue;
    for (const char* what :
         {"--schedule gpipe --stages 1", "--schedule 1f1b --stages 2",
          "--schedule zb-h1 --stages 4", "--schedule interleaved --stages 2 --recompute full"}) {
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
}  // namespace pipesim::exec

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) pipesim::exec::modules() = argv[1];
  bool there = false;
  std::string reasons;
  for (const char* kind : pipesim::exec::kinds) {
    const std::string reason = pipesim::exec::left_out(kind);
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
  return RUN_ALL_TESTS();
}
