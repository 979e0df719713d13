#include "tests/emulated_gpu/shared_memory.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

// The thread-local storage of the library that holds an address.
struct Storage {
  std::uintptr_t address;
  std::size_t library = 0;
  std::size_t bytes = 0;
  bool initialised = false;
};

int look(dl_phdr_info* info, std::size_t /*size*/, void* wanted) {
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

SharedMemory::SharedMemory(const void* kernel, std::size_t dynamic_bytes)
    : room_(dynamic_bytes + alignment), dynamic_bytes_(dynamic_bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(room_.data());
  dynamic_ = room_.data() + (alignment - start % alignment);
  Storage storage{reinterpret_cast<std::uintptr_t>(kernel)};
  ::dl_iterate_phdr(look, &storage);
  if (storage.initialised) {
    std::fputs("emulated GPU: a library with kernels has thread_local variables; move them\n",
               stderr);
    std::abort();
  }
  if (storage.bytes == 0) return;
  EmulatedGpuTlsIndex index{storage.library, 0};
  fixed_ = static_cast<char*>(__tls_get_addr(&index));
  fixed_bytes_ = storage.bytes;
}

void SharedMemory::poison() {
  if (fixed_ != nullptr) std::memset(fixed_, poison_byte, fixed_bytes_);
  std::memset(dynamic_, poison_byte, dynamic_bytes_);
}

std::size_t SharedMemory::used() const {
  const auto touched =
      std::count_if(fixed_, fixed_ + fixed_bytes_, [](char byte) { return byte != poison_byte; });
  return static_cast<std::size_t>(touched) + dynamic_bytes_;
}

}  // namespace emulated_gpu
