// Matrix products by cuBLAS or hipBLAS, in float32 and always in the same
// order: no tensor cores, no atomics, and a workspace of the handle's own.
#include "exec/device/gpu/product.h"
#include "traces/base/error.h"

#if defined(PIPESIM_HAS_CUBLAS) || defined(PIPESIM_HAS_HIPBLAS)

#include <limits>

#ifdef PIPESIM_HAS_CUBLAS

#include <cublas_v2.h>

#define gpublasAtomicsNotAllowed CUBLAS_ATOMICS_NOT_ALLOWED
#define gpublasCreate cublasCreate
#define gpublasDestroy cublasDestroy
#define gpublasHandle_t cublasHandle_t
#define gpublasNoTranspose CUBLAS_OP_N
#define gpublasSetAtomicsMode cublasSetAtomicsMode
#define gpublasSetStream cublasSetStream
#define gpublasSgemmStridedBatched cublasSgemmStridedBatched
#define gpublasStatus_t cublasStatus_t
#define gpublasSuccess CUBLAS_STATUS_SUCCESS
#define gpublasTranspose CUBLAS_OP_T

#else

#include <hipblas/hipblas.h>

#define gpublasAtomicsNotAllowed HIPBLAS_ATOMICS_NOT_ALLOWED
#define gpublasCreate hipblasCreate
#define gpublasDestroy hipblasDestroy
#define gpublasHandle_t hipblasHandle_t
#define gpublasNoTranspose HIPBLAS_OP_N
#define gpublasSetAtomicsMode hipblasSetAtomicsMode
#define gpublasSetStream hipblasSetStream
#define gpublasSgemmStridedBatched hipblasSgemmStridedBatched
#define gpublasStatus_t hipblasStatus_t
#define gpublasSuccess HIPBLAS_STATUS_SUCCESS
#define gpublasTranspose HIPBLAS_OP_T

#endif

namespace pipesim::exec {
namespace {

void check_library(gpublasStatus_t status, const char* what) {
  if (status == gpublasSuccess) return;
  throw work_error(std::string(gpu_runtime) + "'s library of matrix products could not " + what +
                   ": status " + std::to_string(static_cast<int>(status)) +
                   "; is there memory left, and does the library fit the driver?");
}

int narrow(std::int64_t size) {
  if (size <= std::numeric_limits<int>::max()) return static_cast<int>(size);
  throw work_error(std::string(gpu_runtime) + ": a matrix of " + std::to_string(size) +
                   " rows or columns is more than the library takes; use smaller microbatches");
}

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

  // The library has columns where we have rows: c^T = op(b)^T op(a)^T.
  void multiply(const GpuProduct& p) override {
    const float one = 1;
    const float beta = p.accumulate ? 1 : 0;
    check_library(
        gpublasSgemmStridedBatched(
            handle_, p.transpose == Transpose::b ? gpublasTranspose : gpublasNoTranspose,
            p.transpose == Transpose::a ? gpublasTranspose : gpublasNoTranspose, narrow(p.n),
            narrow(p.m), narrow(p.k), &one, p.b, narrow(p.ldb), p.b_step, p.a, narrow(p.lda),
            p.a_step, &beta, p.c, narrow(p.ldc), p.c_step, narrow(p.count)),
        "multiply");
  }

 private:
#ifdef PIPESIM_HAS_CUBLAS
  // Pedantic: float32 as it stands, no TF32 and no emulation of it. The
  // workspace is of the size that is recommended for Hopper.
  void set_up() {
    check_library(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), "keep to float32");
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
