// GEMMs by cuBLAS or hipBLAS, with sums in float32 and always in the same order: no atomics, and a
// private workspace. Float32 is multiplied in full precision, bfloat16 by tensor cores.
#include "exec/device/gpu/product.h"
#include "traces/base/error.h"

#if defined(PIPESIM_HAS_CUBLAS) || defined(PIPESIM_HAS_HIPBLAS)

#include <limits>

#ifdef PIPESIM_HAS_CUBLAS

#include <cublas_v2.h>

#define gpublasAtomicsNotAllowed CUBLAS_ATOMICS_NOT_ALLOWED
#define gpublasCreate cublasCreate
#define gpublasDefaultAlgorithm CUBLAS_GEMM_DEFAULT
#define gpublasDestroy cublasDestroy
#define gpublasGemmEx cublasGemmEx
#define gpublasHandle_t cublasHandle_t
#define gpublasNoTranspose CUBLAS_OP_N
#define gpublasSetAtomicsMode cublasSetAtomicsMode
#define gpublasSetStream cublasSetStream
#define gpublasStatus_t cublasStatus_t
#define gpublasSuccess CUBLAS_STATUS_SUCCESS
#define gpublasTranspose CUBLAS_OP_T

namespace pipesim::exec {
namespace {
// Pedantic: no TF32, and no emulation of float32 by smaller numbers.
constexpr auto float32_type = CUDA_R_32F;
constexpr auto float32_sums = CUBLAS_COMPUTE_32F_PEDANTIC;
constexpr auto bfloat16_type = CUDA_R_16BF;
constexpr auto bfloat16_sums = CUBLAS_COMPUTE_32F;
}  // namespace
}  // namespace pipesim::exec

#else

#define HIPBLAS_V2  // the types of hipBLAS 3 in hipBLAS 2
#include <hipblas/hipblas.h>

#define gpublasAtomicsNotAllowed HIPBLAS_ATOMICS_NOT_ALLOWED
#define gpublasCreate hipblasCreate
#define gpublasDefaultAlgorithm HIPBLAS_GEMM_DEFAULT
#define gpublasDestroy hipblasDestroy
#define gpublasGemmEx hipblasGemmEx
#define gpublasHandle_t hipblasHandle_t
#define gpublasNoTranspose HIPBLAS_OP_N
#define gpublasSetAtomicsMode hipblasSetAtomicsMode
#define gpublasSetStream hipblasSetStream
#define gpublasStatus_t hipblasStatus_t
#define gpublasSuccess HIPBLAS_STATUS_SUCCESS
#define gpublasTranspose HIPBLAS_OP_T

namespace pipesim::exec {
namespace {
#if hipblasVersionMajor >= 2
constexpr auto float32_type = HIP_R_32F;
constexpr auto float32_sums = HIPBLAS_COMPUTE_32F;
constexpr auto bfloat16_type = HIP_R_16BF;
#else
constexpr auto float32_type = HIPBLAS_R_32F;
constexpr auto float32_sums = HIPBLAS_R_32F;
constexpr auto bfloat16_type = HIPBLAS_R_16B;
#endif
constexpr auto bfloat16_sums = float32_sums;
}  // namespace
}  // namespace pipesim::exec

#endif

namespace pipesim::exec {
namespace {

void check_library(gpublasStatus_t status, const char* what) {
  if (status == gpublasSuccess) return;
  throw work_error(std::string(gpu_runtime) + "'s GEMM library could not " + what + ": status " +
                   std::to_string(static_cast<int>(status)) +
                   "; is there memory left, and does the library fit the driver?");
}

int narrow(std::int64_t size) {
  if (size <= std::numeric_limits<int>::max()) return static_cast<int>(size);
  throw work_error(std::string(gpu_runtime) + ": a matrix of " + std::to_string(size) +
                   " rows or columns is more than the library takes; use smaller microbatches");
}

auto type_of(Number type) { return type == Number::float32 ? float32_type : bfloat16_type; }

class Blas final : public LibraryProducts {
 public:
  explicit Blas(gpuStream_t stream) {
    check_library(gpublasCreate(&handle_), "start");
    try {
      check_library(gpublasSetStream(handle_, stream), "take a stream");
      check_library(gpublasSetAtomicsMode(handle_, gpublasAtomicsNotAllowed), "do without atomics");
      set_up();
    } catch (...) {
      close();
      throw;
    }
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() override { close(); }

  std::string name() const override { return name_; }

  // The library is column-major, we are row-major: c^T = op(b)^T op(a)^T.
  void multiply(const GpuProduct& p) override {
    const float one = 1;
    const float beta = p.accumulate ? 1 : 0;
    const auto type = type_of(p.a.type);
    check_library(
        gpublasGemmEx(handle_, p.transpose == Transpose::b ? gpublasTranspose : gpublasNoTranspose,
                      p.transpose == Transpose::a ? gpublasTranspose : gpublasNoTranspose,
                      narrow(p.n), narrow(p.m), narrow(p.k), &one, p.b.data, type, narrow(p.ldb),
                      p.a.data, type, narrow(p.lda), &beta, p.c.data, type_of(p.c.type),
                      narrow(p.ldc), p.a.type == Number::float32 ? float32_sums : bfloat16_sums,
                      gpublasDefaultAlgorithm),
        "multiply");
  }

 private:
#ifdef PIPESIM_HAS_CUBLAS
  // Partial sums are never rounded to bfloat16. The workspace has the size recommended for Hopper.
  void set_up() {
    check_library(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                  "keep sums in float32");
    constexpr std::size_t bytes = std::size_t{32} << 20;
    check(gpuMalloc(&workspace_, bytes), "allocate a workspace");
    check_library(cublasSetWorkspace(handle_, workspace_, bytes), "take a workspace");
    int version = 0;
    check_library(cublasGetVersion(handle_, &version), "tell its version");
    name_ = "cuBLAS " + std::to_string(version / 10000) + "." +
            std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  }
#else
  void set_up() { name_ = "hipBLAS"; }
#endif

  void close() {
    static_cast<void>(gpublasDestroy(handle_));
    static_cast<void>(gpuFree(workspace_));
  }

  gpublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::string name_;
};

}  // namespace

std::unique_ptr<LibraryProducts> make_library_products(gpuStream_t stream) {
  return std::make_unique<Blas>(stream);
}

}  // namespace pipesim::exec

#else

namespace pipesim::exec {

std::unique_ptr<LibraryProducts> make_library_products(gpuStream_t /*stream*/) { return nullptr; }

}  // namespace pipesim::exec

#endif
