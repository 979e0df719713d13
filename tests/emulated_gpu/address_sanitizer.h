// Whether the address sanitizer watches: PIPESIM_ADDRESS_SANITIZER, and how it is
// told what it can't see by itself.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define PIPESIM_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PIPESIM_ADDRESS_SANITIZER
#endif
#endif

#ifdef PIPESIM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Of a function that may touch everything.
#define PIPESIM_UNWATCHED __attribute__((no_sanitize_address))

namespace emulated_gpu {

// Whether that memory may be touched by whoever is watched. The sanitizer counts in
// pieces of 8 bytes, of which only the last may be forbidden.
inline void forbid(const void* memory, std::size_t bytes) {
#ifdef PIPESIM_ADDRESS_SANITIZER
  __asan_poison_memory_region(memory, bytes);
#else
  static_cast<void>(memory), static_cast<void>(bytes);
#endif
}
inline void permit(const void* memory, std::size_t bytes) {
#ifdef PIPESIM_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, bytes);
#else
  static_cast<void>(memory), static_cast<void>(bytes);
#endif
}

}  // namespace emulated_gpu
