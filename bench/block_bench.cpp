// A decoder block on the CPU: how long F, I and W take, the share of matrix products in that and
// their rate compared with bare calls of the library, and how close every other operator comes to
// the memory's bandwidth.
//
// All times are the thread's processor time, so that other work on the machine matters less.
// ARCHITECTURE is gpt or llama. For bench/peers/block.sh
//   block_bench --times ARCHITECTURE HIDDEN BATCH SEQUENCE RUNS
// prints a line: "F I+W total", medians in ms, and the least total;
//   block_bench --parts ARCHITECTURE HIDDEN BATCH SEQUENCE RUNS
// prints where a block's time goes.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "bench/block.h"
#include "exec/device/cpu/cpu_device.h"
#include "exec/device/cpu/library_products.h"

namespace pipesim::exec {
namespace {

double seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}
double least(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

std::vector<float> numbers(std::int64_t count, float deviation = 1) {
  std::minstd_rand random(static_cast<unsigned>(count));
  std::uniform_real_distribution<float> uniform(-deviation, deviation);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = uniform(random);
  return x;
}

// Transpose, m, n, k, accumulate.
using Product = std::tuple<Transpose, std::int64_t, std::int64_t, std::int64_t, bool>;

double flops(const Product& product) {
  const auto& [transpose, m, n, k, accumulate] = product;
  return 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
}

// Wraps another device, and records how long each operator of a block took.
class Stopwatch final : public Device {
 public:
  explicit Stopwatch(Device& device) : device_(device) {}

  std::map<std::string, double> operators;             // seconds since they were last cleared
  std::map<Product, std::pair<int, double>> products;  // calls and seconds

  std::string description() const override { return device_.description(); }
  DeviceCapacity capacity() const override { return device_.capacity(); }
  void* allocate(std::int64_t bytes) override { return device_.allocate(bytes); }
  void release(void* memory) override { device_.release(memory); }
  std::int64_t most_taken_bytes() const override { return device_.most_taken_bytes(); }
  void upload(void* to, const void* from, std::int64_t bytes) override {
    device_.upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::int64_t bytes) override {
    device_.download(to, from, bytes);
  }
  bool host_reaches_memory() const override { return device_.host_reaches_memory(); }
  void finish() override { device_.finish(); }

  Mark mark() override { return device_.mark(); }
  bool has_passed(Mark mark) override { return device_.has_passed(mark); }
  std::int64_t time_of(Mark mark) override { return device_.time_of(mark); }
  void follow(Mark mark) override { device_.follow(mark); }
  void forget_marks() override { device_.forget_marks(); }
  void start_range(const char* name) override { device_.start_range(name); }
  void end_range() override { device_.end_range(); }
  void* allocate_host(std::int64_t bytes) override { return device_.allocate_host(bytes); }
  void release_host(void* memory) override { device_.release_host(memory); }
  Mark start_download(void* to, const void* from, std::int64_t bytes) override {
    return device_.start_download(to, from, bytes);
  }
  Mark start_upload(void* to, const void* from, std::int64_t bytes, Mark after) override {
    return device_.start_upload(to, from, bytes, after);
  }

  void fill(std::int64_t count, Array x, float value) override {
    time("fill", [&] { device_.fill(count, x, value); });
  }
  void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) override {
    device_.fill_normal(count, x, key, deviation);
  }
  void add(std::int64_t count, ConstArray a, ConstArray b, Array y) override {
    time("add", [&] { device_.add(count, a, b, y); });
  }
  void copy(std::int64_t count, ConstArray x, Array y) override {
    time("copy", [&] { device_.copy(count, x, y); });
  }
  void sum_of_squares(std::int64_t count, const float* x, double* sum) override {
    device_.sum_of_squares(count, x, sum);
  }
  void dropout(std::int64_t count, ConstArray x, const Dropout& dropout, Array y) override {
    time("dropout", [&] { device_.dropout(count, x, dropout, y); });
  }
  void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                      ConstArray a, ConstArray b, Array c, bool accumulate) override {
    const double start = seconds();
    device_.matrix_product(transpose, m, n, k, a, b, c, accumulate);
    auto& [calls, total] = products[{transpose, m, n, k, accumulate}];
    ++calls;
    total += seconds() - start;
  }
  void add_bias(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x) override {
    time("add_bias", [&] { device_.add_bias(rows, columns, bias, x); });
  }
  void add_column_sums(std::int64_t rows, std::int64_t columns, ConstArray x,
                       float* sums) override {
    time("add_column_sums", [&] { device_.add_column_sums(rows, columns, x, sums); });
  }
  void bias_gelu(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x,
                 Array y) override {
    time("bias_gelu", [&] { device_.bias_gelu(rows, columns, bias, x, y); });
  }
  void gelu_backward(std::int64_t count, ConstArray x, ConstArray dy, Array dx) override {
    time("gelu_backward", [&] { device_.gelu_backward(count, x, dy, dx); });
  }
  void gated_silu(std::int64_t rows, std::int64_t columns, ConstArray x, Array y) override {
    time("gated_silu", [&] { device_.gated_silu(rows, columns, x, y); });
  }
  void gated_silu_backward(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray dy,
                           Array dx) override {
    time("gated_silu_backward", [&] { device_.gated_silu_backward(rows, columns, x, dy, dx); });
  }
  void bias_dropout_add(std::int64_t rows, std::int64_t columns, ConstArray bias, ConstArray x,
                        ConstArray residual, const Dropout& dropout, Array y) override {
    time("bias_dropout_add",
         [&] { device_.bias_dropout_add(rows, columns, bias, x, residual, dropout, y); });
  }
  void layer_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma,
                  ConstArray beta, Array y, float* mean, float* rstd) override {
    time("layer_norm", [&] { device_.layer_norm(rows, columns, x, gamma, beta, y, mean, rstd); });
  }
  void layer_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                           ConstArray gamma, const float* mean, const float* rstd,
                           ConstArray residual, Array dx, float* dgamma, float* dbeta) override {
    time("layer_norm_backward", [&] {
      device_.layer_norm_backward(rows, columns, dy, x, gamma, mean, rstd, residual, dx, dgamma,
                                  dbeta);
    });
  }
  void rms_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma, Array y,
                float* rstd) override {
    time("rms_norm", [&] { device_.rms_norm(rows, columns, x, gamma, y, rstd); });
  }
  void rms_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                         ConstArray gamma, const float* rstd, ConstArray residual, Array dx,
                         float* dgamma) override {
    time("rms_norm_backward", [&] {
      device_.rms_norm_backward(rows, columns, dy, x, gamma, rstd, residual, dx, dgamma);
    });
  }
  void rotate(const AttentionShape& shape, float base, bool back, Array qkv) override {
    time("rotate", [&] { device_.rotate(shape, base, back, qkv); });
  }
  std::int64_t attention_state(const AttentionShape& shape) const override {
    return device_.attention_state(shape);
  }
  void attention(const AttentionShape& shape, ConstArray qkv, float* state, Array y) override {
    time("attention", [&] { device_.attention(shape, qkv, state, y); });
  }
  void attention_backward(const AttentionShape& shape, ConstArray qkv, float* state, ConstArray y,
                          ConstArray dy, Array dqkv) override {
    time("attention_backward", [&] { device_.attention_backward(shape, qkv, state, y, dy, dqkv); });
  }

  // Not parts of a block.
  void embed(std::int64_t, std::int64_t, std::int64_t, const std::int32_t*, ConstArray, ConstArray,
             Array) override {}
  void embed_backward(std::int64_t, std::int64_t, std::int64_t, const std::int32_t*, ConstArray,
                      float*, float*) override {}
  void cross_entropy(std::int64_t, std::int64_t, const std::int32_t*, Array, float*) override {}
  void cross_entropy_of_part(std::int64_t, std::int64_t, const std::int32_t*, ConstArray,
                             float*) override {}
  void join_cross_entropy(std::int64_t, std::int64_t, int, const float*, Array, float*) override {}
  void cross_entropy_backward(std::int64_t, std::int64_t, const std::int32_t*, Array) override {}
  void adamw(std::int64_t, const AdamStep&, const float*, float*, float*, float*, Array) override {}

 private:
  void time(const char* name, const std::function<void()>& run) {
    const double start = seconds();
    run();
    operators[name] += seconds() - start;
  }

  Device& device_;
};

