#include "exec/device/cpu/library_products.h"

#ifdef PIPESIM_HAS_ONEDNN

#include <dnnl.h>
#include <omp.h>

#include "traces/base/error.h"

namespace pipesim::exec {

std::string products_library() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

// A setting of the calling thread, not of the process.
void use_one_thread_for_products() { omp_set_num_threads(1); }

void library_product(const MatrixProduct& p) {
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1.0F, p.a,
                 p.lda, p.b, p.ldb, p.accumulate ? 1.0F : 0.0F, p.c, p.ldc);
  if (status == dnnl_success) return;
  throw work_error("GEMM of " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
                   std::to_string(p.k) + ": oneDNN failed with status " + std::to_string(status) +
                   "; is there memory left?");
}

}  // namespace pipesim::exec

#else

namespace pipesim::exec {

std::string products_library() { return {}; }
void use_one_thread_for_products() {}
void library_product(const MatrixProduct& /*p*/) {}

}  // namespace pipesim::exec

#endif
