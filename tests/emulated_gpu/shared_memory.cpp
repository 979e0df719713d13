#include "tests/emulated_gpu/shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emulated_gpu/address_sanitizer.h"

// Of glibc: the calling thread's copy of a library's thread-local storage, made
// where there is none yet.
struct EmulatedGpuTlsIndex {
  unsigned long library;
  unsigned long offset;
};
extern "C" void* __tls_get_addr(EmulatedGpuTlsIndex* index);

namespace emulated_gpu {
namespace {

constexpr char poison_byte = '\xff';
constexpr std::size_t alignment = 256;
constexpr std::size_t chunk = 1024;
constexpr std::size_t margin = 8 * chunk;

// The thread-local storage of the library that holds an address.
struct Storage {
  std::uintptr_t address;
  std::size_t library = 0;
  std::size_t bytes = 0;
  bool initialised = false;
};

int find(dl_phdr_info* info, std::size_t /*size*/, void* wanted) {
  auto& storage = *static_cast<Storage*>(wanted);
  const ElfW(Phdr)* tls = nullptr;
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type == PT_TLS) tls = &part;
    const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
    found = found || (part.p_type == PT_LOAD && storage.address - start < part.p_memsz);
  }
  if (!found) return 0;
  if (tls != nullptr) {
    storage.library = info->dlpi_tls_modid;
    storage.bytes = tls->p_memsz;
    storage.initialised = tls->p_filesz != 0;
  }
  return 1;
}

}  // namespace

SharedMemory::SharedMemory(const void* kernel, const Extent& extent, std::size_t dynamic_bytes)
    : extent_(extent), room_(dynamic_bytes + alignment), dynamic_bytes_(dynamic_bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(room_.data());
  dynamic_ = room_.data() + (alignment - start % alignment);
  forbid(room_.data(), alignment - start % alignment);
  forbid(dynamic_ + dynamic_bytes, start % alignment);
  Storage storage{reinterpret_cast<std::uintptr_t>(kernel)};
  ::dl_iterate_phdr(find, &storage);
  if (storage.initialised) {
    std::fputs("emulated GPU: a library with kernels has thread_local variables; move them\n",
               stderr);
    std::abort();
  }
  extent_.end = std::min(extent_.end, storage.bytes);
  if (storage.bytes == 0) return;
  EmulatedGpuTlsIndex index{storage.library, 0};
  fixed_ = static_cast<char*>(__tls_get_addr(&index));
  fixed_bytes_ = storage.bytes;
}

void SharedMemory::poison() {
  if (!has_looked_ && fixed_ != nullptr) {
    std::memset(fixed_ + extent_.begin, poison_byte, extent_.end - extent_.begin);
  }
  for (const std::size_t at : touched_) {
    std::memset(fixed_ + at, poison_byte, std::min(chunk, extent_.end - at));
  }
  std::memset(dynamic_, poison_byte, dynamic_bytes_);
}

std::size_t SharedMemory::look() {
  static const std::vector<char> poisoned(chunk, poison_byte);
  std::size_t bytes = dynamic_bytes_;
  has_looked_ = true;
  for (std::size_t at = extent_.begin; at < extent_.end; at += chunk) {
    const char* part = fixed_ + at;
    const std::size_t size = std::min(chunk, extent_.end - at);
    if (std::memcmp(part, poisoned.data(), size) == 0) continue;
    touched_.push_back(at);
    bytes += size - static_cast<std::size_t>(std::count(part, part + size, poison_byte));
  }
  return bytes;
}

Extent SharedMemory::extent() const {
  if (touched_.empty()) return {0, 0};
  const std::size_t begin = touched_.front();
  return {begin < margin ? 0 : begin - margin,
          std::min(touched_.back() + chunk + margin, fixed_bytes_)};
}

}  // namespace emulated_gpu