// Heads of 64.
BlockShape shape_of(Architecture architecture, std::int64_t hidden, std::int64_t batch,
                    std::int64_t sequence) {
  BlockShape shape{hidden, hidden / 64, batch, sequence};
  shape.architecture = architecture;
  return shape;
}

// A block with its output's gradient; one call runs F, I and W.
class TimedBlock {
 public:
  TimedBlock(Device& device, const BlockShape& shape)
      : device_(device), block_(device, shape), x_(numbers(shape.rows() * shape.hidden)) {}

  // Forgets all calls before the last one.
  void forget() {
    for (auto* times : {&f, &i, &w, &total}) times->clear();
  }

  void run() {
    Tensor x = given();
    Tensor dy = given();
    double start = seconds();
    std::vector<double>* times[] = {&f, &i, &w};
    std::size_t lap = 0;
    block_.run(std::move(x), std::move(dy), [&] {
      const double now = seconds();
      times[lap++]->push_back(now - start);
      start = now;
    });
    total.push_back(f.back() + i.back() + w.back());
  }

  std::vector<double> f, i, w, total;  // seconds

 private:
  Tensor given() {
    Tensor tensor = block_.take();
    device_.upload(tensor.memory(), x_.data(), tensor.bytes());
    return tensor;
  }

  Device& device_;
  Block block_;
  std::vector<float> x_;
};

