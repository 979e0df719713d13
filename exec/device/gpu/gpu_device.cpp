#include "exec/device/gpu/gpu_device.h"

#include <string>
#include <type_traits>

#include "exec/device/gpu/gpu.h"
#include "exec/device/gpu/kernels.h"
#include "exec/device/gpu/memory.h"
#include "exec/device/gpu/product.h"
#include "exec/device/gpu/profiler.h"
#include "exec/device/gpu/streams.h"
#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

// Selects the GPU before anything is created on it. The selection is per thread.
class Chosen {
 public:
  explicit Chosen(int gpu) : gpu_(gpu) { choose(); }
  void choose() const { check(gpuSetDevice(gpu_), "choose the GPU"); }

 private:
  int gpu_;
};

template <typename T>
T* numbers(Array array) {
  return static_cast<T*>(array.data);
}
template <typename T>
const T* numbers(ConstArray array) {
  return static_cast<const T*>(array.data);
}

[[noreturn]] void refuse_types(const char* name) {
  throw work_error(std::string(gpu_runtime) + ": " + name +
                   " was given both float32 and bfloat16; give it arrays of one type");
}

// Calls body with pointers to the arrays, which must have one type; the type of a null array
// doesn't matter. `name` is the operator's.
template <typename Body, typename... Arrays>
void by_type(const char* name, const Body& body, Arrays... arrays) {
  bool float32 = false;
  bool bfloat16 = false;
  for (const ConstArray& array : {ConstArray(arrays)...}) {
    if (array.data != nullptr) (array.type == Number::bfloat16 ? bfloat16 : float32) = true;
  }
  if (float32 && bfloat16) refuse_types(name);
  if (bfloat16) {
    body(numbers<gpuBfloat16>(arrays)...);
  } else {
    body(numbers<float>(arrays)...);
  }
}

