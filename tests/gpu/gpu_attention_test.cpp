// Attention on GPUs: part of gpu_device_test.
#include "tests/gpu/gpu_parity.h"

namespace pipesim::exec::parity {
namespace {

// On tensor cores too, where the GPU has them: for bfloat16.
void with_every_attention(const std::function<void(Device&)>& check) {
  for (const char* kind : kinds) {
    if (left_out(kind) != testing::no_error) continue;
    std::string done;
    for (const bool tensor_cores : {false, true}) {
      const auto device =
          module_of(kind).make({.own_products = true, .tensor_cores = tensor_cores});
      if (device->description() == done) continue;
      done = device->description();
      EXPECT_EQ(done.find("tensor cores") != std::string::npos, tensor_cores) << done;
      SCOPED_TRACE(done);
      check(*device);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// y, then the gradient by qkv, whose q and k are of that size.
std::vector<float> attention_both_ways(const Place& p, const AttentionShape& shape, float size) {
  const std::int64_t count = shape.rows() * shape.hidden();
  const std::int64_t width = shape.qkv_size();
  std::vector<float> numbers = p.normals(shape.rows() * width, 1);
  for (std::int64_t i = 0; i < shape.rows() * width; ++i) {
    if (i % width < width - shape.kv_size()) numbers[at(i)] *= size;
  }
  Tensor qkv(p, rounded(p.precision, numbers));
  Floats state(p.device, p.device.attention_state(shape), 2 * p.offset);
  Tensor y(p, count, 3);
  Tensor dy(p, p.normals(count, 2), 2);
  Tensor dqkv(p, shape.rows() * width);
  p.device.attention(shape, qkv.data(), state.data(), y.data());
  p.device.attention_backward(shape, qkv.data(), state.data(), y.data(), dy.data(), dqkv.data());
  return joined(y.values(), dqkv.values());
}

// The same bits again, wherever arrays lie.
void expect_attention(const AttentionShape& shape, float size, double float32_close,
                      double bfloat16_close) {
  SCOPED_TRACE("sequence " + std::to_string(shape.sequence) + ", heads of " +
               std::to_string(shape.head_size) + ", groups of " + std::to_string(shape.group) +
               ", size " + std::to_string(size));
  const auto cpu = make_cpu_device();
  for (const Number precision : {Number::float32, Number::bfloat16}) {
    SCOPED_TRACE(precision == Number::float32 ? "float32" : "bfloat16");
    const double close = precision == Number::float32 ? float32_close : bfloat16_close;
    const std::vector<double> want = wide(attention_both_ways({*cpu, precision}, shape, size));
    with_every_attention([&](Device& gpu) {
      const auto got = attention_both_ways({gpu, precision, precision}, shape, size);
      expect_close(got, want, close, close, "attention");
      if (::testing::Test::HasFatalFailure()) return;
      for (const int offset : {0, 1, 8}) {
        const auto again = attention_both_ways({gpu, precision, precision, offset}, shape, size);
        ASSERT_EQ(bits(again), bits(got)) << "again, at offset " << offset;
      }
    });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// What is summed there is of size 1, and of at most `sequence` terms. In bfloat16
// y, weights and their gradients are off by 2^-9 of themselves each, and so are
// a row's dots, of head_size terms.
TEST(Gpu, Attention) {
  const std::vector<AttentionShape> shapes{
      AttentionShape{1, 1, 1, 1},     AttentionShape{2, 2, 3, 3},    AttentionShape{3, 17, 1, 16},
      AttentionShape{1, 17, 3, 80},   AttentionShape{2, 64, 2, 64},  AttentionShape{1, 65, 2, 128},
      AttentionShape{1, 65, 1, 33},   AttentionShape{2, 129, 2, 32}, AttentionShape{1, 129, 1, 96},
      AttentionShape{1, 129, 1, 17},  AttentionShape{1, 300, 2, 20}, AttentionShape{1, 300, 1, 80},
      AttentionShape{1, 300, 1, 128}, AttentionShape{1, 70, 2, 200}, AttentionShape{2, 33, 1, 256}};
  for (const AttentionShape& shape : testing::tried(shapes, 8)) {
    expect_attention(shape, 1, 2e-5, 0x1p-5);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Gradients of keys and values are sums over the heads of a group, and larger by its root.
TEST(Gpu, AttentionOfGroups) {
  const std::vector<AttentionShape> shapes{
      AttentionShape{1, 1, 2, 1, 2},     AttentionShape{2, 2, 3, 3, 3},
      AttentionShape{3, 17, 4, 16, 2},   AttentionShape{2, 65, 6, 20, 2},
      AttentionShape{1, 129, 6, 32, 3},  AttentionShape{1, 70, 4, 80, 4},
      AttentionShape{2, 130, 4, 128, 4}, AttentionShape{1, 66, 2, 200, 2}};
  for (const AttentionShape& shape : testing::tried(shapes, 4)) {
    const double larger = std::sqrt(static_cast<double>(shape.group));
    expect_attention(shape, 1, 2e-5 * larger, 0x1p-5 * larger);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Scores are normal with deviation size^2: beyond 80, whose exponential is not a
// float's. They are off by u of themselves, and gradients are larger by `size`.
TEST(Gpu, AttentionOfLargeScores) {
  expect_attention({1, 130, 2, 64}, 6, 2e-3, 0.25);
  expect_attention({1, 66, 1, 16}, 6, 2e-3, 0.25);
}

// A matrix of scores would take 16 MB.
TEST(Gpu, AttentionKeepsANumberForEachRowOfEachHead) {
  const AttentionShape shape{1, 2000, 1, 8};
  with_every_attention([&](Device& gpu) {
    EXPECT_EQ(gpu.attention_state({2, 300, 5, 16}), 2 * 300 * 5);
    const auto got = attention_both_ways({gpu}, shape, 1);
    const auto cpu = make_cpu_device();
    expect_close(got, wide(attention_both_ways({*cpu}, shape, 1)), 2e-5, 2e-5, "attention");
  });
}

// The first position sees itself alone.
TEST(Gpu, AttentionOfTheFirstPositionIsItsValue) {
  const AttentionShape shape{2, 5, 3, 16};
  const std::int64_t hidden = shape.hidden();
  with_every_attention([&](Device& gpu) {
    for (const Number type : {Number::float32, Number::bfloat16}) {
      const Place p{gpu, type, type};
      const auto numbers = p.normals(3 * shape.rows() * hidden, 1);
      Tensor qkv(p, numbers);
      Tensor y(p, shape.rows() * hidden);
      Floats state(gpu, gpu.attention_state(shape));
      gpu.attention(shape, qkv.data(), state.data(), y.data());
      const auto values = y.values();
      for (std::int64_t i = 0; i < shape.batch; ++i) {
        const std::int64_t row = i * shape.sequence;
        for (std::int64_t j = 0; j < hidden; ++j) {
          ASSERT_EQ(values[at(row * hidden + j)], numbers[at(3 * row * hidden + 2 * hidden + j)]);
        }
      }
    }
  });
}

TEST(Gpu, AttentionHasALimitOfHeads) {
  with_every_attention([](Device& gpu) {
    Floats x(gpu, 3 * 257);
    for (const Number type : {Number::float32, Number::bfloat16}) {
      const exec::Array array(x.data(), type);
      const std::string error = testing::error_of([&] {
        gpu.attention({1, 1, 1, 257}, array, x.data(), array);
      });
      EXPECT_EQ(error, "GPU: heads of 257 numbers are too large for attention; use at most 256");
    }
  });
}

}  // namespace
}  // namespace pipesim::exec::parity
