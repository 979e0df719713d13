// A hint to the processor: this memory is needed soon.
//
// For loops that visit many rows in turn, a little of each at a time, which
// the hardware does not predict. Any address is valid; nothing is accessed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pipesim {

// The memory `count` elements after `element`, which may be past the end.
template <typename T>
inline void prefetch_ahead(const T* element, std::size_t count) {
  const auto address = reinterpret_cast<std::uintptr_t>(element) + count * sizeof(T);
  __builtin_prefetch(reinterpret_cast<const void*>(address));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace pipesim
