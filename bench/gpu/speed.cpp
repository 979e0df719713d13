// How long a GPU's device takes for a decoder block, attention, matrix products and the other
// operators; products alternate with bare calls of cuBLAS.
//
// Prints one JSON object per line for tables.py, which makes tables from these and peer.py's.
// README.md says what is measured.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/block.h"
#include "bench/gpu/bare_products.h"
#include "bench/gpu/operators.h"
#include "exec/device/gpu/library.h"
#include "exec/measure/timing.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/command/command_line.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t head_size = 128;

struct Flags {
  Flag kind, folder, precision, parts;
  bool small = false;  // sizes for a CPU in place of a GPU, for seconds
  bool no_bare = false;
};

struct Shapes {
  std::vector<BlockShape> blocks;
  std::vector<AttentionShape> attention;
  std::vector<std::pair<std::int64_t, std::int64_t>> products;  // rows, hidden
  OperatorShape operators;
  Effort effort;
  double block_ms = 500;  // how long a block is repeated
  int max_rounds = 15;
};

Shapes shapes_of(Number precision, bool small) {
  Shapes shapes;
  const auto block = [&](std::int64_t hidden, std::int64_t heads, std::int64_t batch,
                         std::int64_t sequence) {
    shapes.blocks.push_back({hidden, heads, batch, sequence, precision});
  };
  shapes.operators.precision = precision;
  if (small) {
    block(64, 2, 1, 32);
    block(64, 2, 2, 32);
    shapes.attention = {{1, 32, 2, 32}};
    shapes.products = {{32, 64}};
    shapes.operators = {64, 64, 32, 100, 16, precision};
    shapes.effort = {2, 0};
    shapes.block_ms = 0;
    shapes.max_rounds = 2;
    return shapes;
  }
  const bool wide = precision == Number::float32;
  block(4096, 32, 1, 2048);
  if (!wide) block(4096, 32, 2, 2048);
  if (!wide) block(4096, 32, 4, 2048);
  block(2048, 16, 1, 2048);
  block(1024, 8, 1, 2048);
  shapes.attention = {{1, 2048, 32, head_size}, {4, 2048, 32, head_size}};
  shapes.products = {{2048, 4096}, {2048, 2048}, {2048, 1024}};
  if (!wide) shapes.products.insert(shapes.products.begin() + 1, {8192, 4096});
  return shapes;
}

const char* name_of(Number precision) { return precision == Number::float32 ? "fp32" : "bf16"; }

void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

// Rounds of several blocks without a wait in between, each on its own inputs; the median of the
// rounds, and of F, I and W.
void measure_block(Device& device, const BlockShape& shape, const Shapes& shapes) {
  Block block(device, shape);
  const std::int64_t count = shape.rows() * shape.hidden;
  const Rotation inputs(device, count, shape.precision, 1);
  const Rotation gradients(device, count, shape.precision, 2);
  std::vector<double> laps[3];
  std::vector<double> totals;
  const auto round = [&](int blocks) {
    std::vector<std::pair<Tensor, Tensor>> given;
    for (int i = 0; i < blocks; ++i) {
      given.emplace_back(block.take(), block.take());
      device.copy(count, inputs[i].array(), given.back().first.data());
      device.copy(count, gradients[i].array(), given.back().second.data());
    }
    device.finish();
    std::vector<Mark> marks{device.mark()};
    for (auto& [x, dy] : given) {
      block.run(std::move(x), std::move(dy), [&] { marks.push_back(device.mark()); });
    }
    std::vector<double> ms;
    for (const Mark mark : marks) ms.push_back(static_cast<double>(device.time_of(mark)) / 1e6);
    device.forget_marks();
    totals.push_back((ms.back() - ms.front()) / blocks);
    for (std::size_t i = 0; i + 1 < ms.size(); ++i) laps[i % 3].push_back(ms[i + 1] - ms[i]);
    return totals.back();
  };
  round(2);
  const double one = round(2);
  constexpr int max_blocks = 8;
  round(max_blocks);
  totals.clear();
  for (auto& lap : laps) lap.clear();
  const int rounds = std::clamp(static_cast<int>(shapes.block_ms / (one * max_blocks)),
                                std::min(3, shapes.max_rounds), shapes.max_rounds);
  for (int i = 0; i < rounds; ++i) round(max_blocks);
  print_line(fmt::format(
      R"({{"who": "pipesim", "what": "block", "precision": "{}", "hidden": {}, "heads": {}, "batch": {}, )"
      R"("sequence": {}, "F_ms": {:.6f}, "I_ms": {:.6f}, "W_ms": {:.6f}, "ms": {:.6f}, )"
      R"("least_ms": {:.6f}, "repeats": {}}})",
      name_of(shape.precision), shape.hidden, shape.heads, shape.batch, shape.sequence,
      median(laps[0]), median(laps[1]), median(laps[2]), median(totals),
      *std::ranges::min_element(totals), rounds * max_blocks));
}

