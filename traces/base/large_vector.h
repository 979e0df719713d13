// A vector for tables of many megabytes: its memory comes in huge pages if
// the system has them, which saves a page fault every 4 KiB, and zeroed by
// the system, which saves writing the zeros again.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace pipesim {

// For trivially copyable elements whose default value is all zero bytes.
// Fresh memory is zero, so that constructing a default element does nothing:
// a vector may grow, but must not shrink and grow again by resize().
template <typename T>
struct LargeAllocator {
  static_assert(std::is_trivially_copyable_v<T>);
  using value_type = T;

  LargeAllocator() = default;
  template <typename U>
  explicit LargeAllocator(const LargeAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    if (bytes < large) {
      void* memory = std::calloc(count, sizeof(T));
      if (memory == nullptr) throw std::bad_alloc();
      return static_cast<T*>(memory);
    }
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // advice: without it the memory is as good
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < large) {
      std::free(memory);
    } else {
      ::munmap(memory, count * sizeof(T));
    }
  }

  template <typename U>
  void construct(U* /*element*/) {}
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }

  bool operator==(const LargeAllocator&) const = default;

 private:
  static constexpr std::size_t large = std::size_t{2} << 20;
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace pipesim
