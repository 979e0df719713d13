#include "exec/device/gpu/gpu_device.h"

#include <cmath>
#include <string>

#include "exec/device/gpu/gpu.h"
#include "exec/device/gpu/kernels.h"
#include "exec/device/gpu/memory.h"
#include "exec/device/gpu/product.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

class Stream {
 public:
  explicit Stream(int gpu) {
    check(gpuSetDevice(gpu), "choose the GPU");
    check(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking), "create a stream");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { static_cast<void>(gpuStreamDestroy(stream_)); }

  gpuStream_t get() const { return stream_; }

 private:
  gpuStream_t stream_ = nullptr;
};

// Room for one operator. What comes later on the stream may have it at once.
class Scratch {
 public:
  Scratch(GpuMemory& memory, std::int64_t bytes) : memory_(memory), data_(memory.allocate(bytes)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { memory_.release(data_); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  GpuMemory& memory_;
  void* data_;
};

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const GpuOptions& options)
      : stream_of_(options.gpu), stream_(stream_of_.get()), memory_(stream_) {
    if (!options.own_products) library_ = make_library_products(stream_);
    gpuDeviceProp properties;
    check(gpuGetDeviceProperties(&properties, options.gpu), "tell what the GPU is");
    description_ = std::string(gpu_runtime) + " (" + properties.name + ", matrix products by " +
                   (library_ ? library_->name() : "its own kernel") + ")";
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  // Before the memory goes, what uses it must have run.
  ~GpuDevice() override { static_cast<void>(gpuStreamSynchronize(stream_)); }

  std::string description() const override { return description_; }
  bool host_reaches_memory() const override { return false; }

  // ---- Memory

  void* allocate(std::int64_t bytes) override { return memory_.allocate(bytes); }
  void release(void* memory) override { memory_.release(memory); }

  void upload(void* to, const void* from_host, std::int64_t bytes) override {
    move(to, from_host, bytes, gpuMemcpyHostToDevice, "copy to the GPU");
    if (bytes > 0) finish();
  }
  void download(void* to_host, const void* from, std::int64_t bytes) override {
    move(to_host, from, bytes, gpuMemcpyDeviceToHost, "copy from the GPU");
    if (bytes > 0) finish();
  }
  void finish() override { check(gpuStreamSynchronize(stream_), "run what was asked for"); }

  // ---- Elements

  void fill(std::int64_t count, float* x, float value) override {
    kernels::fill(stream_, count, x, value);
  }
  void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) override {
    kernels::fill_normal(stream_, count, x, key, deviation);
  }
  void add(std::int64_t count, const float* a, const float* b, float* y) override {
    kernels::add(stream_, count, a, b, y);
  }
  void copy(std::int64_t count, const float* x, float* y) override {
    move(y, x, count * float_bytes, gpuMemcpyDeviceToDevice, "copy within the GPU");
  }
  double sum_of_squares(std::int64_t count, const float* x) override {
    const Scratch partials(memory_,
                           kernels::square_partials * static_cast<std::int64_t>(sizeof(double)));
    kernels::sum_of_squares(stream_, count, x, partials.as<double>());
    double sum = 0;
    download(&sum, partials.as<double>(), sizeof sum);
    return sum;
  }
  void dropout(std::int64_t count, const float* x, const Dropout& dropout, float* y) override {
    if (dropout.probability > 0) {
      kernels::dropout(stream_, count, x, dropout, y);
    } else if (y != x) {
      copy(count, x, y);
    }
  }

  // ---- Matrices