void measure_attention(Device& device, const AttentionShape& shape, Number precision,
                       const Effort& effort) {
  const std::int64_t count = shape.rows() * shape.hidden();
  const Rotation qkv(device, 3 * count, precision, 1);
  const Rotation dy(device, count, precision, 2);
  const RandomNumbers state(device, device.attention_state(shape), Number::float32, 3);
  const RandomNumbers y(device, count, precision, 4);
  const RandomNumbers dqkv(device, 3 * count, precision, 5);
  std::vector<double> forward;
  std::vector<double> backward;
  const auto once = [&](int i) {
    device.finish();
    const Mark before = device.mark();
    device.attention(shape, qkv[i].array(), state.floats(), y.array());
    const Mark between = device.mark();
    device.attention_backward(shape, qkv[i].array(), state.floats(), y.array(), dy[i].array(),
                              dqkv.array());
    const Mark after = device.mark();
    const std::int64_t times[] = {device.time_of(before), device.time_of(between),
                                  device.time_of(after)};
    device.forget_marks();
    forward.push_back(static_cast<double>(times[1] - times[0]) / 1e6);
    backward.push_back(static_cast<double>(times[2] - times[1]) / 1e6);
  };
  for (int warm = 0; warm < 3; ++warm) once(warm);
  forward.clear();
  backward.clear();
  for (int repeat = 0; repeat < 2 * effort.repeats; ++repeat) once(repeat);
  print_line(fmt::format(
      R"({{"who": "pipesim", "what": "attention", "precision": "{}", "batch": {}, "sequence": {}, )"
      R"("heads": {}, "head_size": {}, "F_ms": {:.6f}, "B_ms": {:.6f}}})",
      name_of(precision), shape.batch, shape.sequence, shape.heads, shape.head_size,
      median(forward), median(backward)));
}

void report_product(const std::string& who, const Product& p, const std::string& use, double ms) {
  const char* transpose = p.transpose == Transpose::none ? "none"
                          : p.transpose == Transpose::a  ? "a"
                                                         : "b";
  print_line(fmt::format(
      R"({{"who": "{}", "what": "product", "precision": "{}", "use": "{}", "m": {}, "n": {}, "k": {}, )"
      R"("transpose": "{}", "accumulate": {}, "ms": {:.6f}}})",
      who, name_of(p.type), use, p.m, p.n, p.k, transpose, p.accumulate, ms));
}

// Ours and the bare ones alternately, over the same arrays.
void measure_product(Device& device, const Product& p, const std::string& use, bool bare,
                     const Effort& effort) {
  const Rotation a(device, p.m * p.k, p.type, 1);
  const Rotation b(device, p.n * p.k, p.type, 2, 0.02F);
  const Rotation c(device, p.m * p.n, p.result, 3);
  std::vector<Operands> operands;
  for (int set = 0; set < Rotation::sets; ++set) {
    operands.push_back({a[set].data(), b[set].data(), c[set].data()});
  }
  const Run ours = [&](int i) {
    device.matrix_product(p.transpose, p.m, p.n, p.k, a[i].array(), b[i].array(), c[i].array(),
                          p.accumulate);
  };
  auto others = bare ? bare_products(p) : std::vector<std::unique_ptr<BareProduct>>();
  time_of(device, 3, ours);
  const int calls = calls_for(time_of(device, 3, ours), effort);
  time_of(device, calls, ours);
  for (const auto& other : others) other->run(calls, operands);
  std::vector<double> own_times;
  std::vector<std::vector<double>> times(others.size());
  for (int repeat = 0; repeat < effort.repeats; ++repeat) {
    own_times.push_back(time_of(device, calls, ours));
    for (std::size_t i = 0; i < others.size(); ++i) {
      times[i].push_back(others[i]->run(calls, operands));
    }
  }
  report_product("pipesim", p, use, median(own_times));
  for (std::size_t i = 0; i < others.size(); ++i) {
    report_product(others[i]->name(), p, use, median(times[i]));
  }
}

