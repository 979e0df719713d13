// Matrix products by cuBLAS called bare, on arrays allocated by a CUDA device of ours: the baseline
// for our own.
//
// They have their own streams and handles, so the device must have finished. There are none if this
// build has no cuBLAS. One thread, that of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.h"

namespace pipesim::exec {

// c[m x n] = op(a)[m x k] op(b)[k x n], row-major and dense; a and b of one type.
struct Product {
  Transpose transpose = Transpose::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Number type = Number::float32;
  Number result = Number::float32;
  bool accumulate = false;
};

struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

class BareProduct {
 public:
  virtual ~BareProduct() = default;
  virtual std::string name() const = 0;
  // Milliseconds per call, by events around `calls` of them, which take the operands in turn.
  // Throws a work error if the library reports one.
  virtual double run(int calls, const std::vector<Operands>& operands) = 0;
};

// cublasGemmEx, and cublasLt by its heuristic's first choice.
std::vector<std::unique_ptr<BareProduct>> bare_products(const Product& product);

}  // namespace pipesim::exec