// Seconds of one call: the median of several measurements, each of enough calls to be measurable.
double time_of(const std::function<void()>& run) {
  run();
  int calls = 1;
  for (;; calls *= 2) {
    const double start = seconds();
    for (int call = 0; call < calls; ++call) run();
    if (seconds() - start > 2e-3) break;
  }
  std::vector<double> times;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const double start = seconds();
    for (int call = 0; call < calls; ++call) run();
    times.push_back((seconds() - start) / calls);
  }
  return median(times);
}

// The library alone, on matrices of its own.
class BareProduct {
 public:
  explicit BareProduct(const Product& product)
      : a_(numbers(std::get<1>(product) * std::get<3>(product))),
        b_(numbers(std::get<2>(product) * std::get<3>(product))),
        c_(numbers(std::get<1>(product) * std::get<2>(product))) {
    const auto& [transpose, m, n, k, accumulate] = product;
    const bool ta = transpose == Transpose::a;
    const bool tb = transpose == Transpose::b;
    product_ = {ta,         tb,        m,          n,         k, a_.data(),
                ta ? m : k, b_.data(), tb ? k : n, c_.data(), n, accumulate};
  }

  double run() const {
    const double start = seconds();
    library_product(product_);
    return seconds() - start;
  }

 private:
  std::vector<float> a_, b_, c_;
  MatrixProduct product_;
};

void print_times(Device& device, const BlockShape& shape, int runs) {
  TimedBlock block(device, shape);
  for (int warm = 0; warm < 3; ++warm) block.run();
  block.forget();
  std::vector<double> backward;
  for (int run = 0; run < runs; ++run) {
    block.run();
    backward.push_back(block.i.back() + block.w.back());
  }
  std::printf("%.3f %.3f %.3f %.3f\n", 1e3 * median(block.f), 1e3 * median(backward),
              1e3 * median(block.total), 1e3 * least(block.total));
}

