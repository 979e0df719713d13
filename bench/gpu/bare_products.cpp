#include "bench/gpu/bare_products.h"

#ifdef PIPESIM_HAS_CUBLAS

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "traces/base/error.h"

namespace pipesim::exec {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // as the device's

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw work_error(std::string("bare products: can't ") + what + ": " + cudaGetErrorString(result) +
                   "; run it where the CUDA module works");
}
void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw work_error(std::string("bare products: cuBLAS can't ") + what + ": " +
                   cublasGetStatusString(status) + "; is there memory left?");
}

cudaDataType_t type_of(Number type) { return type == Number::float32 ? CUDA_R_32F : CUDA_R_16BF; }

// Row-major products with a column-major library: c^T = op(b)^T op(a)^T.
struct Columns {
  explicit Columns(const Product& p)
      : first(p.transpose == Transpose::b ? CUBLAS_OP_T : CUBLAS_OP_N),
        second(p.transpose == Transpose::a ? CUBLAS_OP_T : CUBLAS_OP_N),
        rows(static_cast<int>(p.n)),
        columns(static_cast<int>(p.m)),
        inner(static_cast<int>(p.k)),
        ld_first(p.transpose == Transpose::b ? inner : rows),
        ld_second(p.transpose == Transpose::a ? columns : inner),
        beta(p.accumulate ? 1.0F : 0.0F) {}

  cublasOperation_t first, second;
  int rows, columns, inner, ld_first, ld_second;
  float alpha = 1;
  float beta;
};

// A stream with a workspace, and times on it.
class Timed : public BareProduct {
 public:
  explicit Timed(const Product& product) : product_(product), columns_(product) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
    check(cudaEventCreate(&before_), "create an event");
    check(cudaEventCreate(&after_), "create an event");
    check(cudaMalloc(&workspace_, workspace_bytes), "allocate a workspace");
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() override {
    static_cast<void>(cudaFree(workspace_));
    static_cast<void>(cudaEventDestroy(after_));
    static_cast<void>(cudaEventDestroy(before_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  double run(int calls, const std::vector<Operands>& operands) final {
    check(cudaDeviceSynchronize(), "wait for the device");
    check(cudaEventRecord(before_, stream_), "record an event");
    for (int call = 0; call < calls; ++call) {
      multiply(operands[static_cast<std::size_t>(call) % operands.size()]);
    }
    check(cudaEventRecord(after_, stream_), "record an event");
    check(cudaEventSynchronize(after_), "multiply");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, before_, after_), "tell a time");
    return static_cast<double>(ms) / calls;
  }

 protected:
  virtual void multiply(const Operands& operands) = 0;

  Product product_;
  Columns columns_;
  cudaStream_t stream_ = nullptr;
  void* workspace_ = nullptr;

 private:
  cudaEvent_t before_ = nullptr;
  cudaEvent_t after_ = nullptr;
};

class Gemm final : public Timed {
 public:
  explicit Gemm(const Product& product) : Timed(product) {
    check(cublasCreate(&handle_), "start");
    check(cublasSetStream(handle_, stream_), "take a stream");
    check(cublasSetWorkspace(handle_, workspace_, workspace_bytes), "take a workspace");
  }
  ~Gemm() override { static_cast<void>(cublasDestroy(handle_)); }

  std::string name() const override { return "cublasGemmEx"; }

 private:
  void multiply(const Operands& x) override {
    const Columns& c = columns_;
    check(cublasGemmEx(handle_, c.first, c.second, c.rows, c.columns, c.inner, &c.alpha, x.b,
                       type_of(product_.type), c.ld_first, x.a, type_of(product_.type), c.ld_second,
                       &c.beta, x.c, type_of(product_.result), c.rows, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT),
          "multiply");
  }

  cublasHandle_t handle_ = nullptr;
};

class Light final : public Timed {
 public:
  explicit Light(const Product& product) : Timed(product) {
    const Columns& c = columns_;
    check(cublasLtCreate(&handle_), "start");
    check(cublasLtMatmulDescCreate(&what_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, c.first);
    set(CUBLASLT_MATMUL_DESC_TRANSB, c.second);
    const bool flip_first = c.first == CUBLAS_OP_T;
    const bool flip_second = c.second == CUBLAS_OP_T;
    layout(first_, product.type, flip_first ? c.inner : c.rows, flip_first ? c.rows : c.inner,
           c.ld_first);
    layout(second_, product.type, flip_second ? c.columns : c.inner,
           flip_second ? c.inner : c.columns, c.ld_second);
    layout(result_, product.result, c.rows, c.columns, c.rows);

    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "make a preference");
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &workspace_bytes, sizeof workspace_bytes),
          "take a workspace");
    int found = 0;
    cublasLtMatmulHeuristicResult_t choice{};
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, what_, first_, second_, result_, result_, preference, 1, &choice, &found);
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
    check(status, "choose how to multiply");
    algorithm_ = choice.algo;
  }
  ~Light() override {
    for (cublasLtMatrixLayout_t each : {first_, second_, result_}) {
      static_cast<void>(cublasLtMatrixLayoutDestroy(each));
    }
    static_cast<void>(cublasLtMatmulDescDestroy(what_));
    static_cast<void>(cublasLtDestroy(handle_));
  }

  std::string name() const override { return "cublasLtMatmul"; }

 private:
  void set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t value) {
    check(cublasLtMatmulDescSetAttribute(what_, attribute, &value, sizeof value),
          "describe a product");
  }
  static void layout(cublasLtMatrixLayout_t& matrix, Number type, int rows, int columns,
                     int leading) {
    check(cublasLtMatrixLayoutCreate(&matrix, type_of(type), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), leading),
          "describe a matrix");
  }

  void multiply(const Operands& x) override {
    check(cublasLtMatmul(handle_, what_, &columns_.alpha, x.b, first_, x.a, second_, &columns_.beta,
                         x.c, result_, x.c, result_, &algorithm_, workspace_, workspace_bytes,
                         stream_),
          "multiply");
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t what_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;
  cublasLtMatrixLayout_t second_ = nullptr;
  cublasLtMatrixLayout_t result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::vector<std::unique_ptr<BareProduct>> bare_products(const Product& product) {
  std::vector<std::unique_ptr<BareProduct>> all;
  all.push_back(std::make_unique<Gemm>(product));
  all.push_back(std::make_unique<Light>(product));
  return all;
}

}  // namespace pipesim::exec

#else

namespace pipesim::exec {

std::vector<std::unique_ptr<BareProduct>> bare_products(const Product& /*product*/) { return {}; }

}  // namespace pipesim::exec

#endif
