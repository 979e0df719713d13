// GEMMs by a library, oneDNN, if the build has it.
//
// Only on the calling thread, once that thread has called
// use_one_thread_for_products(). The same GEMM has the same bits at every
// call, for any alignment: tests/exec/products_test.cpp checks that.
#pragma once

#include <cstdint>
#include <string>

namespace pipesim::exec {

// c[m x n] = op(a)[m x k] op(b)[k x n], added to c if `accumulate`. All three are row-major, with
// `lda`, `ldb` and `ldc` elements from row to row as stored.
struct MatrixProduct {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;
};

// "oneDNN 2.6.3"; empty if the build has none.
std::string products_library();

// Both do nothing if the build has none. m, n and k must be positive.
void use_one_thread_for_products();
void library_product(const MatrixProduct& p);

}  // namespace pipesim::exec
