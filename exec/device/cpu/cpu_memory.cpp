#include <cstdlib>

#include "exec/device/cpu/cpu_operators.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

FloatOperators::~FloatOperators() { release(scratch_); }

void* FloatOperators::allocate(std::int64_t bytes) {
  constexpr std::size_t line = 64;
  // aligned_alloc needs whole lines; zero bytes get one line, so that null means failure.
  const auto lines = static_cast<std::size_t>(bytes) / line + 1;
  void* memory =
      bytes >= 0 && bytes <= max_bytes ? std::aligned_alloc(line, lines * line) : nullptr;
  if (memory == nullptr) {
    throw work_error("cpu: no memory left for " + format_bytes(bytes) +
                     "; take a smaller model, smaller microbatches or fewer ranks");
  }
  return memory;
}

void FloatOperators::release(void* memory) { std::free(memory); }

float* FloatOperators::scratch(std::int64_t floats) {
  if (floats > scratch_floats_) {
    release(scratch_);
    scratch_ = nullptr;
    scratch_floats_ = 0;
    scratch_ = static_cast<float*>(allocate(floats * static_cast<std::int64_t>(sizeof(float))));
    scratch_floats_ = floats;
  }
  return scratch_;
}

}  // namespace pipesim::exec