// Room for one operator. Later ones on the stream may reuse it at once.
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
      : chosen_(options.gpu), marks_(operators_), stream_(operators_.get()), memory_(stream_) {
    tensor_cores_ = options.tensor_cores && kernels::has_tensor_cores(options.gpu);
    if (!options.own_products) library_ = make_library_products(stream_);
    gpuDeviceProp properties;
    check(gpuGetDeviceProperties(&properties, options.gpu), "tell what the GPU is");
    capacity_ = {static_cast<std::int64_t>(properties.totalGlobalMem),
                 properties.multiProcessorCount};
    description_ = std::string(gpu_runtime) + " (" + properties.name + ", GEMMs by " +
                   (library_ ? library_->name() : "its own kernel") +
                   ", attention by its own kernel" +
                   (tensor_cores_ ? ", on tensor cores for bfloat16)" : ")");
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;
  // Everything that uses the memory must have run before it is freed.
  ~GpuDevice() override {
    for (const Stream* stream : {&operators_, &downloads_, &uploads_}) {
      static_cast<void>(gpuStreamSynchronize(stream->get()));
    }
  }

  Marks& marks() { return marks_; }
  GpuMemory& memory() { return memory_; }

  void enter_thread() override { chosen_.choose(); }
  std::string description() const override { return description_; }
  DeviceCapacity capacity() const override { return capacity_; }
  bool host_reaches_memory() const override { return false; }

  // ---- Memory

  void* allocate(std::int64_t bytes) override { return memory_.allocate(bytes); }
  void release(void* memory) override { memory_.release(memory); }
  std::int64_t most_taken_bytes() const override { return memory_.most_taken_bytes(); }

  void upload(void* to, const void* from_host, std::int64_t bytes) override {
    move(to, from_host, bytes, gpuMemcpyHostToDevice, "copy to the GPU", operators_);
    if (bytes > 0) operators_.finish();
  }
  void download(void* to_host, const void* from, std::int64_t bytes) override {
    move(to_host, from, bytes, gpuMemcpyDeviceToHost, "copy from the GPU", operators_);
    if (bytes > 0) operators_.finish();
  }
  void finish() override {
    for (const Stream* stream : {&operators_, &downloads_, &uploads_}) stream->finish();
  }

  // ---- Instants

  Mark mark() override { return marks_.set(operators_); }
  bool has_passed(Mark mark) override { return marks_.has_passed(mark); }
  std::int64_t time_of(Mark mark) override { return marks_.time_of(mark); }
  void follow(Mark mark) override { marks_.follow(operators_, mark); }
  void forget_marks() override {
    finish();
    marks_.forget();
  }
  void start_range(const char* name) override { start_profiler_range(name); }
  void end_range() override { end_profiler_range(); }

  // ---- Messages

  void* allocate_host(std::int64_t bytes) override {
    void* memory = nullptr;
    check(gpuHostMalloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1)),
          "allocate memory of the host for messages");
    return memory;
  }
  void release_host(void* memory) override {
    for (const Stream* stream : {&downloads_, &uploads_}) {
      static_cast<void>(gpuStreamSynchronize(stream->get()));
    }
    static_cast<void>(gpuHostFree(memory));
  }
  Mark start_download(void* to_host, const void* from, std::int64_t bytes) override {
    marks_.follow(downloads_, marks_.set(operators_));
    move(to_host, from, bytes, gpuMemcpyDeviceToHost, "copy from the GPU", downloads_);
    return marks_.set(downloads_);
  }
  Mark start_upload(void* to, const void* from_host, std::int64_t bytes, Mark after) override {
    marks_.follow(uploads_, after);
    move(to, from_host, bytes, gpuMemcpyHostToDevice, "copy to the GPU", uploads_);
    return marks_.set(uploads_);
  }

  // ---- Elements

  void fill(std::int64_t count, Array x, float value) override {
    by_type(
        "fill", [&](auto* to) { kernels::fill(stream_, count, to, value); }, x);
  }
  void fill_normal(std::int64_t count, float* x, const RandomKey& key, float deviation) override {
    kernels::fill_normal(stream_, count, x, key, deviation);
  }
  void add(std::int64_t count, ConstArray a, ConstArray b, Array y) override {
    by_type(
        "add", [&](auto*... all) { kernels::add(stream_, count, all...); }, a, b, y);
  }
  void copy(std::int64_t count, ConstArray x, Array y) override {
    if (x.type == y.type) {
      move(y.data, x.data, count * bytes_of(x.type), gpuMemcpyDeviceToDevice, "copy within the GPU",
           operators_);
    } else if (x.type == Number::float32) {
      kernels::convert(stream_, count, numbers<float>(x), numbers<gpuBfloat16>(y));
    } else {
      kernels::convert(stream_, count, numbers<gpuBfloat16>(x), numbers<float>(y));
    }
  }
  void sum_of_squares(std::int64_t count, const float* x, double* sum) override {
    const Scratch partials(memory_,
                           kernels::square_partials * static_cast<std::int64_t>(sizeof(double)));
    kernels::sum_of_squares(stream_, count, x, partials.as<double>());
    move(sum, partials.as<double>(), sizeof(double), gpuMemcpyDeviceToDevice, "copy within the GPU",
         operators_);
  }
  void dropout(std::int64_t count, ConstArray x, const Dropout& dropout, Array y) override {
    by_type(
        "dropout",
        [&](auto*... all) {
          if (dropout.probability > 0) {
            kernels::dropout(stream_, count, dropout, all...);
          } else if (y.data != x.data) {
            copy(count, x, y);
          }
        },
        x, y);
  }

  // ---- Matrices

  void matrix_product(Transpose transpose, std::int64_t m, std::int64_t n, std::int64_t k,
                      ConstArray a, ConstArray b, Array c, bool accumulate) override {
    if (b.type != a.type || (c.type != a.type && c.type != Number::float32)) {
      refuse_types("matrix_product");
    }
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
  void add_bias(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x) override {
    by_type(
        "add_bias", [&](auto*... all) { kernels::add_bias(stream_, rows, columns, all...); }, bias,
        x);
  }
  void add_column_sums(std::int64_t rows, std::int64_t columns, ConstArray x,
                       float* sums) override {
    const Scratch partials(memory_, kernels::column_partials(rows, columns) * float_bytes);
    by_type(
        "add_column_sums",
        [&](auto* from) {
          kernels::add_column_sums(stream_, rows, columns, from, sums, partials.as<float>());
        },
        x);
  }

  // ---- Parts of a layer

  void bias_gelu(std::int64_t rows, std::int64_t columns, ConstArray bias, Array x,
                 Array y) override {
    by_type(
        "bias_gelu", [&](auto*... all) { kernels::bias_gelu(stream_, rows, columns, all...); },
        bias, x, y);
  }
  void gelu_backward(std::int64_t count, ConstArray x, ConstArray dy, Array dx) override {
    by_type(
        "gelu_backward", [&](auto*... all) { kernels::gelu_backward(stream_, count, all...); }, x,
        dy, dx);
  }
  void gated_silu(std::int64_t rows, std::int64_t columns, ConstArray x, Array y) override {
    by_type(
        "gated_silu", [&](auto*... all) { kernels::gated_silu(stream_, rows, columns, all...); }, x,
        y);
  }
  void gated_silu_backward(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray dy,
                           Array dx) override {
    by_type(
        "gated_silu_backward",
        [&](auto*... all) { kernels::gated_silu_backward(stream_, rows, columns, all...); }, x, dy,
        dx);
  }
  void bias_dropout_add(std::int64_t rows, std::int64_t columns, ConstArray bias, ConstArray x,
                        ConstArray residual, const Dropout& dropout, Array y) override {
    by_type(
        "bias_dropout_add",
        [&](auto*... all) { kernels::bias_dropout_add(stream_, rows, columns, dropout, all...); },
        bias, x, residual, y);
  }
  void layer_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma,
                  ConstArray beta, Array y, float* mean, float* rstd) override {
    by_type(
        "layer_norm",
        [&](auto*... all) { kernels::layer_norm(stream_, rows, columns, all..., mean, rstd); }, x,
        gamma, beta, y);
  }
  void layer_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                           ConstArray gamma, const float* mean, const float* rstd,
                           ConstArray residual, Array dx, float* dgamma, float* dbeta) override {
    const Scratch partials(memory_, kernels::norm_partials(rows, columns) * float_bytes);
    by_type(
        "layer_norm_backward",
        [&](auto* slope, auto* in, auto* scale, auto*... others) {
          kernels::layer_norm_backward(stream_, rows, columns, slope, in, scale, mean, rstd,
                                       others..., dgamma, dbeta, partials.as<float>());
        },
        dy, x, gamma, residual, dx);
  }

  void rms_norm(std::int64_t rows, std::int64_t columns, ConstArray x, ConstArray gamma, Array y,
                float* rstd) override {
    by_type(
        "rms_norm", [&](auto*... all) { kernels::rms_norm(stream_, rows, columns, all..., rstd); },
        x, gamma, y);
  }
  void rms_norm_backward(std::int64_t rows, std::int64_t columns, ConstArray dy, ConstArray x,
                         ConstArray gamma, const float* rstd, ConstArray residual, Array dx,
                         float* dgamma) override {
    const Scratch partials(memory_, kernels::norm_partials(rows, columns) * float_bytes);
    by_type(
        "rms_norm_backward",
        [&](auto* slope, auto* in, auto* scale, auto*... others) {
          kernels::rms_norm_backward(stream_, rows, columns, slope, in, scale, rstd, others...,
                                     dgamma, partials.as<float>());
        },
        dy, x, gamma, residual, dx);
  }
  void rotate(const AttentionShape& shape, float base, bool back, Array qkv) override {
    const Scratch angles(memory_, shape.sequence * shape.head_size * float_bytes);
    by_type(
        "rotate",
        [&](auto* all) { kernels::rotate(stream_, shape, base, back, angles.as<float>(), all); },
        qkv);
  }

  // A number for each row of each head.
  std::int64_t attention_state(const AttentionShape& shape) const override {
    return shape.rows() * shape.heads;
  }
  void attention(const AttentionShape& shape, ConstArray qkv, float* state, Array y) override {
    by_type(
        "attention",
        [&](auto* in, auto* out) {
          if constexpr (std::is_same_v<decltype(out), gpuBfloat16*>) {
            if (on_tensor_cores(shape)) {
              return kernels::tensor_attention(stream_, shape, in, state, out);
            }
          }
          kernels::attention(stream_, shape, in, state, out);
        },
        qkv, y);
  }
  void attention_backward(const AttentionShape& shape, ConstArray qkv, float* state, ConstArray y,
                          ConstArray dy, Array dqkv) override {
    const Scratch room(memory_, attention_state(shape) * float_bytes);
    auto* dots = room.as<float>();
    by_type(
        "attention_backward",
        [&](auto* in, auto* out, auto* slope, auto* slope_in) {
          kernels::attention_dots(stream_, shape, out, slope, dots);
          if constexpr (std::is_same_v<decltype(slope_in), gpuBfloat16*>) {
            if (on_tensor_cores(shape)) {
              return kernels::tensor_attention_backward(stream_, shape, in, state, dots, slope,
                                                        slope_in);
            }
          }
          kernels::attention_backward(stream_, shape, in, state, dots, slope, slope_in);
        },
        qkv, y, dy, dqkv);
  }

  void embed(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
             const std::int32_t* tokens, ConstArray table, ConstArray positions, Array y) override {
    by_type(
        "embed",
        [&](auto*... all) { kernels::embed(stream_, rows, columns, sequence, tokens, all...); },
        table, positions, y);
  }
  void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t sequence,
                      const std::int32_t* tokens, ConstArray dy, float* dtable,
                      float* dpositions) override {
    const Scratch next(memory_, 2 * rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
    by_type(
        "embed_backward",
        [&](auto* slope) {
          kernels::embed_backward(stream_, rows, columns, sequence, tokens, slope, dtable,
                                  dpositions, next.as<std::int32_t>());
        },
        dy);
  }
  void cross_entropy(std::int64_t rows, std::int64_t classes, const std::int32_t* targets, Array x,
                     float* losses) override {
    by_type(
        "cross_entropy",
        [&](auto* logits) {
          kernels::cross_entropy(stream_, rows, classes, targets, logits, losses);
        },
        x);
  }
  void cross_entropy_of_part(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                             ConstArray x, float* part) override {
    by_type(
        "cross_entropy_of_part",
        [&](auto* logits) {
          kernels::cross_entropy_of_part(stream_, rows, classes, targets, logits, part);
        },
        x);
  }
  void join_cross_entropy(std::int64_t rows, std::int64_t classes, int ranks, const float* parts,
                          Array x, float* losses) override {
    by_type(
        "join_cross_entropy",
        [&](auto* softmax) {
          kernels::join_cross_entropy(stream_, rows, classes, ranks, parts, softmax, losses);
        },
        x);
  }
  void cross_entropy_backward(std::int64_t rows, std::int64_t classes, const std::int32_t* targets,
                              Array x) override {
    by_type(
        "cross_entropy_backward",
        [&](auto* softmax) {
          kernels::cross_entropy_backward(stream_, rows, classes, targets, softmax);
        },
        x);
  }
  void adamw(std::int64_t count, const AdamStep& step, const float* gradients, float* weights,
             float* first, float* second, Array rounded) override {
    by_type(
        "adamw",
        [&](auto* to) {
          kernels::adamw(stream_, count, step, gradients, weights, first, second, to);
        },
        rounded);
  }

 private:
  bool on_tensor_cores(const AttentionShape& shape) const {
    return tensor_cores_ && shape.head_size <= kernels::tensor_head_size;
  }

  template <typename Direction>
  static void move(void* to, const void* from, std::int64_t bytes, Direction direction,
                   const char* what, const Stream& stream) {
    if (bytes <= 0) return;
    check(gpuMemcpyAsync(to, from, static_cast<std::size_t>(bytes), direction, stream.get()), what);
  }

  void multiply(const GpuProduct& product) {
    if (product.m == 0 || product.n == 0) return;
    if (library_ && product.k > 0) {
      library_->multiply(product);
    } else {
      kernels::product(stream_, product);  // also fills with zeros if k is 0
    }
  }

  Chosen chosen_;
  Stream operators_;
  Stream downloads_;
  Stream uploads_;
  Marks marks_;
  gpuStream_t stream_;  // of the operators
  GpuMemory memory_;
  std::unique_ptr<LibraryProducts> library_;  // null: GEMMs by the built-in kernel
  bool tensor_cores_ = false;                 // for attention
  std::string description_;
  DeviceCapacity capacity_;
};

}  // namespace

std::unique_ptr<Device> make_gpu_device(const GpuOptions& options) {
  return std::make_unique<GpuDevice>(options);
}

Marks& marks_of(Device& device) { return static_cast<GpuDevice&>(device).marks(); }
GpuMemory& memory_of(Device& device) { return static_cast<GpuDevice&>(device).memory(); }

}  // namespace pipesim::exec