  void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                      const float* a, const float* b, float* c, bool accumulate) override {
    GpuProduct product;
    product.transpose = transpose;
    product.m = m;
    product.n = n;
    product.k = k;
    product.a = a;
    product.b = b;
    product.c = c;
    product.lda = transpose == Transpose::a ? m : k;
    product.ldb = transpose == Transpose::b ? k : n;
    product.ldc = n;
    product.accumulate = accumulate;
    multiply(product);
  }
  void add_bias(std::int64_t rows, std::int64_t columns, const float* bias, float* x) override {
    kernels::add_bias(stream_, rows, columns, bias, x);
  }
  void add_column_sums(std::int64_t rows, std::int64_t columns, const float* x,
                       float* sums) override {
    const Scratch partials(memory_, kernels::column_partials(rows, columns) * float_bytes);
    kernels::add_column_sums(stream_, rows, columns, x, sums, partials.as<float>());
  }

  // ---- Parts of a layer

  void bias_gelu(std::int64_t rows, std::int64_t columns, const float* bias, float* x,
                 float* y) override {
    kernels::bias_gelu(stream_, rows, columns, bias, x, y);
  }
  void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx) override {
    kernels::gelu_backward(stream_, count, x, dy, dx);
  }
  void bias_dropout_add(std::int64_t rows, std::int64_t columns, const float* bias, const float* x,
                        const float* residual, const Dropout& dropout, float* y) override {
    kernels::bias_dropout_add(stream_, rows, columns, bias, x, residual, dropout, y);
  }
  void layer_norm(std::int64_t rows, std::int64_t columns, const float* x, const float* gamma,
                  const float* beta, float* y, float* mean, float* rstd) override {
    kernels::layer_norm(stream_, rows, columns, x, gamma, beta, y, mean, rstd);
  }
  // The gradients by weights first: dx may be the residual, and reads nothing of them.
  void layer_norm_backward(std::int64_t rows, std::int64_t columns, const float* dy, const float* x,
                           const float* gamma, const float* mean, const float* rstd,
                           const float* residual, float* dx, float* dgamma, float* dbeta) override {
    const Scratch partials(memory_, kernels::column_partials(rows, columns) * float_bytes);
    kernels::layer_norm_weight_gradients(stream_, rows, columns, dy, x, mean, rstd, dgamma, dbeta,
                                         partials.as<float>());
    kernels::layer_norm_input_gradient(stream_, rows, columns, dy, x, gamma, mean, rstd, residual,
                                       dx);
  }

  void attention(const AttentionShape& shape, const float* qkv, float* probabilities,
                 float* y) override {
    for (std::int64_t i = 0; i < shape.batch; ++i) {
      const Heads at(shape, i);
      multiply(at.scores(Transpose::b, qkv + at.q, 3 * at.hidden, qkv + at.k, 3 * at.hidden,
                         probabilities + at.p));
    }
    kernels::causal_softmax(stream_, shape.batch * shape.heads, shape.sequence, scale(shape),
                            probabilities);
    for (std::int64_t i = 0; i < shape.batch; ++i) {
      const Heads at(shape, i);
      multiply(at.mixed(Transpose::none, probabilities + at.p, qkv + at.v, 3 * at.hidden, y + at.y,
                        at.hidden));
    }
  }

  void attention_backward(const AttentionShape& shape, const float* qkv, float* probabilities,
                          const float* dy, float* dqkv) override {
    const Scratch room(memory_, shape.heads * shape.sequence * shape.sequence * float_bytes);
    auto* dp = room.as<float>();  // of one sequence
    for (std::int64_t i = 0; i < shape.batch; ++i) {
      const Heads at(shape, i);
      const std::int64_t wide = 3 * at.hidden;
      float* p = probabilities + at.p;
      multiply(at.scores(Transpose::b, dy + at.y, at.hidden, qkv + at.v, wide, dp));
      multiply(at.mixed(Transpose::a, p, dy + at.y, at.hidden, dqkv + at.v, wide));
      kernels::causal_softmax_backward(stream_, shape.heads, shape.sequence, scale(shape), dp, p);
      multiply(at.mixed(Transpose::none, p, qkv + at.k, wide, dqkv + at.q, wide));
      multiply(at.mixed(Transpose::a, p, qkv + at.q, wide, dqkv + at.k, wide));
    }
  }

  void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
             const std::int32_t* tokens, const float* table, const float* positions,
             float* y) override {
    kernels::embed(stream_, rows, columns, sequence, tokens, table, positions, y);
  }
  void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                      const std::int32_t* tokens, const float* dy, float* dtable,
                      float* dpositions) override {
    const Scratch next(memory_, 2 * rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
    kernels::embed_backward(stream_, rows, columns, sequence, tokens, dy, dtable, dpositions,
                            next.as<std::int32_t>());
  }
  void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets, float* x,
                     float* losses) override {
    kernels::cross_entropy(stream_, rows, classes, targets, x, losses);
  }
  void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                              float* x) override {
    kernels::cross_entropy_backward(stream_, rows, classes, targets, x);
  }
  void adamw(std::int64_t count, const AdamStep& step, const float* gradients, float* weights,
             float* first, float* second) override {
    kernels::adamw(stream_, count, step, gradients, weights, first, second);
  }

 private:
  // All heads of one sequence: where they lie, and their products.
  struct Heads {
    Heads(const AttentionShape& shape, std::int64_t i)
        : heads(shape.heads),
          size(shape.head_size),
          sequence(shape.sequence),
          hidden(shape.hidden()),
          q(i * sequence * 3 * hidden),
          k(q + hidden),
          v(k + hidden),
          p(i * heads * sequence * sequence),
          y(i * sequence * hidden) {}

    // c[sequence x sequence] = a b^T, for each head.
    GpuProduct scores(Transpose transpose, const float* a, std::int64_t lda, const float* b,
                      std::int64_t ldb, float* c) const {
      return {transpose, sequence, sequence, size,  a,    b,    c,
              lda,       ldb,      sequence, heads, size, size, sequence * sequence};
    }
    // c[sequence x head_size] = op(p) b, for each head.
    GpuProduct mixed(Transpose transpose, const float* weights, const float* b, std::int64_t ldb,
                     float* c, std::int64_t ldc) const {
      return {transpose, sequence, size, sequence, weights, b,
              c,         sequence, ldb,  ldc,      heads,   sequence * sequence,
              size,      size};
    }

    std::int64_t heads, size, sequence, hidden;
    std::int64_t q, k, v, p, y;  // where the first head begins in its array
  };

  static float scale(const AttentionShape& shape) {
    return 1 / std::sqrt(static_cast<float>(shape.head_size));
  }

  template <typename Direction>
  void move(void* to, const void* from, std::int64_t bytes, Direction direction, const char* what) {
    if (bytes <= 0) return;
    check(gpuMemcpyAsync(to, from, static_cast<std::size_t>(bytes), direction, stream_), what);
  }

  void multiply(const GpuProduct& product) {
    if (product.m == 0 || product.n == 0 || product.count == 0) return;
    if (library_ && product.k > 0) {
      library_->multiply(product);
    } else {
      kernels::product(stream_, product);  // also fills with zeros where k is 0
    }
  }

  Stream stream_of_;
  gpuStream_t stream_;
  GpuMemory memory_;
  std::unique_ptr<LibraryProducts> library_;  // none: products by our own kernel
  std::string description_;
};

}  // namespace

std::unique_ptr<Device> make_gpu_device(const GpuOptions& options) {
  return std::make_unique<GpuDevice>(options);
}

}  // namespace pipesim::exec