void print_parts(Device& device, const BlockShape& shape, int runs) {
  Stopwatch watch(device);
  TimedBlock block(watch, shape);
  for (int warm = 0; warm < 3; ++warm) block.run();
  block.forget();

  std::map<std::string, std::vector<double>> operators;
  std::map<Product, std::vector<double>> inside;
  std::map<Product, std::vector<double>> bare;
  std::map<Product, BareProduct> bare_products;
  if (!products_library().empty()) {
    for (const auto& [product, _] : watch.products) bare_products.emplace(product, product);
  }
  std::vector<double> in_products;
  for (int run = 0; run < runs; ++run) {
    watch.operators.clear();
    watch.products.clear();
    block.run();
    double sum = 0;
    for (const auto& [product, calls_and_time] : watch.products) {
      const auto& [calls, time] = calls_and_time;
      inside[product].push_back(time / calls);
      sum += time;
    }
    in_products.push_back(sum);
    for (const auto& [name, time] : watch.operators) operators[name].push_back(time);
    for (const auto& [product, bare_product] : bare_products) {
      bare_product.run();  // its inputs are in the caches, as a block's activations are
      bare[product].push_back(bare_product.run());
    }
  }

  std::printf(
      "\n%s block: hidden %ld, %ld heads, %ld of keys, MLP of %ld, %ld sequences of %ld;"
      " %d runs\n",
      shape.is_llama() ? "llama" : "gpt", shape.hidden, shape.heads, shape.kv_heads(), shape.mlp(),
      shape.batch, shape.sequence, runs);
  std::printf("  %-22s %9s %9s\n", "", "least ms", "median ms");
  const auto line = [](const char* name, const std::vector<double>& times) {
    std::printf("  %-22s %9.3f %9.3f\n", name, 1e3 * least(times), 1e3 * median(times));
  };
  line("F", block.f);
  line("I", block.i);
  line("W", block.w);
  line("all", block.total);
  const double all = median(block.total);
  std::printf("\n  %-22s %9s %9s\n", "of which", "median ms", "share");
  const auto share = [&](const char* name, const std::vector<double>& times) {
    std::printf("  %-22s %9.3f %8.1f%%\n", name, 1e3 * median(times), 100 * median(times) / all);
  };
  share("matrix products", in_products);
  for (const auto& [name, times] : operators) share(name.c_str(), times);

  std::printf("\n  %-26s %10s %10s %8s   GFLOP/s, medians\n", "product, m x n x k", "in block",
              "bare", "ratio");
  double inside_sum = 0;
  double bare_sum = 0;
  double work = 0;
  for (const auto& [product, calls_and_time] : watch.products) {
    const auto& [transpose, m, n, k, accumulate] = product;
    const double in_block = median(inside[product]);
    char name[64];
    std::snprintf(name, sizeof name, "%s%s %ld x %ld x %ld",
                  transpose == Transpose::none ? "a b"
                  : transpose == Transpose::a  ? "a' b"
                                               : "a b'",
                  accumulate ? " +" : "", m, n, k);
    std::printf("  %-26s %10.1f", name, 1e-9 * flops(product) / in_block);
    if (!bare_products.empty()) {
      const double alone = median(bare[product]);
      std::printf(" %10.1f %7.1f%%", 1e-9 * flops(product) / alone, 100 * alone / in_block);
      bare_sum += calls_and_time.first * alone;
    }
    std::printf("\n");
    inside_sum += calls_and_time.first * in_block;
    work += calls_and_time.first * flops(product);
  }
  std::printf("  %-26s %10.1f", "all", 1e-9 * work / inside_sum);
  if (bare_sum > 0) {
    std::printf(" %10.1f %7.1f%%", 1e-9 * work / bare_sum, 100 * bare_sum / inside_sum);
  }
  // Causal attention multiplies half: two products forward, four backward.
  const auto rows = static_cast<double>(shape.rows());
  const double half = rows * static_cast<double>(shape.hidden * (shape.sequence + 1));
  std::printf("\n  attention %.1f, backward %.1f GFLOP/s, softmax included\n",
              2e-9 * half / median(operators["attention"]),
              4e-9 * half / median(operators["attention_backward"]));
}

// An operator on arrays of `count` numbers each, rows of 1024.
struct Operator {
  const char* name;
  int passes;  // arrays read and written
  int arrays;
  std::function<void(Device&, std::int64_t, const Tensor*)> run;
};

constexpr std::int64_t columns = 1024;

