#include "tests/growth/work.h"

#include <sanitizer/allocator_interface.h>

#include <algorithm>

namespace pipesim::testing {
namespace {

Work counted;
std::int64_t live_bytes = 0;
bool counts = false;

void on_allocation(const volatile void* /*memory*/, std::size_t bytes) {
  if (!counts) return;
  counted.allocated_bytes += static_cast<std::int64_t>(bytes);
  live_bytes += static_cast<std::int64_t>(bytes);
  counted.peak_bytes = std::max(counted.peak_bytes, live_bytes);
}

void on_release(const volatile void* memory) {
  if (!counts || memory == nullptr) return;
  live_bytes -=
      static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(memory)));
}

}  // namespace

Work work_of(const std::function<void()>& call) {
  static const int hooks = __sanitizer_install_malloc_and_free_hooks(on_allocation, on_release);
  static_cast<void>(hooks);
  counted = {};
  live_bytes = 0;
  counts = true;
  call();
  counts = false;
  return counted;
}

}  // namespace pipesim::testing

// What -fsanitize=fuzzer-no-link calls before each comparison and switch. Programs that
// count are linked with --wrap of each, so that a fuzzer still learns of them, too.
#define PIPESIM_COUNT(name, first, second)                                 \
  extern "C" void __real___sanitizer_cov_trace_##name(first, second);      \
  extern "C" void __wrap___sanitizer_cov_trace_##name(first a, second b) { \
    ++pipesim::testing::counted.steps;                                     \
    __real___sanitizer_cov_trace_##name(a, b);                             \
  }
PIPESIM_COUNT(cmp1, std::uint8_t, std::uint8_t)
PIPESIM_COUNT(cmp2, std::uint16_t, std::uint16_t)
PIPESIM_COUNT(cmp4, std::uint32_t, std::uint32_t)
PIPESIM_COUNT(cmp8, std::uint64_t, std::uint64_t)
PIPESIM_COUNT(const_cmp1, std::uint8_t, std::uint8_t)
PIPESIM_COUNT(const_cmp2, std::uint16_t, std::uint16_t)
PIPESIM_COUNT(const_cmp4, std::uint32_t, std::uint32_t)
PIPESIM_COUNT(const_cmp8, std::uint64_t, std::uint64_t)
PIPESIM_COUNT(switch, std::uint64_t, std::uint64_t*)
