// A vector for tables of many megabytes: its memory comes in huge pages where
// the system has them, which spares a page fault every 4 KiB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace pipesim {

template <typename T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <typename U>
  explicit LargeAllocator(const LargeAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T) - huge_page) throw std::bad_alloc();
    const std::size_t bytes = (count * sizeof(T) + huge_page - 1) / huge_page * huge_page;
    if (bytes == huge_page) return static_cast<T*>(::operator new(count * sizeof(T)));
    void* memory = std::aligned_alloc(huge_page, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // advice: without it the memory is as good
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) <= huge_page) {
      ::operator delete(memory);
    } else {
      std::free(memory);
    }
  }
  bool operator==(const LargeAllocator&) const = default;

 private:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace pipesim