// For a block's four matrices: outputs of the forward, gradients of inputs and of weights.
void measure_products(Device& device, std::int64_t rows, std::int64_t hidden, Number type,
                      bool bare, const Effort& effort) {
  struct Matrix {
    const char* name;
    std::int64_t inputs;
    std::int64_t outputs;
  };
  for (const Matrix& matrix :
       {Matrix{"qkv", hidden, 3 * hidden}, Matrix{"out", hidden, hidden},
        Matrix{"up", hidden, 4 * hidden}, Matrix{"down", 4 * hidden, hidden}}) {
    const auto& [name, inputs, outputs] = matrix;
    const auto measure = [&](const char* use, const Product& product) {
      measure_product(device, product, fmt::format("{} {}", name, use), bare, effort);
    };
    measure("F", {Transpose::none, rows, outputs, inputs, type, type, false});
    measure("I", {Transpose::b, rows, inputs, outputs, type, type, false});
    measure("W", {Transpose::a, inputs, outputs, rows, type, Number::float32, true});
  }
}

Number precision_of(const std::string& name) {
  if (name == "fp32") return Number::float32;
  if (name == "bf16") return Number::bfloat16;
  throw input_error(
      fmt::format("--precision: {}", unknown_name("precision", name, {"fp32", "bf16"})));
}

void measure(const Flags& flags) {
  const Number precision = precision_of(flags.precision.value_or("fp32"));
  const std::string parts = "," + flags.parts.value_or("block,attention,products,operators") + ",";
  const auto asked = [&](const char* part) {
    return parts.find(fmt::format(",{},", part)) != std::string::npos;
  };
  const std::string kind = flags.kind.value_or("cuda");
  const auto device = load_gpu_module(kind, flags.folder.value_or(module_folder(kind))).make({});
  const Shapes shapes = shapes_of(precision, flags.small);
  print_line(fmt::format(R"({{"who": "pipesim", "what": "device", "name": "{}"}})",
                         device->description()));
  if (asked("block")) {
    for (const BlockShape& shape : shapes.blocks) measure_block(*device, shape, shapes);
  }
  if (asked("attention")) {
    for (const AttentionShape& shape : shapes.attention) {
      measure_attention(*device, shape, precision, shapes.effort);
    }
  }
  if (asked("products")) {
    const bool bare = !flags.no_bare && kind == "cuda";
    for (const auto& [rows, hidden] : shapes.products) {
      measure_products(*device, rows, hidden, precision, bare, shapes.effort);
    }
  }
  if (asked("operators")) {
    each_operator(
        *device, shapes.operators,
        [&](const std::string& name, std::int64_t bytes, const Run& run) {
          const double ms = time_of(*device, shapes.effort, run);
          print_line(fmt::format(
              R"({{"who": "pipesim", "what": "operator", "precision": "{}", "name": "{}", )"
              R"("bytes": {}, "ms": {:.6f}}})",
              name_of(precision), name, bytes, ms));
        });
  }
}

}  // namespace
}  // namespace pipesim::exec

int main(int argc, char** argv) {
  using namespace pipesim;
  CommandLine program("gpu_speed", "gpu_speed times a GPU's operators", PIPESIM_VERSION);
  exec::Flags flags;
  program.add_flags(
      "What",
      {{"--kind", &flags.kind, "cuda|hip", "which GPU; default cuda"},
       {"--module", &flags.folder, "FOLDER", "with its module; default: that of this program"},
       {"--precision", &flags.precision, "fp32|bf16", "of operands; default fp32"},
       {"--parts", &flags.parts, "LIST", "of block,attention,products,operators"},
       {"--small", &flags.small, "tiny sizes, to try it out"},
       {"--no-bare", &flags.no_bare, "without cuBLAS called bare"}});
  program.set_work([&] { exec::measure(flags); });
  return program.run(argc, argv);
}
