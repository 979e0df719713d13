#include "exec/device/cpu/cpu_device.h"

#include <cstdlib>
#include <cstring>
#include <limits>

#include "exec/device/cpu/cpu_operators.h"
#include "exec/device/cpu/library_products.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {

CpuBase::CpuBase(const char* instructions, bool own_products)
    : description_(std::string("cpu (") + instructions + ", matrix products by " +
                   (own_products ? "its own kernel" : products_library()) + ")") {}

CpuBase::~CpuBase() { release(scratch_); }

std::string CpuBase::description() const { return description_; }

void* CpuBase::allocate(std::int64_t bytes) {
  constexpr std::size_t line = 64;
  // aligned_alloc wants whole lines; no bytes are one line, so that null means failure.
  const auto lines = static_cast<std::size_t>(bytes) / line + 1;
  void* memory =
      bytes >= 0 && bytes <= max_bytes ? std::aligned_alloc(line, lines * line) : nullptr;
  if (memory == nullptr) {
    throw work_error("cpu: no memory left for " + format_bytes(bytes) +
                     "; take a smaller model, smaller microbatches or fewer ranks");
  }
  return memory;
}

void CpuBase::release(void* memory) { std::free(memory); }

void CpuBase::upload(void* to, const void* from_host, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from_host, static_cast<std::size_t>(bytes));
}

void CpuBase::download(void* to_host, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to_host, from, static_cast<std::size_t>(bytes));
}

void CpuBase::finish() {}

float* CpuBase::scratch(std::int64_t floats) {
  if (floats > scratch_floats_) {
    release(scratch_);
    scratch_ = nullptr;
    scratch_floats_ = 0;
    scratch_ = static_cast<float*>(allocate(floats * static_cast<std::int64_t>(sizeof(float))));
    scratch_floats_ = floats;
  }
  return scratch_;
}

namespace {

struct InstructionSet {
  const char* name;
  bool runs_here;
  Device* (*make)(bool own_products);
};

std::vector<InstructionSet> compiled_in() {
  std::vector<InstructionSet> sets;
#ifdef PIPESIM_HAS_V4
  sets.push_back({"x86-64-v4",
                  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl"),
                  make_cpu_operators_v4});
#endif
#ifdef PIPESIM_HAS_V3
  sets.push_back({"x86-64-v3",
                  __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"),
                  make_cpu_operators_v3});
#endif
  sets.push_back({"baseline", true, make_cpu_operators_baseline});
  return sets;
}

}  // namespace

std::vector<std::string> cpu_instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet& set : compiled_in()) {
    if (set.runs_here) names.emplace_back(set.name);
  }
  return names;
}

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  const bool own_products = options.own_products || products_library().empty();
  if (!own_products) use_one_thread_for_products();
  for (const InstructionSet& set : compiled_in()) {
    if (set.runs_here && (options.instructions.empty() || options.instructions == set.name)) {
      return std::unique_ptr<Device>(set.make(own_products));
    }
  }
  throw input_error(unknown_name("instruction set", options.instructions, cpu_instruction_sets()));
}

}  // namespace pipesim::exec