const std::vector<Operator> operators{
    {"copy", 2, 2,
     [](Device& device, std::int64_t count, auto* x) {
       device.copy(count, x[0].data(), x[1].data());
     }},
    {"add", 3, 3,
     [](Device& device, std::int64_t count, auto* x) {
       device.add(count, x[0].data(), x[1].data(), x[2].data());
     }},
    {"layer_norm", 2, 2,
     [](Device& device, std::int64_t count, auto* x) {
       device.layer_norm(count / columns, columns, x[0].data(), x[4].data(), x[5].data(),
                         x[1].data(), x[6].floats(), x[7].floats());
     }},
    {"layer_norm_backward", 4, 4,
     [](Device& device, std::int64_t count, auto* x) {
       device.layer_norm_backward(count / columns, columns, x[0].data(), x[1].data(), x[4].data(),
                                  x[6].floats(), x[7].floats(), x[2].data(), x[3].data(),
                                  x[8].floats(), x[9].floats());
     }},
    {"softmax, in place", 2, 1,
     [](Device& device, std::int64_t count, auto* x) {
       static const std::vector<std::int32_t> targets(1U << 20U);
       device.cross_entropy(count / columns, columns, targets.data(), x[0].data(), x[6].floats());
     }},
    {"bias_gelu", 3, 2,
     [](Device& device, std::int64_t count, auto* x) {
       device.bias_gelu(count / columns, columns, x[5].data(), x[0].data(), x[1].data());
     }},
    {"gelu_backward", 3, 3,
     [](Device& device, std::int64_t count, auto* x) {
       device.gelu_backward(count, x[0].data(), x[1].data(), x[2].data());
     }},
    {"bias_add", 3, 2,
     [](Device& device, std::int64_t count, auto* x) {
       device.bias_dropout_add(count / columns, columns, x[5].data(), x[0].data(), x[1].data(), {},
                               x[0].data());
     }},
    {"dropout", 2, 2,
     [](Device& device, std::int64_t count, auto* x) {
       device.dropout(count, x[0].data(), {{.seed = 1}, 0.1F}, x[1].data());
     }},
    {"adamw", 7, 4,
     [](Device& device, std::int64_t count, auto* x) {
       device.adamw(count, {.learning_rate = 1e-9F}, x[0].floats(), x[1].floats(), x[2].floats(),
                    x[3].floats(), {});
     }},
};

// The bound is the faster of copy (y = x) and add (y = a + b) over the same number of bytes.
void measure_bandwidth(Device& device) {
  const std::vector<std::pair<const char*, std::int64_t>> sets{
      {"512 KiB", 1 << 19}, {"8 MiB", 1 << 23}, {"256 MiB", 1 << 28}};
  std::printf(
      "\noperators, GB/s of what must move, and times the bound (the faster of copy and\n"
      "add); all arrays together are of that size\n  %-24s",
      "");
  for (const auto& [name, bytes] : sets) std::printf(" %19s", name);
  std::printf("\n");
  std::vector<double> best(sets.size());
  Pool pool(device);
  for (const Operator& op : operators) {
    std::printf("  %-24s", op.name);
    for (std::size_t set = 0; set < sets.size(); ++set) {
      const std::int64_t count = sets[set].second / 4 / op.arrays / columns * columns;
      Tensor x[10];
      const auto put = [&](int array, std::int64_t size, float deviation) {
        std::vector<float> values = numbers(size, deviation);
        if (array == 3) {  // second moments
          for (float& value : values) value *= value;
        }
        x[array] = pool.take(size, Use::activations);
        device.upload(x[array].memory(), values.data(), x[array].bytes());
      };
      for (int array = 0; array < op.arrays; ++array) put(array, count, 1);
      for (int array = 4; array < 6; ++array) put(array, columns, 1e-3F);
      for (int array = 6; array < 8; ++array) put(array, count / columns, 1);
      for (int array = 8; array < 10; ++array) put(array, columns, 1);
      const double time = time_of([&] { op.run(device, count, x); });
      const double rate = 4e-9 * static_cast<double>(op.passes * count) / time;
      const std::string name = op.name;
      if (name == "copy" || name == "add") {
        best[set] = std::max(best[set], rate);
        std::printf(" %19.1f", rate);
      } else {
        std::printf(" %12.1f %5.2fx", rate, best[set] / rate);
      }
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace pipesim::exec

int main(int argc, char** argv) {
  using namespace pipesim::exec;
  const auto device = make_cpu_device();
  const std::string what = argc == 7 ? argv[1] : "";
  if (what == "--times" || what == "--parts") {  // for block.sh
    const auto architecture =
        std::string(argv[2]) == "llama" ? pipesim::Architecture::llama : pipesim::Architecture::gpt;
    (what == "--times" ? print_times : print_parts)(
        *device, shape_of(architecture, std::atol(argv[3]), std::atol(argv[4]), std::atol(argv[5])),
        std::atoi(argv[6]));
    return 0;
  }
  std::printf("%s; one thread, its processor time\n", device->description().c_str());
  for (const auto architecture : {pipesim::Architecture::gpt, pipesim::Architecture::llama}) {
    print_parts(*device, shape_of(architecture, 512, 4, 256), 20);
    print_parts(*device, shape_of(architecture, 1024, 4, 256), 10);
  }
  measure_bandwidth(*device);
}
