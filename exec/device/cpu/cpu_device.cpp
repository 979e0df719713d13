#include "exec/device/cpu/cpu_device.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "exec/device/cpu/cpu_operators.h"
#include "exec/device/cpu/library_products.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

namespace {

// Converts the device's arrays to the operators' float32.
float* floats(Array array) {
  if (array.type != Number::float32) throw work_error("cpu: it computes in float32 alone");
  return static_cast<float*>(array.data);
}
const float* floats(ConstArray array) {
  return floats(Array(const_cast<void*>(array.data), array.type));
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::unique_ptr<FloatOperators> operators, const char* instructions, bool own_products)
      : operators_(std::move(operators)),
        description_(std::string("cpu (") + instructions + ", GEMMs by " +
                     (own_products ? "its own kernel" : products_library()) + ")") {}

  std::string description() const override { return description_; }
  // A rank computes on one thread.
  DeviceCapacity capacity() const override {
    return {static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE), 1};
  }

  void* allocate(std::int64_t bytes) override { return FloatOperators::allocate(bytes); }
  void release(void* memory) override { FloatOperators::release(memory); }
  std::int64_t most_taken_bytes() const override { return 0; }
  void upload(void* to, const void* from_host, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from_host, static_cast<std::size_t>(bytes));
  }
  void download(void* to_host, const void* from, std::int64_t bytes) override {
    upload(to_host, from, bytes);
  }
  bool host_reaches_memory() const override { return true; }
  void finish() override {}
  void enter_thread() override { use_one_thread_for_products(); }

  // Everything submitted has run when its call returns: a mark is the current time.
  Mark mark() override {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  bool has_passed(Mark /*mark*/) override { return true; }
  std::int64_t time_of(Mark mark) override { return mark; }
  void follow(Mark /*mark*/) override {}
  void forget_marks() override {}
  void start_range(const char* /*name*/) override {}
  void end_range() override {}

  void* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) override { release(memory); }
  Mark start_download(void* to_host, const void* from, std::int64_t bytes) override {
    download(to_host, from, bytes);
    return mark();
  }
  Mark start_upload(void* to, const void* from_host, std::int64_t bytes, Mark /*after*/) override {
    upload(to, from_host, bytes);
    return mark();
  }

  void fill(std::int64_t count, Array x, float value) override {
    operators_->fill(count, floats(x), value);
  }
  void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) override {
    operators_->fill_normal(count, x, key, deviation);
  }
  void add(std::int64_t count, ConstArray a, ConstArray b, Array y) override {
    operators_->add(count, floats(a), floats(b), floats(y));
  }
  void copy(std::int64_t count, ConstArray x, Array y) override {
    operators_->copy(count, floats(x), floats(y));
  }
  void sum_of_squares(std::int64_t count, const float* x, double* sum) override {
    *sum = operators_->sum_of_squares(count, x);
  }
  void dropout(std::int64_t count, ConstArray x, const Dropout& dropout, Array y) override {
    operators_->dropout(count, floats(x), dropout, floats(y));
  }
  void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                      ConstArray a, ConstArray b, Array c, bool accumulate) override {
    operators_->matrix_product(transpose, m, n, k, floats(a), floats(b), floats(c), accumulate);
  }
  void add_bias(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x) override {
    operators_->add_bias(rows, columns, floats(bias), floats(x));
  }
  void add_column_sums(std::int64_t rows, std::int64_t columns, ConstArray x,
                       float* sums) override {
    operators_->add_column_sums(rows, columns, floats(x), sums);
  }
  void bias_gelu(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x,
                 Array y) override {
    operators_->bias_gelu(rows, columns, floats(bias), floats(x), floats(y));
  }
  void gelu_backward(std::int64_t count, ConstArray x, ConstArray dy, Array dx) override {
    operators_->gelu_backward(count, floats(x), floats(dy), floats(dx));
  }
  void gated_silu(std::int64_t rows, std::int64_t columns, ConstArray x, Array y) override {
    operators_->gated_silu(rows, columns, floats(x), floats(y));
  }
  void gated_silu_backward(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray dy,
                           Array dx) override {
    operators_->gated_silu_backward(rows, columns, floats(x), floats(dy), floats(dx));
  }
  void bias_dropout_add(std::int64_t rows, std::int64_t columns, ConstArray bias, ConstArray x,
                        ConstArray residual, const Dropout& dropout, Array y) override {
    operators_->bias_dropout_add(rows, columns, floats(bias), floats(x), floats(residual), dropout,
                                 floats(y));
  }
  void layer_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma,
                  ConstArray beta, Array y, float* mean, float* rstd) override {
    operators_->layer_norm(rows, columns, floats(x), floats(gamma), floats(beta), floats(y), mean,
                           rstd);
  }
  void layer_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                           ConstArray gamma, const float* mean, const float* rstd,
                           ConstArray residual, Array dx, float* dgamma, float* dbeta) override {
    operators_->layer_norm_backward(rows, columns, floats(dy), floats(x), floats(gamma), mean, rstd,
                                    floats(residual), floats(dx), dgamma, dbeta);
  }
  void rms_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma, Array y,
                float* rstd) override {
    operators_->rms_norm(rows, columns, floats(x), floats(gamma), floats(y), rstd);
  }
  void rms_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                         ConstArray gamma, const float* rstd, ConstArray residual, Array dx,
                         float* dgamma) override {
    operators_->rms_norm_backward(rows, columns, floats(dy), floats(x), floats(gamma), rstd,
                                  floats(residual), floats(dx), dgamma);
  }
  void rotate(const AttentionShape& shape, float base, bool back, Array qkv) override {
    operators_->rotate(shape, base, back, floats(qkv));
  }
  // The probabilities, or two numbers for each row of them.
  std::int64_t attention_state(const AttentionShape& shape) const override {
    return shape.rows() * shape.heads * (shape.linear ? 2 : shape.sequence);
  }
  void attention(const AttentionShape& shape, ConstArray qkv, float* state, Array y) override {
    operators_->attention(shape, floats(qkv), state, floats(y));
  }
  void attention_backward(const AttentionShape& shape, ConstArray qkv, float* state, ConstArray y,
                          ConstArray dy, Array dqkv) override {
    operators_->attention_backward(shape, floats(qkv), state, floats(y), floats(dy), floats(dqkv));
  }
  void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
             const std::int32_t* tokens, ConstArray table, ConstArray positions, Array y) override {
    operators_->embed(rows, columns, sequence, tokens, floats(table), floats(positions), floats(y));
  }
  void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                      const std::int32_t* tokens, ConstArray dy, float* dtable,
                      float* dpositions) override {
    operators_->embed_backward(rows, columns, sequence, tokens, floats(dy), dtable, dpositions);
  }
  void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets, Array x,
                     float* losses) override {
    operators_->cross_entropy(rows, classes, targets, floats(x), losses);
  }
  void cross_entropy_of_part(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             ConstArray x, float* part) override {
    operators_->cross_entropy_of_part(rows, classes, targets, floats(x), part);
  }
  void join_cross_entropy(std::int64_t rows, std::int64_t classes, int ranks, const float* parts,
                          Array x, float* losses) override {
    operators_->join_cross_entropy(rows, classes, ranks, parts, floats(x), losses);
  }
  void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                              Array x) override {
    operators_->cross_entropy_backward(rows, classes, targets, floats(x));
  }
  void adamw(std::int64_t count, const AdamStep& step, const float* gradients, float* weights,
             float* first, float* second, Array rounded) override {
    operators_->adamw(count, step, gradients, weights, first, second);
    if (rounded.data != nullptr) operators_->copy(count, weights, floats(rounded));
  }

 private:
  std::unique_ptr<FloatOperators> operators_;
  std::string description_;
};

