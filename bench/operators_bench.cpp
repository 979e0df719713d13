// The CPU's operators: rates of memory and of arithmetic, compared with a plain copy.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec/device/cpu/cpu_device.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t rows = 512;
constexpr std::int64_t classes = 32'000;

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

// The operators' operands: four activations, rows of parameters, one number for each row.
struct Arrays {
  explicit Arrays(std::int64_t hidden)
      : columns(hidden),
        a(numbers(rows * hidden, 1)),
        b(numbers(rows * hidden, 2)),
        c(numbers(rows * hidden, 3)),
        d(numbers(rows * hidden, 4)),
        row1(numbers(hidden, 5)),
        row2(numbers(hidden, 6)),
        row3(numbers(hidden, 7)),
        row4(numbers(hidden, 8)),
        per_row1(numbers(rows, 9)),
        per_row2(numbers(rows, 10)),
        tokens(static_cast<std::size_t>(rows)) {
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
    // A variance must not be negative.
    for (float& value : d) value *= value;
  }

  std::int64_t columns;
  std::vector<float> a, b, c, d, row1, row2, row3, row4, per_row1, per_row2;
  std::vector<std::int32_t> tokens;
};

struct Operator {
  const char* name;
  double passes;  // arrays read and written
  std::function<void(Device&, Arrays&)> run;
  bool outgrows_caches = false;  // as for all of a model's weights
};

const Dropout tenth{{.seed = 1}, 0.1F};

