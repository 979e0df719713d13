// The GPU's GEMMs.
//
// c[m x n] = op(a)[m x k] op(b)[k x n], row-major. a and b are of one type, c of
// that one or float32; sums are float32. The order of additions depends only on
// sizes and types. A LibraryProducts belongs to one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/device/device.h"
#include "exec/device/gpu/gpu.h"

namespace pipesim::exec {

struct GpuProduct {
  Transpose transpose = Transpose::none;
  std::int64_t m = 0, n = 0, k = 0;
  ConstArray a, b;
  Array c;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // numbers from row to row, as stored
  bool accumulate = false;
};

namespace kernels {
// The built-in one: tiles in shared memory, k in ascending order.
void product(gpuStream_t stream, const GpuProduct& product);
}  // namespace kernels

// The vendor's library.
class LibraryProducts {
 public:
  virtual ~LibraryProducts() = default;
  virtual std::string name() const = 0;
  virtual void multiply(const GpuProduct& product) = 0;
};
// Null if the build has none.
std::unique_ptr<LibraryProducts> make_library_products(gpuStream_t stream);

}  // namespace pipesim::exec