struct InstructionSet {
  const char* name;
  bool runs_here;
  FloatOperators* (*make)(bool own_products);
};

std::vector<InstructionSet> compiled_in() {
  std::vector<InstructionSet> sets;
#ifdef PIPESIM_HAS_V4
  sets.push_back({"x86-64-v4",
                  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl"),
                  make_cpu_operators_v4});
#endif
#ifdef PIPESIM_HAS_V3
  sets.push_back({"x86-64-v3",
                  __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"),
                  make_cpu_operators_v3});
#endif
  sets.push_back({"baseline", true, make_cpu_operators_baseline});
  return sets;
}

}  // namespace

std::vector<std::string> cpu_instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet& set : compiled_in()) {
    if (set.runs_here) names.emplace_back(set.name);
  }
  return names;
}

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  const bool own_products = options.own_products || products_library().empty();
  if (!own_products) use_one_thread_for_products();
  for (const InstructionSet& set : compiled_in()) {
    if (set.runs_here && (options.instructions.empty() || options.instructions == set.name)) {
      return std::make_unique<CpuDevice>(std::unique_ptr<FloatOperators>(set.make(own_products)),
                                         set.name, own_products);
    }
  }
  throw input_error(unknown_name("instruction set", options.instructions, cpu_instruction_sets()));
}

}  // namespace pipesim::exec