const std::vector<Operator> operators{
    {"fill", 1, [](Device& device, Arrays& x) { device.fill(rows * x.columns, x.a.data(), 1.0F); }},
    {"fill_normal", 1,
     [](Device& device, Arrays& x) {
       device.fill_normal(rows * x.columns, x.a.data(), tenth.key, 1.0F);
     }},
    {"add", 3,
     [](Device& device, Arrays& x) {
       device.add(rows * x.columns, x.a.data(), x.b.data(), x.c.data());
     }},
    {"copy", 2,
     [](Device& device, Arrays& x) { device.copy(rows * x.columns, x.a.data(), x.b.data()); },
     true},
    {"sum_of_squares", 1,
     [](Device& device, Arrays& x) {
       double sum = 0;
       device.sum_of_squares(rows * x.columns, x.a.data(), &sum);
       benchmark::DoNotOptimize(sum);
     }},
    {"dropout", 2,
     [](Device& device, Arrays& x) {
       device.dropout(rows * x.columns, x.a.data(), tenth, x.b.data());
     }},
    {"add_bias", 2,
     [](Device& device, Arrays& x) {
       device.add_bias(rows, x.columns, x.row1.data(), x.a.data());
     }},
    {"add_column_sums", 1,
     [](Device& device, Arrays& x) {
       device.add_column_sums(rows, x.columns, x.a.data(), x.row1.data());
     }},
    {"bias_gelu", 3,
     [](Device& device, Arrays& x) {
       device.bias_gelu(rows, x.columns, x.row1.data(), x.a.data(), x.b.data());
     }},
    {"gelu_backward", 3,
     [](Device& device, Arrays& x) {
       device.gelu_backward(rows * x.columns, x.a.data(), x.b.data(), x.c.data());
     }},
    {"bias_dropout_add", 3,
     [](Device& device, Arrays& x) {
       device.bias_dropout_add(rows, x.columns, x.row1.data(), x.a.data(), x.b.data(), tenth,
                               x.c.data());
     }},
    {"bias_add (probability 0)", 3,
     [](Device& device, Arrays& x) {
       device.bias_dropout_add(rows, x.columns, x.row1.data(), x.a.data(), x.b.data(), {},
                               x.c.data());
     }},
    {"layer_norm", 2,
     [](Device& device, Arrays& x) {
       device.layer_norm(rows, x.columns, x.a.data(), x.row1.data(), x.row2.data(), x.b.data(),
                         x.per_row1.data(), x.per_row2.data());
     }},
    {"layer_norm_backward", 4,
     [](Device& device, Arrays& x) {
       device.layer_norm_backward(rows, x.columns, x.a.data(), x.b.data(), x.row1.data(),
                                  x.per_row1.data(), x.per_row2.data(), x.c.data(), x.d.data(),
                                  x.row3.data(), x.row4.data());
     }},
    {"rms_norm", 2,
     [](Device& device, Arrays& x) {
       device.rms_norm(rows, x.columns, x.a.data(), x.row1.data(), x.b.data(), x.per_row1.data());
     }},
    {"rms_norm_backward", 4,
     [](Device& device, Arrays& x) {
       device.rms_norm_backward(rows, x.columns, x.a.data(), x.b.data(), x.row1.data(),
                                x.per_row1.data(), x.c.data(), x.d.data(), x.row3.data());
     }},
    // Half as many rows, each of gates and of gated values.
    {"gated_silu", 1.5,
     [](Device& device, Arrays& x) {
       device.gated_silu(rows / 2, x.columns, x.a.data(), x.b.data());
     }},
    {"gated_silu_backward", 2.5,
     [](Device& device, Arrays& x) {
       device.gated_silu_backward(rows / 2, x.columns, x.a.data(), x.b.data(), x.c.data());
     }},
    {"add_back (no bias, probability 0)", 3,
     [](Device& device, Arrays& x) {
       device.bias_dropout_add(rows, x.columns, {}, x.a.data(), x.b.data(), {}, x.c.data());
     }},
    // With heads of 64, two sharing each key, three quarters are rotated.
    {"rotate", 1.5,
     [](Device& device, Arrays& x) {
       device.rotate({1, rows, x.columns / 128, 64, 2}, 10'000, false, x.a.data());
     }},
    {"embed", 3,
     [](Device& device, Arrays& x) {
       device.embed(rows, x.columns, rows, x.tokens.data(), x.a.data(), x.b.data(), x.c.data());
     }},
    {"embed_backward", 6,
     [](Device& device, Arrays& x) {
       device.embed_backward(rows, x.columns, rows, x.tokens.data(), x.a.data(), x.b.data(),
                             x.c.data());
     }},
    {"adamw", 7,
     [](Device& device, Arrays& x) {
       device.adamw(rows * x.columns, {.learning_rate = 1e-9F}, x.a.data(), x.b.data(), x.c.data(),
                    x.d.data(), {});
     },
     true},
};

void memory_rate(benchmark::State& state, const Operator& op, const std::string& instructions) {
  const auto device = make_cpu_device({instructions, false});
  Arrays arrays(state.range(0));
  for (auto _ : state) op.run(*device, arrays);
  const double bytes = op.passes * 4 * static_cast<double>(rows * state.range(0));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

void matrix_product(benchmark::State& state, const std::string& instructions, bool own,
                    Transpose transpose) {
  const auto device = make_cpu_device({instructions, own});
  const std::int64_t size = state.range(0);
  const auto a = numbers(rows * size, 1);
  const auto b = numbers(size * size, 2);
  auto c = numbers(rows * size, 3);
  for (auto _ : state) {
    if (transpose == Transpose::a) {  // as for the gradient of a weight: size x size over all rows
      device->matrix_product(transpose, size, rows, rows, a.data(), b.data(), c.data(), false);
    } else {
      device->matrix_product(transpose, rows, size, size, a.data(), b.data(), c.data(), false);
    }
  }
  const auto k = static_cast<double>(transpose == Transpose::a ? rows : size);
  count_flops(state, 2.0 * static_cast<double>(rows * size) * k);
}

// Heads of 64. The half above the diagonal, and the scores that a linear backward recomputes, are
// not counted.
void run_attention(benchmark::State& state, const AttentionShape& shape, bool own, bool backward) {
  const auto device = make_cpu_device({"", own});
  const auto qkv = numbers(shape.rows() * shape.qkv_size(), 1);
  const auto dy = numbers(shape.rows() * shape.hidden(), 2);
  std::vector<float> kept(static_cast<std::size_t>(device->attention_state(shape)));
  std::vector<float> y(dy.size());
  std::vector<float> dqkv(qkv.size());
  device->attention(shape, qkv.data(), kept.data(), y.data());
  for (auto _ : state) {
    if (backward) {  // `kept` may be overwritten; the speed is the same
      device->attention_backward(shape, qkv.data(), kept.data(), y.data(), dy.data(), dqkv.data());
    } else {
      device->attention(shape, qkv.data(), kept.data(), y.data());
    }
  }
  const std::int64_t half = shape.sequence * (shape.sequence + 1) / 2;
  count_flops(state,
              128.0 * static_cast<double>(shape.batch * shape.heads * half) * (backward ? 4 : 2));
}

// One sequence.
void attention(benchmark::State& state, bool own, bool backward) {
  run_attention(state, {1, rows, state.range(0) / 64, 64}, own, backward);
}

// Four heads, of sequences of several lengths.
void attention_of_length(benchmark::State& state, bool linear, bool own, bool backward) {
  run_attention(state, {1, state.range(0), 4, 64, 1, linear}, own, backward);
}

void cross_entropy(benchmark::State& state) {
  const auto device = make_cpu_device();
  const std::int64_t count = 64;
  auto x = numbers(count * classes, 1);
  const std::vector<std::int32_t> targets(static_cast<std::size_t>(count));
  std::vector<float> losses(targets.size());
  for (auto _ : state)
    device->cross_entropy(count, classes, targets.data(), x.data(), losses.data());
  state.SetBytesProcessed(state.iterations() * 2 * 4 * count * classes);
}

void register_all() {
  for (const std::string& set : cpu_instruction_sets()) {
    for (const Operator& op : operators) {
      auto* bench =
          benchmark::RegisterBenchmark((op.name + ("/" + set)).c_str(), memory_rate, op, set);
      bench->Arg(512)->Arg(1024);
      if (op.outgrows_caches) bench->Arg(16'384);
    }
    for (const bool own : {false, true}) {
      const std::string who = own ? "own/" + set : make_cpu_device()->description();
      if (!own && set != cpu_instruction_sets().front()) continue;
      const std::map<std::string, Transpose> kinds{
          {"", Transpose::none}, {"_a", Transpose::a}, {"_b", Transpose::b}};
      for (const auto& [suffix, transpose] : kinds) {
        benchmark::RegisterBenchmark(("matrix_product" + suffix + "/" + who).c_str(),
                                     matrix_product, set, own, transpose)
            ->Arg(512)
            ->Arg(1024);
      }
    }
  }
  for (const bool own : {false, true}) {
    const std::string who = own ? "/own" : "";
    benchmark::RegisterBenchmark(("attention" + who).c_str(), attention, own, false)
        ->Arg(512)
        ->Arg(1024);
    benchmark::RegisterBenchmark(("attention_backward" + who).c_str(), attention, own, true)
        ->Arg(512)
        ->Arg(1024);
  }
  for (const bool linear : {false, true}) {
    for (const bool backward : {false, true}) {
      for (const bool own : {false, true}) {
        const std::string name = std::string("attention_of_length") +
                                 (backward ? "_backward" : "") + (linear ? "/linear" : "") +
                                 (own ? "/own" : "");
        benchmark::RegisterBenchmark(name.c_str(), attention_of_length, linear, own, backward)
            ->Arg(256)
            ->Arg(1024)
            ->Arg(4096);
      }
    }
  }
  benchmark::RegisterBenchmark("cross_entropy", cross_entropy);
}

}  // namespace
}  // namespace pipesim::exec

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  pipesim::exec::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
